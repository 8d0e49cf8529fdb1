"""Time from measured steps, by hand."""

import pytest

from lt2theory.experiments.cells import Cell
from lt2theory.experiments.costs import MEASURED, Measured, gpu_seconds, step_ms
from lt2theory.experiments.studies import smoke
from lt2theory.models.flops import step_flops


def row(flops: float, ms: float, passes: int = 1) -> Measured:
    return Measured(("deltanet",), "rescan", passes, flops, ms)


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


def test_other_mixers_say_nothing(cell: Cell) -> None:
    other = Measured(("gdn",), "rescan", 1, 1e9, 1.0)
    assert step_ms(cell, 8, [other]) is None
    assert gpu_seconds(cell, measured=[other]) is None


def test_seconds_are_those_of_all_stages(cell: Cell) -> None:
    table = [row(cell.step_flops(8) / 2, 1.0)]
    expected = 40 * (step_ms(cell, 8, table) + step_ms(cell, 12, table)) / 1e3  # type: ignore[operator]
    assert gpu_seconds(cell, measured=table) == pytest.approx(expected)


def test_the_table_is_sorted_by_kind() -> None:
    for measured in MEASURED:
        assert measured.mixers == tuple(sorted(set(measured.mixers)))
        assert measured.ms > 0
