"""docs/language-study.md: of the committed results, and of a study that never ran."""

from pathlib import Path

import pandas as pd
import pytest

from lt2theory.experiments.cell_tables import missing_cells, prediction_records
from lt2theory.experiments.language.arms import BASE, FULL, GDN, language_cells
from lt2theory.experiments.language.comparisons import (
    bits_by_seed,
    bits_per_byte,
    largest,
    more_bits,
    number,
)
from lt2theory.experiments.language.figures import FIGURES
from lt2theory.experiments.language.page import language_page, main
from lt2theory.experiments.language.predictions import predictions
from lt2theory.experiments.language.table import TABLE, merge_language, read_language_table
from lt2theory.experiments.linearization.views import ended
from lt2theory.experiments.study_prediction import judged
from lt2theory.runs import write_table
from tests.experiments.language.tables_made import BITS, bits_of, made_table

ROOT = Path(__file__).parents[3]
CELLS = language_cells()
EMPTY = merge_language(())
NAMES = [one.name for one in predictions()]


@pytest.fixture(scope="module")
def whole() -> pd.DataFrame:
    return made_table(CELLS)


def verdicts(table: pd.DataFrame) -> dict[str, str]:
    """What became of each prediction, by its name."""
    return {one.name: judged(one, table).verdict for one in predictions()}


def test_the_page_is_what_the_committed_results_give() -> None:
    here = ["--results", str(ROOT / "results"), "--page", str(ROOT / "docs/language-study.md")]
    assert main([*here, "--check"]) == 0


def test_nothing_is_said_of_a_study_that_never_ran() -> None:
    page = language_page(EMPTY)
    assert page.count("Not measured yet.") == 8
    assert set(verdicts(EMPTY).values()) == {"inconclusive"}
    assert "- ratio: 15 cells of 15: all." in page
    assert not any(draw(EMPTY) is not None for draw, _ in FIGURES.values())


def test_a_whole_table_fills_every_place(whole: pd.DataFrame, tmp_path: Path) -> None:
    write_table(tmp_path / TABLE, whole)
    given = ["--results", str(tmp_path), "--page", str(tmp_path / "page.md")]
    assert main([*given, "--check"]) == 1
    assert main(given) == 0
    assert main([*given, "--check"]) == 0
    text = (tmp_path / "page.md").read_text()
    assert "Not measured yet" not in text
    assert "Nothing: every cell has ended." in text
    for name in FIGURES:
        assert (tmp_path / "figures" / f"{name}.svg").stat().st_size > 2000
        assert f"figures/{name}.svg" in text
    pd.testing.assert_frame_equal(read_language_table(tmp_path / TABLE), whole)


def test_every_prediction_can_be_kept_and_broken(whole: pd.DataFrame) -> None:
    assert verdicts(whole) == dict.fromkeys(NAMES, "as predicted")
    turned = made_table(CELLS, bits=lambda cell: 3.2 - bits_of(cell), turned=True)
    alike = {"bookend-alike", "loop-gate-alike"}
    found = verdicts(turned)
    assert {name for name, verdict in found.items() if verdict != "not as predicted"} == (
        alike | {"rescan-suffices"}
    )
    apart = {"placement-bookend": 1.6, "loop-gate-none": 1.4, "state-accumulate": 1.5}
    other = verdicts(made_table(CELLS, bits=lambda cell: apart.get(cell.arm, bits_of(cell))))
    assert {other[name] for name in alike | {"rescan-suffices"}} == {"not as predicted"}


def test_no_prediction_is_kept_while_a_cell_is_missing(whole: pd.DataFrame) -> None:
    """Every one is about some arms; without their last seeds it is open."""
    assert set(verdicts(whole[whole["seed"] < 2]).values()) == {"inconclusive"}


def test_a_seed_that_diverged_is_not_compared(whole: pd.DataFrame) -> None:
    lost = (whole["arm"] == GDN) & (whole["seed"] == 1)
    table = whole.assign(outcome=whole["outcome"].mask(lost, "diverged"))
    found = verdicts(table)
    assert found["quarter-enough"] == "inconclusive"
    assert found["depth-pays-more"] == "as predicted"


def test_differences_are_paired(whole: pd.DataFrame) -> None:
    """Documents differ far more than arms do, and their difference is certain all the same."""
    rows = ended(whole)
    one, other = bits_per_byte(rows, BASE), bits_per_byte(rows, FULL)
    assert one is not None
    assert other is not None
    assert one.value == pytest.approx(BITS[BASE], rel=1e-3)
    assert one.high > other.low
    found = more_bits(rows, BASE, FULL)
    assert found is not None
    assert found.value == pytest.approx(BITS[BASE] / BITS[FULL] - 1, abs=1e-6)
    assert found.low < found.value < found.high < -0.06
    assert found.high - found.low < 0.001
    assert more_bits(rows, BASE, "no such arm") is None
    other_text = rows["kind"].eq("eval-3").fillna(False) & (rows["arm"] == FULL)
    assert more_bits(rows.assign(n=rows["n"].mask(other_text, 7)), BASE, FULL) is None


def test_seeds_count_in_differences(whole: pd.DataFrame) -> None:
    """Seeds that lie apart widen an interval that documents leave narrow."""
    wild = made_table(CELLS, bits=lambda cell: 1.5 + 0.1 * cell.config.seed * (cell.arm == BASE))
    calm, apart = (more_bits(ended(table), BASE, FULL) for table in (whole, wild))
    assert calm is not None
    assert apart is not None
    assert apart.high - apart.low > 20 * (calm.high - calm.low)
    seeds = bits_by_seed(ended(wild), BASE)
    assert seeds is not None
    assert (seeds.low, seeds.value, seeds.high) == pytest.approx((1.5, 1.6, 1.7))
    alone = more_bits(ended(wild[wild["seed"] == 0]), BASE, FULL)
    assert alone is not None
    assert alone.seeds == 1
    assert alone.value == pytest.approx(0.0, abs=1e-9)


def test_the_last_reading_and_the_largest_place_count(whole: pd.DataFrame) -> None:
    rows = ended(whole)
    rms = number(rows, FULL, "stability", "rms", loop=3)
    assert rms is not None
    assert (rms.value, rms.seeds) == (4.0, 3)
    mass = largest(rows, FULL, "first_token_mass")
    assert mass is not None
    assert mass.value == pytest.approx(0.15)
    assert largest(rows, GDN, "first_token_mass") is None
    alone = number(rows[rows["seed"] == 0], FULL, "stability", "rms", loop=3)
    assert alone is not None
    assert alone.said == "4.000"


def test_what_is_missing_is_named(whole: pd.DataFrame) -> None:
    left = whole[whole["cell"] != "loops-1-s1"]
    assert "loops: 1 cell of 12: `loops-1-s1`" in missing_cells(left, CELLS)
    records = prediction_records(left, predictions())
    assert [x["verdict"] for x in records].count("undecided") == 1
    begun = made_table(CELLS, status="unfinished")
    assert set(verdicts(begun).values()) == {"inconclusive"}
