"""Reports of studies."""

import shutil

import pytest

from lt2theory.report.html import render
from lt2theory.report.study_report import problem_name, report_study, study_content
from lt2theory.runs import Study, run_status

ARMS = [("solved", "b", seed, {}) for seed in range(3)] + [
    ("budget_exhausted", "a", 0, {}),
    ("solved", "a", 1, {}),
    ("diverged", "a", 2, {}),
]


def test_arms_are_compared_over_seeds(write_study, line):
    (section,) = study_content(Study(write_study(ARMS))).sections
    assert section.happened == [
        "b: 3 of 3 seeds solved; median steps: 300 [300, 300] (75.0 % interval).",
        "a: 1 of 3 seeds solved; median steps: not reached (above 300).",
        "1 run diverged, which counts as not solved.",
    ]
    curves, rates, steps, stages, prefix = (one.figure for one in section.figures)
    assert len(curves.axes[1].get_lines()) >= 6
    assert line(rates.axes[0], "a")[0, 0] == pytest.approx(1 / 3)
    assert line(steps.axes[0], "a (not solved)")[:, 0].tolist() == [300, 300]
    assert line(stages.axes[0], "a")[:, 1].tolist() == pytest.approx([0.96, 0.815, 0.8])
    assert len(prefix.axes[0].get_lines()) == 5
    outcome, tests = section.tables
    assert outcome.frame["success rate"][0].startswith("1.000 [0.292")
    assert "(supervision: final; layout: plain)" in tests.caption
    assert section.question.endswith("what <it> is")
    assert tests.frame["seeds"].tolist() == [3, 3, 3, 2, 2, 2]
    assert tests.frame["n"].tolist() == ["4,096"] * 6


def test_an_arm_keeps_its_colour_in_every_figure(write_study):
    (section,) = study_content(Study(write_study(ARMS))).sections
    colours = {
        one.get_color()
        for drawing in section.figures
        for axes in drawing.figure.axes
        for one in axes.get_lines()
        if one.get_label() == "a"
    }
    assert len(colours) == 1


def test_every_setting_of_the_knobs_is_a_problem_of_its_own(write_study):
    root = write_study([("solved", "a", 0, {"distance": 4}), ("solved", "a", 0, {"distance": 9})])
    report = study_content(Study(root))
    assert [section.title for section in report.sections] == [
        "pointer_game (distance 4)", "pointer_game (distance 9)",
    ]  # fmt: skip
    assert report.summary == ["2 of 2 runs ended: 1 arm, 1 seed, 2 problems."]


def test_unfinished_and_missing_runs_count_in_no_rate(write_study):
    root = write_study([
        ("solved", "a", 0, {}), ("unfinished", "a", 1, {}), ("absent", "a", 2, {}),
    ])  # fmt: skip
    report = study_content(Study(root))
    assert report.summary[0].startswith("1 of 3 runs ended")
    assert report.sections[0].tables[0].frame["solved"].tolist() == ["1 of 1 seed"]
    assert report.sections[0].notes == ["Not ended, so not in any rate: 1 run."]


def test_only_unfinished_runs_still_give_curves(write_study):
    report = study_content(Study(write_study([("unfinished", "a", 0, {})])))
    assert report.sections[0].happened == ["No run has ended yet."]
    assert len(report.sections[0].figures) == 1
    assert "No run has ended yet." in render(report)


def test_a_study_without_its_runs_is_reported_from_its_table(write_study):
    root = write_study(ARMS)
    before = study_content(Study(root)).sections[0].happened
    for run in Study(root).runs:
        shutil.rmtree(root / run.folder)
        assert run_status(root / run.folder) == "absent"
    page = report_study(root)
    assert page == root / "report.html"
    assert study_content(Study(root)).sections[0].happened == before


def test_studies_of_nothing_and_of_other_kinds_are_refused(write_study, tmp_path):
    with pytest.raises(ValueError, match="has measured nothing yet"):
        report_study(write_study([("absent", "a", 0, {})]))
    other = Study.create(tmp_path / "other", [], kind="text")
    with pytest.raises(ValueError, match="is a study of 'text', allowed is 'curriculum'"):
        study_content(other)
    with pytest.raises(ValueError, match="is not a study"):
        report_study(tmp_path)


def test_problems_in_words():
    assert problem_name({"name": "parity", "knobs": {}}) == "parity"
    task = {"name": "group_word", "knobs": {"group": "S3", "tokens": "all"}}
    assert problem_name(task) == "group_word (group S3, tokens all)"
