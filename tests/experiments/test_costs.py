"""Prices of cells beside what finished cells took."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lt2theory.experiments.cells import Cell
from lt2theory.experiments.costs import gpu_cost
from lt2theory.experiments.costs_finished import (
    FINISHED,
    RECALLED,
    SEARCHED,
    STEP_MS,
    TFLOP_MS,
    Arm,
    arm_of,
)
from lt2theory.experiments.studies import smoke, studies
from lt2theory.experiments.study_cells import loops
from lt2theory.experiments.study_steps import RECALL_STEPS, STEPS_A_STAGE
from lt2theory.experiments.study_table import TABLE, read_study_table
from lt2theory.report.views import stage_outcomes
from lt2theory.runs import read_json

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def known() -> dict[str, Cell]:
    """The cells of all studies by name."""
    return {cell.name: cell for study in studies().values() for cell in study()}


@pytest.fixture(scope="module")
def spent() -> pd.DataFrame:
    """Every cell that has begun: its `value` in device seconds, and `priced`."""
    table = read_study_table(ROOT / "results" / TABLE)
    rows = table[table["metric"] == "device_seconds"].set_index("cell").astype({"value": float})
    cells = {cell.name: cell for cell in loops()}
    return rows.assign(
        arm=[arm_of(cells[name]) for name in rows.index],
        longer=rows["label"].str.contains("settled|exact"),
        priced=[gpu_cost(cells[name]).seconds for name in rows.index],
    )


@pytest.fixture(scope="module")
def words(spent: pd.DataFrame) -> pd.DataFrame:
    """Finished cells of block 2."""
    return spent[(spent["block"] == 2) & (spent["status"] == "done")]


@pytest.fixture(scope="module")
def recalled(spent: pd.DataFrame) -> pd.DataFrame:
    """Finished cells of block 1, with the `steps` and the `flops` that they took."""
    table = read_study_table(ROOT / "results" / TABLE)
    cells = {cell.name: cell for cell in loops()}
    rows = spent[(spent["block"] == 1) & (spent["status"] == "done")]
    flops = []
    for name in rows.index:
        taken = stage_outcomes(table[table["cell"] == name]).set_index("stage")["steps"].dropna()
        assert taken.sum() == rows["progress"][name]
        by_stage = ((int(stage), float(steps)) for stage, steps in taken.items())
        flops.append(sum(steps * cells[name].step_flops(stage) for stage, steps in by_stage))
    return rows.assign(steps=rows["progress"].astype(float), flops=flops)


def test_steps_by_swaps_are_those_of_two_finished_cells() -> None:
    table = read_study_table(ROOT / "results" / TABLE)
    names = ["recall-gdn-window-t4-s0", "recall-gdn-window-t4-s1"]
    taken = stage_outcomes(table[table["cell"].isin(names)]).groupby("stage")["steps"].sum()
    assert dict(zip(taken.index.astype(int), taken.astype(int), strict=True)) == RECALL_STEPS


def test_recall_is_priced_by_what_finished_cells_took(recalled: pd.DataFrame) -> None:
    taken = recalled["value"].to_numpy()
    columns = np.stack([recalled["steps"] / 1e3, recalled["flops"] / 1e15], axis=1)
    line = np.linalg.lstsq(columns, taken, rcond=None)[0]
    assert line.tolist() == [
        pytest.approx(STEP_MS, abs=0.005),
        pytest.approx(TFLOP_MS, abs=0.005),
    ]
    assert set(recalled["arm"]) == RECALLED
    said = columns @ line
    assert said.sum() == pytest.approx(taken.sum(), rel=0.04)
    assert 0.5 < (said / taken).min() < (said / taken).max() < 1.6
    assert len(recalled) == 27  # as the docstrings say


def test_prices_of_recall_are_near_what_cells_took(spent: pd.DataFrame) -> None:
    """Before they run, steps are a guess as well: all that have begun, ended or not."""
    begun = spent[spent["block"] == 1]
    assert begun["priced"].sum() == pytest.approx(begun["value"].sum(), rel=0.15)
    for num_loops, cells in begun.groupby(begun["arm"].map(lambda arm: arm.num_loops)):
        assert cells["priced"].sum() == pytest.approx(cells["value"].sum(), rel=0.25), num_loops


def test_searches_of_recall_took_what_they_are_priced_at(known: dict[str, Cell]) -> None:
    said = read_json(ROOT / "results" / "study-throughput-h200.json")["searches"]
    cells = [known[name] for name in known if known[name].config.label.startswith("recall-")]
    cells = [cell for cell in cells if not cell.config.test]
    priced = sum(gpu_cost(cell).seconds for cell in cells) / sum(cell.steps() for cell in cells)
    taken = 60 / said["steps_per_minute"]["recall, 1 to 8 swaps, batch 128, five families"]
    assert priced == pytest.approx(taken, rel=0.04)


def test_word_problems_are_priced_by_what_finished_cells_took(words: pd.DataFrame) -> None:
    arms = words.groupby("arm")[["value", "progress"]].sum()
    taken = (1e3 * arms["value"] / arms["progress"].astype(float)).to_dict()
    assert {arm: pytest.approx(ms, abs=0.006) for arm, ms in taken.items()} == FINISHED
    plain = words[~words["longer"]].groupby("task")[["progress", "stages_asked"]].sum()
    found = (plain["progress"] / plain["stages_asked"]).astype(float).round()
    assert found.to_dict() == STEPS_A_STAGE
    for task, cells in words.groupby("task"):
        assert cells["priced"].sum() == pytest.approx(cells["value"].sum(), rel=0.05), task


def test_the_published_throughput_says_the_same_of_words(words: pd.DataFrame) -> None:
    published = read_json(ROOT / "results" / "study-throughput-h200.json")
    said = published["words"]
    assert (said["cells"], said["steps"]) == (len(words), words["progress"].sum())
    assert said["gpu_minutes"] == pytest.approx(words["value"].sum() / 60, abs=0.05)
    assert said["steps_a_stage"] == STEPS_A_STAGE
    found = {
        Arm(task, mixer, int(num_loops[0]), num_loops[3:] or "rescan"): ms
        for kind, arms in said["ms_a_step_by_arm"].items()
        for task, mixer in [kind.split(", ")]
        for num_loops, ms in arms.items()
    }
    assert found == FINISHED
    assert set(published["searches"]["ms_a_step"].values()) == set(SEARCHED.values())


def test_one_block_is_priced_by_its_arm(known: dict[str, Cell]) -> None:
    priced = known["s5-t4-accumulate-s0"]
    assert priced.steps() == 2 * STEPS_A_STAGE["group_word"]  # 16 and 32 tokens
    assert gpu_cost(priced).seconds == pytest.approx(2 * 892 * 4.34e-3)
    assert not gpu_cost(priced).estimated
    searched = known["s5-t4-accumulate-all-try0-s1000"]
    assert gpu_cost(searched).seconds == pytest.approx(searched.steps() * 1.5e-3)
    assert not gpu_cost(searched).estimated


def test_an_arm_that_never_ran_is_estimated_by_others(known: dict[str, Cell]) -> None:
    distance = known["distance-t4-s0"]
    assert gpu_cost(distance).seconds == pytest.approx(distance.steps() * (4.18 + 4.34) / 2 * 1e-3)
    assert gpu_cost(distance).estimated
    for name in ("recall-gla-t4-s0", "recall-gdn-window-t8-s0", "recall-gdn-t4-accumulate-s0"):
        cell = known[name]
        ms = STEP_MS * cell.steps() + TFLOP_MS * cell.flops() / 1e12
        assert gpu_cost(cell).seconds == pytest.approx(ms / 1e3)
        assert gpu_cost(cell).estimated, name
    assert not gpu_cost(known["recall-gdn-t4-s0"]).estimated


def test_the_smallest_study_costs_a_second() -> None:
    assert sum(gpu_cost(cell).seconds for cell in smoke()) == pytest.approx(3 * 80 * 2.5e-3)
