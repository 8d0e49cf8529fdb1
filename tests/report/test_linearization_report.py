"""Reports of linearizations, selections and evaluations, and their figures."""

import shutil

import pandas as pd
import pytest

from lt2theory.linearize.engine import run_recipe
from lt2theory.linearize.evaluation.evaluate import TABLE
from lt2theory.linearize.evaluation.table import Measured, measured_table
from lt2theory.linearize.selectors_compared import KIND, SCORES
from lt2theory.report.dispatch import report_path
from lt2theory.report.figures.linearization import (
    divergence_by_budget,
    found_by_length,
    recovery_by_stage,
    stage_courses,
)
from lt2theory.runs import RunFolder, write_json, write_table
from lt2theory.training.lm import Execution
from lt2theory.training.signals import Interrupted
from tests.linearize.runs import make_recipe, make_sources


@pytest.fixture(scope="module")
def linearization(tmp_path_factory):
    """A linearization of five stages of three to five steps."""
    folder = tmp_path_factory.mktemp("linearization")
    sources = make_sources(folder / "sources")
    run_recipe(make_recipe(), Execution(), sources, folder=folder / "run")
    return folder / "run"


def evaluation():
    """Some numbers of each kind."""
    place = {"part": "needle", "kind": "word", "metric": "found", "floor": 1 / 256, "n": 20}
    rows = [
        Measured(
            model=model, length=length, value=value, low=value - 0.1, high=value + 0.1, **place
        )
        for model, values in (("teacher", (0.9, 0.8)), ("student", (0.7, 0.1)))
        for length, value in zip((256, 512), values, strict=True)
    ]
    rows.append(Measured(part="speed", model="student", metric="weights_mib", value=2.5))
    rows.append(
        Measured(part="recovery", model="pair", metric="kl", value=0.5, low=0.4, high=0.6, n=9)
    )
    return measured_table(rows)


def scores():
    """Two selectors over three layers."""
    layers = {"layer": [0, 1, 2], "mean": [0.1, 0.5, 0.2], "lowest": [0.0, 0.4, 0.1]}
    more = {"highest": [0.2, 0.6, 0.3], "chosen": [False, True, False], "share": [0.0, 1.0, 0.0]}
    return pd.concat(
        [pd.DataFrame({"selector": name, **layers, **more}) for name in ("trained", "distance")]
    )


def test_a_linearization_shows_every_stage(linearization, tmp_path):
    text = report_path(linearization, output=tmp_path / "a.html").read_text(encoding="utf-8")
    for name in ("Recovery by stage", "Course", "Speed of training", "Setting", "before"):
        assert name in text
    for stage in ("attention", "hidden", "instruction-distillation"):
        assert stage in text
    assert "test: tiny linearized, seed 0" in text
    assert "Needles" not in text
    whole = tmp_path / "whole"
    shutil.copytree(linearization, whole)
    for name, table, file in (("evaluation", evaluation(), TABLE), ("selection", scores(), SCORES)):
        (whole / name).mkdir()
        write_table(whole / name / file, table)
    text = report_path(whole).read_text(encoding="utf-8")
    assert "Needles by length" in text
    assert "Layers that keep softmax" in text
    assert "trained keeps layer 1, as 100 % of single seeds would." in text


def test_an_unfinished_one_shows_what_there_is(tmp_path):
    sources = make_sources(tmp_path / "sources")
    with pytest.raises(Interrupted):
        run_recipe(make_recipe(), Execution(), sources, folder=tmp_path / "run", seconds=1e-9)
    text = report_path(tmp_path / "run").read_text(encoding="utf-8")
    assert "is not finished" in text
    with RunFolder.writing(
        tmp_path / "new",
        kind="linearize",
        config={"recipe": make_recipe().to_json(), "teacher": {"name": "t"}},
        identity={"label": "x", "seed": 0, "task": "text"},
    ):
        pass
    with pytest.raises(ValueError, match="has measured nothing yet"):
        report_path(tmp_path / "new")


def test_an_evaluation_says_what_is_above_its_floor(tmp_path):
    write_json(tmp_path / "config.json", {"config": {}, "about": {"teacher": {"name": "big"}}})
    write_table(tmp_path / TABLE, evaluation())
    text = report_path(tmp_path).read_text(encoding="utf-8")
    assert "its teacher, big" in text
    assert "0.100 [0.000, 0.200]" in text
    assert "unclear" in text
    assert "0.500 [0.400, 0.600]" in text
    assert "divergence (nats a token)" in text
    assert "weights (MiB)" in text
    assert "In brackets the middle 95 % of single steps, n of them." in text


def test_a_selection_shows_its_spread(tmp_path):
    identity = {"label": "select-t", "seed": 0, "task": "text"}
    with RunFolder.writing(tmp_path, kind=KIND, config={"selection": {}}, identity=identity):
        pass
    with pytest.raises(ValueError, match="has no scores yet"):
        report_path(tmp_path)
    write_table(tmp_path / SCORES, scores())
    assert "0.500 [0.400, 0.600]" in report_path(tmp_path).read_text(encoding="utf-8")


def test_a_study_of_other_runs_and_an_unknown_kind_are_refused(tmp_path):
    write_json(tmp_path / "manifest.json", {"kind": "linearize-cell", "runs": []})
    with pytest.raises(ValueError, match="is a study of kind linearize-cell"):
        report_path(tmp_path)
    with RunFolder.writing(
        tmp_path / "run", kind="other", config={}, identity={"label": "x", "seed": 0, "task": "t"}
    ):
        pass
    with pytest.raises(ValueError, match="a run of kind other, which has no report"):
        report_path(tmp_path / "run")


def test_figures_draw_what_the_tables_say():
    frame = pd.DataFrame(
        {"label": ["a", "a", "b"], "length": [256, 512, 256], "value": [0.9, 0.5, 0.2],
         "low": [0.8, 0.4, 0.1], "high": [1.0, 0.6, 0.3]}
    )  # fmt: skip
    (panel,) = found_by_length(frame).axes
    lines = {line.get_label(): list(line.get_ydata()) for line in panel.lines}
    assert lines == {"a": [0.9, 0.5], "b": [0.2]}
    grid = pd.DataFrame(
        [(m, s, b, v) for m, v in (("gdn", 0.5), ("kda", 0.4)) for s in ("1m", "3m")
         for b in (10, 20)], columns=["label", "size", "budget", "value"]
    )  # fmt: skip
    panels = divergence_by_budget(grid).axes
    assert [panel.get_title(loc="left") for panel in panels] == ["teacher 1m", "teacher 3m"]
    assert [len(panel.lines) for panel in panels] == [2, 2]
    stages = pd.DataFrame(
        {"stage": ["before", "end"], "step": [0, 9], "kl": [3.0, 0.2], "loss": [4.0, 1.5],
         "teacher_loss": [1.2, 1.2]}
    )  # fmt: skip
    left, right = recovery_by_stage(stages).axes
    assert list(left.lines[0].get_ydata()) == [3.0, 0.2]
    assert [line.get_label() for line in right.lines] == ["student", "teacher"]
    course = pd.DataFrame({"stage": ["a", "b"], "step": [1, 2], "value": [3.0, 2.0]})
    courses = stage_courses(course).axes
    assert [line.get_marker() for panel in courses for line in panel.lines[:1]] == ["o", "o"]
    with pytest.raises(ValueError, match="at least 1 is needed"):
        stage_courses(course.iloc[:0])
