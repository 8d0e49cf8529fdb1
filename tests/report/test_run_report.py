"""Reports of one run."""

import json

import pytest

from lt2theory.report.html import render
from lt2theory.report.run_report import report_run, run_content
from lt2theory.runs import RunFolder

NOBODY = {"label": "arm", "seed": 0, "task": "other"}


def content(path):
    return run_content(RunFolder.open(path))


def test_a_solved_run_is_told_from_training_to_test(write_run):
    report = content(write_run("solved"))
    assert report.summary == ["The run solved all of its 2 stages in 300 steps."]
    assert [section.title for section in report.sections] == [
        "Training", "Test", "Learning rate", "Setting",
    ]  # fmt: skip
    training, test, rates, setting = report.sections
    assert training.happened == [
        "Stage 8: solved within 100 steps.",
        "Stage 16: solved within 200 steps.",
    ]
    assert len(training.figures) == 1
    assert len(training.tables) == 2
    assert test.happened[0] == (
        "number of swaps 8: 0.960 [0.940, 0.980] (above the best floor: yes)."
    )
    assert test.tables[0].frame["floors"][0] == "uniform 0.500; no tracking 0.125"
    assert "(supervision: final; layout: plain)" in test.tables[0].caption
    assert len(test.figures) == 2
    assert rates.tables[0].frame["learning rate"].tolist() == ["0.001", "0.01"]
    assert rates.tables[0].frame["seed"].tolist() == ["7", "7"]
    rows = dict(setting.tables[0].frame.to_records(index=False))
    assert rows["parameters"] == "1,234"
    assert rows["model.num_loops"] == "2"
    assert rows["task: supervision"] == "final"


def test_figures_show_the_runs_own_numbers(write_run, line):
    training, test, *_ = content(write_run("budget_exhausted")).sections
    accuracy = training.figures[0].figure.axes[1]
    assert line(accuracy, "8 solved")[0, 0] == 100
    assert line(accuracy, "floor: uniform")[0, 1] == 0.5
    (stages,) = test.figures[0].figure.axes
    assert line(stages, "arm").tolist() == [[8, 0.96], [16, 0.71], [32, 0.8]]
    assert line(stages, "largest in training: 16")[0, 0] == 16


def test_stages_never_reached_do_not_count_as_trained(write_run, line):
    path = write_run("budget_exhausted")
    lines = (path / "metrics.jsonl").read_text().splitlines(keepends=True)
    kept = [one for one in lines if '"split":"train"' not in one or '"stage":8' in one]
    kept = [one for one in kept if '"split":"eval"' not in one or '"stage":8' in one]
    (path / "metrics.jsonl").write_text("".join(kept))
    (axes,) = content(path).sections[1].figures[0].figure.axes
    assert line(axes, "largest in training: 8")[0, 0] == 8


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("budget_exhausted", "The run solved 1 of its 2 stages; the step budget of the next one"),
        ("diverged", "The run diverged at step 301 (the loss is not finite) after solving 1 of 2"),
        ("unfinished", "The run is not finished"),
    ],
)
def test_other_ends_are_told_as_such(write_run, status, said):
    report = content(write_run(status))
    assert report.summary[0].startswith(said)
    assert said in render(report)
    assert ("Test" in [section.title for section in report.sections]) == (
        status == "budget_exhausted"
    )


def test_the_page_lies_in_the_folder_or_where_asked(write_run, tmp_path):
    path = write_run()
    assert report_run(path) == path / "report.html"
    elsewhere = report_run(path, output=tmp_path / "r.html", command="lt2 report x")
    page = elsewhere.read_text(encoding="utf-8")
    assert "lt2 report x" in page
    assert "what &lt;it&gt; is" in page
    # Reporting adds nothing that would make the run look different the next time.
    assert report_run(path).read_bytes() == (path / "report.html").read_bytes()


def test_other_folders_are_refused(tmp_path, write_run):
    with pytest.raises(ValueError, match="is not a folder"):
        report_run(tmp_path / "nothing")
    path = tmp_path / "other"
    with RunFolder.writing(path, kind="text", config={}, identity=NOBODY) as run:
        pass
    with pytest.raises(ValueError, match="is a run of kind 'text', allowed is 'curriculum'"):
        run_content(run)
    empty = write_run("unfinished", seed=9)
    (empty / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match="has measured nothing yet"):
        report_run(empty)


def test_a_run_that_diverged_before_it_measured_anything_is_told(write_run):
    folder = write_run("diverged")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["split"] in ("selection", "run")]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in kept))
    assert content(folder).summary == [
        "The run diverged at step 301 (the loss is not finite) after solving 1 of 2 stages."
    ]
    assert report_run(folder).exists()


def test_a_summary_of_something_else_is_refused(write_run):
    folder = write_run()
    (folder / "summary.json").write_text("{}")
    with pytest.raises(ValueError, match=r"its summary\.json is damaged, it lacks stages"):
        report_run(folder)
