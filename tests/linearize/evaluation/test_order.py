"""Orders of mixers that are undecided, and shares of a teacher."""

import pandas as pd
import pytest

from lt2theory.linearize.evaluation import mixer_order, recovered_share


def table(*rows: tuple[str, float, float, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["mixer", "value", "low", "high", "found"])


def test_an_order_needs_intervals_apart_and_needles_found() -> None:
    found = mixer_order(
        table(
            ("gdn", 0.90, 0.88, 0.92, 0.99),
            ("kda", 0.80, 0.78, 0.82, 0.51),
            ("gla", 0.81, 0.79, 0.83, 0.80),
            ("retnet", 0.99, 0.98, 1.00, 0.49),
            ("mlstm", 0.70, float("nan"), float("nan"), 0.90),
        )
    ).set_index(["first", "second"])
    assert found.loc[("gdn", "kda"), "better"] == "gdn"
    assert found.loc[("gdn", "gla"), "better"] == "gdn"
    assert tuple(found.loc[("kda", "gla")]) == ("undecided", "intervals overlap")
    reason = "retnet finds 49 % of needles at 256 tokens"
    assert tuple(found.loc[("gdn", "retnet")]) == ("undecided", reason)
    assert found.loc[("gdn", "mlstm"), "better"] == "undecided"
    assert len(found) == 10


def test_a_lower_divergence_is_better() -> None:
    rows = table(("gdn", 0.1, 0.09, 0.11, 1.0), ("gla", 0.3, 0.28, 0.32, 1.0))
    assert mixer_order(rows, higher_is_better=False)["better"].tolist() == ["gdn"]
    assert mixer_order(rows)["better"].tolist() == ["gla"]


def test_what_is_not_known_is_undecided() -> None:
    rows = table(("gdn", 0.1, 0.09, 0.11, float("nan")), ("gla", 0.3, 0.28, 0.32, 1.0))
    assert mixer_order(rows)["better"].tolist() == ["undecided"]
    with pytest.raises(ValueError, match="lacks the columns found"):
        mixer_order(rows.drop(columns="found"))
    with pytest.raises(ValueError, match="a mixer has two rows"):
        mixer_order(pd.concat([rows, rows]))


def test_recovery_is_above_the_floor() -> None:
    assert recovered_share(0.6, 0.75, 0.25) == pytest.approx(0.7)
    assert recovered_share(0.2, 0.75, 0.25) < 0
    with pytest.raises(ValueError, match=r"teacher: 0\.25 must be > 0\.25"):
        recovered_share(0.6, 0.25, 0.25)
