"""Time from measured steps, by hand."""

import dataclasses
from pathlib import Path

import pandas as pd
import pytest

from lt2theory.experiments.cells import Cell
from lt2theory.experiments.costs import (
    FLOP_MS,
    MEASURED,
    PASS_MS,
    PLAIN_PASSES,
    STAGE_SECONDS,
    TEST_STEPS,
    Measured,
    estimated_ms,
    gpu_cost,
    step_ms,
)
from lt2theory.experiments.costs_finished import FINISHED, Arm, arm_of, finished_ms
from lt2theory.experiments.studies import smoke, studies
from lt2theory.experiments.study_cells import loops
from lt2theory.experiments.study_steps import RECALL_STEPS, STEPS_A_STAGE
from lt2theory.experiments.study_table import TABLE, read_study_table
from lt2theory.models.flops import step_flops
from lt2theory.report.views import stage_outcomes
from lt2theory.runs import read_json

ROOT = Path(__file__).parents[2]


def row(flops: float, ms: float, passes: int = 1) -> Measured:
    return Measured(("deltanet",), "rescan", passes, flops, ms, "float32")


@pytest.fixture
def cell() -> Cell:
    return smoke()[0]


def test_time_follows_the_products(cell: Cell) -> None:
    flops = cell.step_flops(8)
    assert flops == step_flops(cell.resolved.model, 64, 8)
    assert step_ms(cell, 8, [row(2 * flops, 6.0)]) == 6.0  # below what was measured: its launches
    assert step_ms(cell, 8, [row(flops / 4, 2.0)]) == pytest.approx(8.0)
    between = [row(flops * 1.5, 9.0), row(flops / 2, 5.0)]
    assert step_ms(cell, 8, between) == pytest.approx(7.0)
    # Four passes of a block in the measurement, one in the cell.
    assert step_ms(cell, 8, [row(4 * flops, 8.0, passes=4)]) == pytest.approx(2.0)


def test_as_many_passes_serve_before_others(cell: Cell) -> None:
    flops = cell.step_flops(8)
    table = [row(flops, 3.0), row(4 * flops, 4.0, passes=4)]
    assert step_ms(cell, 8, table) == 3.0
    assert step_ms(cell, 8, table[1:]) == pytest.approx(1.0)


def test_other_mixers_say_nothing(cell: Cell) -> None:
    for other in (
        Measured(("gdn",), "rescan", 1, 1e9, 1.0, "float32"),
        Measured(("deltanet",), "rescan", 1, 1e9, 1.0),
    ):
        assert step_ms(cell, 8, [other]) is None
        assert gpu_cost(cell, measured=[other]).estimated


def test_seconds_are_those_of_all_stages(cell: Cell) -> None:
    table = [row(cell.step_flops(8) / 2, 1.0)]
    first, second = step_ms(cell, 8, table), step_ms(cell, 12, table)
    assert first is not None
    assert second is not None
    a_step = first + second
    expected = (40 + TEST_STEPS) * a_step / 1e3
    cost = gpu_cost(cell, measured=table)
    assert cost.seconds == pytest.approx(expected + 2 * STAGE_SECONDS)
    assert not cost.estimated
    config = cell.config.model_copy(update={"test": False, "test_stages": ()})
    untested = Cell(name="untested", block=1, config=config, expected_steps=40)
    saved = cost.seconds - gpu_cost(untested, measured=table).seconds
    assert saved == pytest.approx(TEST_STEPS * a_step / 1e3)


def test_seconds_follow_the_steps_of_every_stage(cell: Cell) -> None:
    late = Cell(name="late", block=1, config=cell.config, expected_steps=30, shares=(1.0, 3.0))
    table = [row(cell.step_flops(8) / 2, 1.0)]
    short, long = (step_ms(cell, stage, table) or 0 for stage in (8, 12))
    tests = TEST_STEPS * (short + long)
    expected = (15 * short + 45 * long + tests) / 1e3 + 2 * STAGE_SECONDS
    assert gpu_cost(late, measured=table).seconds == pytest.approx(expected)


def test_recall_is_priced_by_what_finished_cells_took() -> None:
    table = read_study_table(ROOT / "results" / TABLE)
    cells = {cell.name: cell for cell in loops()}
    names = ["recall-gdn-window-t4-s0", "recall-gdn-window-t4-s1"]
    taken = stage_outcomes(table[table["cell"].isin(names)]).groupby("stage")["steps"].sum()
    assert dict(zip(taken.index.astype(int), taken.astype(int), strict=True)) == RECALL_STEPS
    spent = table[table["metric"] == "device_seconds"].set_index("cell")["value"]
    for name in names:
        steps = stage_outcomes(table[table["cell"] == name]).set_index("stage")["steps"]
        same = dataclasses.replace(
            cells[name], expected_steps=round(steps.mean()), shares=tuple(map(float, steps))
        )
        assert same.steps() == pytest.approx(steps.sum(), abs=8)
        assert gpu_cost(same).seconds == pytest.approx(float(spent[name]), rel=0.3)
        assert gpu_cost(cells[name]).seconds > float(spent[name])  # more steps were expected


@pytest.fixture(scope="module")
def finished() -> pd.DataFrame:
    """Finished cells of block 2; `longer` says that a cell stays at a stage, `priced` its cost."""
    table = read_study_table(ROOT / "results" / TABLE)
    rows = table[(table["metric"] == "device_seconds") & (table["block"] == 2)]
    rows = rows[rows["status"] == "done"].set_index("cell").astype({"value": float})
    cells = {cell.name: cell for cell in loops()}
    return rows.assign(
        arm=[", ".join(map(str, arm_of(cells[name]))) for name in rows.index],
        longer=rows["label"].str.contains("settled|exact"),
        priced=[gpu_cost(cells[name]).seconds for name in rows.index],
    )


def test_word_problems_are_priced_by_what_finished_cells_took(finished: pd.DataFrame) -> None:
    arms = finished.groupby("arm")[["value", "progress"]].sum()
    taken = (1e3 * arms["value"] / arms["progress"].astype(float)).to_dict()
    said = {", ".join(map(str, arm)): ms for arm, ms in FINISHED.items()}
    assert said == {arm: pytest.approx(ms, abs=0.006) for arm, ms in taken.items()}
    plain = finished[~finished["longer"]].groupby("task")[["progress", "stages_asked"]].sum()
    found = (plain["progress"] / plain["stages_asked"]).astype(float).round()
    assert found.to_dict() == STEPS_A_STAGE
    for task, cells in finished.groupby("task"):
        assert cells["priced"].sum() == pytest.approx(cells["value"].sum(), rel=0.05), task


def test_the_published_throughput_says_the_same_of_words(finished: pd.DataFrame) -> None:
    said = read_json(ROOT / "results" / "study-throughput-h200.json")["words"]
    assert (said["cells"], said["steps"]) == (len(finished), finished["progress"].sum())
    assert said["gpu_minutes"] == pytest.approx(finished["value"].sum() / 60, abs=0.05)
    assert said["steps_a_stage"] == STEPS_A_STAGE
    found = {
        Arm(task, mixer, int(loops[0]), loops[3:] or "rescan"): ms
        for kind, arms in said["ms_a_step_by_arm"].items()
        for task, mixer in [kind.split(", ")]
        for loops, ms in arms.items()
    }
    assert found == FINISHED


def test_finished_cells_price_one_block_that_is_tested() -> None:
    known = {cell.name: cell for study in studies().values() for cell in study()}
    priced = known["s5-t4-accumulate-s0"]
    assert finished_ms(priced) == FINISHED[arm_of(priced)]
    assert priced.steps() == 2 * STEPS_A_STAGE["group_word"]  # 16 and 32 tokens
    assert gpu_cost(priced).seconds == pytest.approx(2 * 892 * 4.34e-3)
    assert finished_ms(known["recall-gdn-t4-s0"]) is None
    assert finished_ms(known["s5-t4-accumulate-all-try0-s1000"]) is None


def test_the_formula_gives_what_was_measured_of_gdn() -> None:
    rows = [row for row in MEASURED if row.mixers == ("gdn",)]
    assert len(rows) == 3
    for row in rows:
        assert PASS_MS * row.block_passes + FLOP_MS * row.flops == pytest.approx(row.ms, rel=0.05)


def test_what_was_not_measured_is_estimated_from_launches_and_products(cell: Cell) -> None:
    launches = 0.9 + PLAIN_PASSES  # one pass through a DeltaNet block in float32
    assert estimated_ms(cell, 8) == pytest.approx(PASS_MS * launches + FLOP_MS * cell.step_flops(8))
    steps = 40 + TEST_STEPS
    expected = sum(steps * estimated_ms(cell, stage) / 1e3 + STAGE_SECONDS for stage in (8, 12))
    assert gpu_cost(cell, measured=()).seconds == pytest.approx(expected)
    by_name = cell.config.model.model_copy(update={"backend": "triton"})
    config = cell.config.model_copy(update={"model": by_name})
    ours = Cell(name="ours", block=1, config=config)
    assert estimated_ms(ours, 8) == pytest.approx(
        PASS_MS * 0.9 + FLOP_MS * cell.step_flops(8)
    )  # our kernels do not run in plain torch


def test_the_table_is_sorted_by_kind() -> None:
    for measured in MEASURED:
        assert measured.mixers == tuple(sorted(set(measured.mixers)))
        assert measured.ms > 0
