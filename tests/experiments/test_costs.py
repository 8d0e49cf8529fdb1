"""Time from measured steps, by hand."""

import pytest

from lt2theory.experiments.cells import Cell
from lt2theory.experiments.costs import (
    FLOP_MS,
    MEASURED,
    PASS_MS,
    PLAIN_PASSES,
    STAGE_SECONDS,
    Measured,
    estimated_ms,
    gpu_cost,
    step_ms,
)
from lt2theory.experiments.studies import smoke
from lt2theory.models.flops import step_flops


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
    expected = 40 * (step_ms(cell, 8, table) + step_ms(cell, 12, table)) / 1e3  # type: ignore[operator]
    cost = gpu_cost(cell, measured=table)
    assert cost.seconds == pytest.approx(expected + 2 * STAGE_SECONDS)
    assert not cost.estimated


def test_the_formula_gives_what_was_measured_of_gdn() -> None:
    rows = [row for row in MEASURED if row.mixers == ("gdn",)]
    assert len(rows) == 3
    for row in rows:
        assert PASS_MS * row.block_passes + FLOP_MS * row.flops == pytest.approx(row.ms, rel=0.05)


def test_what_was_not_measured_is_estimated_from_launches_and_products(cell: Cell) -> None:
    launches = 0.9 + PLAIN_PASSES  # one pass through a DeltaNet block in float32
    assert estimated_ms(cell, 8) == pytest.approx(PASS_MS * launches + FLOP_MS * cell.step_flops(8))
    expected = sum(40 * estimated_ms(cell, stage) / 1e3 + STAGE_SECONDS for stage in (8, 12))
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
