"""Views of the run store's tidy table."""

import numpy as np
import pytest

from lt2theory.report import views
from lt2theory.runs import RunFolder, collect, run_table


@pytest.fixture
def table(write_run):
    paths = [
        write_run("budget_exhausted", label="z", seed=0),
        write_run("solved", label="a", seed=0),
        write_run("diverged", label="a", seed=1),
        write_run("unfinished", label="a", seed=2),
    ]
    return collect(RunFolder.open(path) for path in paths)


def test_curves_are_training_loss_and_evaluation_accuracy(table):
    curves = views.training_curves(table)
    run = curves.query("label == 'a' and seed == 0")
    loss, accuracy = (run[run["metric"] == name] for name in ("loss", "scored_accuracy"))
    assert loss["value"].tolist() == pytest.approx([0.6, 0.25, 0.5])
    assert accuracy["value"].tolist() == [0.6, 0.95, 0.7, 0.93]
    assert accuracy["step"].tolist() == [50, 100, 200, 300]


def test_outcomes_are_one_row_a_finished_run_in_the_tables_order(table):
    ends = views.outcomes(table)
    assert ends["label"].tolist() == ["z", "a", "a"]
    assert ends["solved"].tolist() == [False, True, False]
    assert ends["diverged"].tolist() == [False, False, True]
    assert ends["steps"].tolist() == [300, 300, 300]


def test_outcomes_of_nothing_are_empty(write_run):
    unfinished = run_table(RunFolder.open(write_run("unfinished")))
    ends = views.outcomes(unfinished)
    assert ends.empty
    assert {"label", "seed", "solved", "steps", "diverged"} <= set(ends.columns)


def test_stages_say_what_they_took(table):
    stages = views.stage_outcomes(table).query("label == 'z'")
    assert stages["stage"].tolist() == [8, 16]
    assert stages["solved"].tolist() == [True, False]
    assert stages["steps"].tolist() == [100, 200]
    assert stages["step"].tolist() == [100, 300]


def test_accuracies_are_the_last_of_every_stage(table):
    tested = views.accuracies(table).query("label == 'a'")
    assert tested["stage"].tolist() == [8, 16, 32]
    assert tested["value"].tolist() == [0.96, 0.92, 0.8]
    assert tested["low"].tolist() == pytest.approx([0.94, 0.9, 0.78])
    assert tested["n"].unique().tolist() == [4096]
    last = views.accuracies(table, "eval").query("label == 'a' and seed == 0")
    assert last["value"].tolist() == [0.95, 0.93]


def test_floors_occur_once_with_readable_names(table):
    floors = views.floors(table)
    assert len(floors) == 6
    assert set(floors["floor"]) == {"uniform", "no tracking"}
    assert views.constant_floors(table) == {"uniform": 0.5}


def test_prefixes_count_positions_from_one(table):
    assert views.longest_prefix_stage(table) == 32
    prefixes = views.exact_prefixes(table, 16).query("label == 'a'")
    assert prefixes["position"].tolist() == [1, 2, 3]
    assert prefixes["value"].tolist() == pytest.approx([0.92, 0.92**2, 0.92**3])


def test_one_answer_an_instance_has_no_prefix_curve(table):
    single = table[table["position"].isna() | (table["position"] == 2)]
    assert views.longest_prefix_stage(single) is None


@pytest.mark.parametrize(
    ("words", "heading"),
    [
        ("a number of swaps in 1 .. 256", "number of swaps"),
        ("an even sequence length in 4 .. 16384", "even sequence length"),
        ("", "stage"),
    ],
)
def test_stage_headings_come_from_the_card(words, heading):
    assert views.stage_heading({"allowed_stages": words}) == heading
    assert views.stage_heading({}) == "stage"


def test_the_supervision_comes_from_the_card():
    card = {"layout": "plain", "supervision": "final", "labelled": "x"}
    assert views.task_setting(card) == "supervision: final; layout: plain"
    assert views.task_setting({}) == ""


def test_missing_losses_leave_no_gap_rows(table):
    table.loc[table["metric"] == "loss", "value"] = np.nan
    assert set(views.training_curves(table)["metric"]) == {"scored_accuracy"}
