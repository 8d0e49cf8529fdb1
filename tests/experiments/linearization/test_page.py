"""docs/linearization-study.md: of the committed results, and of studies that never ran."""

from pathlib import Path

import pandas as pd
import pytest

from lt2theory.experiments.cell_tables import missing_cells, prediction_records
from lt2theory.experiments.linearization.figures import FIGURES
from lt2theory.experiments.linearization.fits import fitted, size_points
from lt2theory.experiments.linearization.own_tables import (
    selection_records,
    share_records,
    speed_records,
)
from lt2theory.experiments.linearization.page import linearization_page, main
from lt2theory.experiments.linearization.predictions import predictions
from lt2theory.experiments.linearization.studies import study_cells
from lt2theory.experiments.linearization.table import TABLE, merge_linear, read_linear_table
from lt2theory.experiments.linearization.tables import (
    number_records,
    order_records,
)
from lt2theory.experiments.linearization.views import KL, ended, mean_share, pooled
from lt2theory.runs import write_table
from tests.experiments.linearization.tables_made import kl_of, made_table

ROOT = Path(__file__).parents[3]
CELLS = study_cells("all")
EMPTY = merge_linear(())


@pytest.fixture(scope="module")
def whole() -> pd.DataFrame:
    return made_table(CELLS)


def verdicts(table: pd.DataFrame) -> dict[str, str]:
    """What became of each prediction, by its first words."""
    return {
        record["prediction"][:24]: record["verdict"]
        for record in prediction_records(table, predictions())
    }


def test_the_page_is_what_the_committed_results_give() -> None:
    here = ["--results", str(ROOT / "results"), "--page", str(ROOT / "docs/linearization-study.md")]
    assert main([*here, "--check"]) == 0


def test_nothing_is_said_of_studies_that_never_ran() -> None:
    page = linearization_page(EMPTY)
    assert page.count("Not measured yet.") >= 12
    assert set(verdicts(EMPTY).values()) == {"undecided"}
    assert "- mixers: 18 cells of 18: all." in page
    assert not any(draw(EMPTY) is not None for draw, _ in FIGURES.values())


def test_a_whole_table_fills_every_place(whole: pd.DataFrame, tmp_path: Path) -> None:
    write_table(tmp_path / TABLE, whole)
    page = tmp_path / "page.md"
    given = ["--results", str(tmp_path), "--page", str(page)]
    assert main([*given, "--check"]) == 1
    assert main(given) == 0
    assert main([*given, "--check"]) == 0
    text = page.read_text()
    assert "Not measured yet" not in text
    assert "Nothing: every cell has ended." in text
    for name in FIGURES:
        assert (tmp_path / "figures" / f"{name}.svg").stat().st_size > 2000
        assert f"figures/{name}.svg" in text
    pd.testing.assert_frame_equal(read_linear_table(tmp_path / TABLE), whole)


def test_predictions_are_kept_or_broken_by_the_numbers(whole: pd.DataFrame) -> None:
    kept = verdicts(whole)
    broken = {name for name, verdict in kept.items() if verdict == "**broken**"}
    assert kept["Gated delta rules (GDN, "] == "kept"
    assert kept["A wrong expansion of key"] == "kept"
    assert kept["The cache of the all-lin"] == "kept"
    assert kept["More tokens bring every "] == "kept"
    assert broken <= {
        "Every hybrid comes nearer",
        "With a quarter of its la",
        "Without decay, a delta w",
    }
    other = made_table(CELLS, kl=lambda cell: 10 - kl_of(cell))
    turned = verdicts(other)
    assert turned["Gated delta rules (GDN, "] == "**broken**"
    assert turned["More tokens bring every "] == "**broken**"


@pytest.mark.parametrize(
    ("claim", "study", "arm"),
    [
        ("Trained on windows of 51", "mixers", "gdn"),
        ("The cache of the all-lin", "hybrids", "linear"),
        ("More tokens bring every ", "sizes", None),
    ],
)
def test_what_holds_for_all_is_open_while_a_cell_is_missing(
    claim: str, study: str, arm: str | None, whole: pd.DataFrame
) -> None:
    assert verdicts(whole)[claim] == "kept"
    about = [cell for cell in CELLS if cell.study == study and arm in (None, cell.arm)]
    short = whole[whole["cell"] != about[-1].name]
    assert verdicts(short)[claim] == "undecided"


def test_an_arm_is_as_wide_as_its_seeds_together(whole: pd.DataFrame) -> None:
    rows = ended(whole, "mixers")
    both = pooled(rows, "gdn", KL)
    assert both is not None
    alone = [pooled(rows[rows["seed"] == seed], "gdn", KL) for seed in (0, 1)]
    assert both.seeds == 2
    assert both.value == pytest.approx(sum(one.value for one in alone if one) / 2)
    assert both.low == min(one.low for one in alone if one)
    assert both.high == max(one.high for one in alone if one)


def test_the_order_is_undecided_where_needles_are_lost(whole: pd.DataFrame) -> None:
    found = {record["pair"]: record["nearer"] for record in order_records(whole)}
    assert len(found) == 21
    assert found["gdn, retnet"] == "gdn"
    assert found["gdn, kda"] == "undecided"
    lost = made_table(CELLS, found=lambda cell: 0.3 if cell.arm == "retnet" else 0.8)
    again = {record["pair"]: record for record in order_records(lost)}
    assert again["gdn, retnet"]["nearer"] == "undecided"
    assert "retnet finds 30 %" in again["gdn, retnet"]["why not decided"]


def test_shares_leave_out_probes_that_the_teacher_fails(whole: pd.DataFrame) -> None:
    records = share_records(whole)
    assert not [record for record in records if record["probe"].startswith("mqar")]
    cloze = next(record for record in records if record["probe"].startswith("cloze"))
    assert cloze["share"].startswith("0.950")
    mean = mean_share(ended(whole, "hybrids"), "selected")
    assert mean is not None
    assert mean.n == 1 + 2 * 4
    lines = [record["probe"] for record in records if record["arm"].startswith("**")]
    assert len(lines) == 4
    assert all("93 %" in line for line in lines)


def test_the_largest_budget_counts(whole: pd.DataFrame) -> None:
    smaller = made_table(study_cells("mixers", tokens=5_000_000))
    both = merge_linear([smaller, whole])
    assert both["config_hash"].nunique() == len(CELLS) + 18
    rows = number_records(both, "mixers", [("divergence", KL)])
    assert rows == number_records(whole, "mixers", [("divergence", KL)])
    assert rows[0]["tokens"] == "20M"


def test_power_laws_are_found_again(whole: pd.DataFrame) -> None:
    law = {"1m": 1.0, "3m": 3.0, "7m": 7.0}
    table = made_table(
        study_cells("sizes"),
        kl=lambda cell: law[str(cell.facts["size"])] ** -0.4 * (cell.tokens / 1e6) ** -0.25,
    )
    points = size_points(ended(table, "sizes"))
    fit = fitted(points[points["mixer"] == "kda"])
    assert fit is not None
    assert (fit.n, round(fit.size.value, 2)) == (9, 0.4)
    # Budgets of steps are rounded.
    assert fit.budget.value == pytest.approx(0.25, abs=0.01)
    assert fitted(points[(points["mixer"] == "kda") & (points["size"] == "1m")]) is None


def test_speed_and_layers_stand_beside_each_other(whole: pd.DataFrame) -> None:
    speeds = speed_records(whole)
    assert {record["tokens"] for record in speeds} == {"256", "2048", "8192"}
    assert "1.000 -> 1.000" in {record["cache, mib"] for record in speeds}
    (chosen,) = selection_records(whole)
    assert (chosen["selector"], chosen["layers"]) == ("trained", "0, 1")


def test_what_is_missing_is_named(whole: pd.DataFrame) -> None:
    left = whole[whole["cell"] != "gates-delta-head-s1"]
    assert "gates: 1 cell of 16: `gates-delta-head-s1`" in missing_cells(left, CELLS)
