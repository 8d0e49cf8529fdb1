"""Tables over seeds and tests between arms, against their definitions and against SciPy."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lt2theory.report.intervals import mean_interval, success_interval
from lt2theory.report.statistics import (
    seed_summary,
    sooner_p_value,
    success_p_value,
    success_table,
)


def test_success_table_counts_runs():
    frame = pd.DataFrame(
        {
            "label": ["b", "b", "b", "a", "a", "a"],
            "seed": [0, 1, 2] * 2,
            "solved": [True, True, False, False, False, False],
            "steps": [10, 30, 99, 99, 99, 99],
        }
    )
    table = success_table(frame)
    assert table["label"].tolist() == ["b", "a"]
    assert table["successes"].tolist() == [2, 0]
    assert table["rate"].tolist() == pytest.approx([2 / 3, 0])
    assert table["low"].tolist() == pytest.approx([success_interval(2, 3).low, 0])
    assert table["median_steps"].tolist() == [30, np.inf]


def test_a_seed_counts_once():
    frame = pd.DataFrame({"label": "a", "seed": [0, 0], "solved": True, "steps": 5, "value": 1.0})
    with pytest.raises(ValueError, match="2 rows share a key, first label='a', seed"):
        success_table(frame)
    with pytest.raises(ValueError, match="2 rows share a key"):
        seed_summary(frame, by=["label"])


def test_seed_summary_is_the_mean_interval_of_each_cell():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "label": np.repeat(["a", "b"], 6),
            "length": np.tile(np.repeat([8, 16], 3), 2),
            "seed": np.tile([0, 1, 2], 4),
            "value": rng.uniform(size=12),
        }
    )
    table = seed_summary(frame, by=["label", "length"], bounds=(0.0, 1.0))
    assert len(table) == 4
    cell = frame.query("label == 'b' and length == 8")["value"].tolist()
    row = table.query("label == 'b' and length == 8").iloc[0]
    want = mean_interval(cell, bounds=(0.0, 1.0))
    assert (row["value"], row["low"], row["high"], row["n"]) == (want.value, want.low, want.high, 3)


def test_missing_column_and_empty_table_are_named():
    with pytest.raises(ValueError, match="success table: column 'solved' is missing"):
        success_table(pd.DataFrame({"label": ["a"], "seed": [0]}))
    empty = pd.DataFrame({"label": [], "seed": [], "value": []})
    with pytest.raises(ValueError, match="seed summary: the table has 0 rows"):
        seed_summary(empty, by=["label"])


def test_fisher_p_value_of_a_clean_split():
    # 5 of 5 against 0 of 5: both extreme tables out of C(10, 5) = 252 equally likely ones.
    assert success_p_value((5, 5), (0, 5)) == pytest.approx(2 / 252)
    assert success_p_value((3, 5), (3, 5)) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="successes is 6"):
        success_p_value((6, 5), (0, 5))


def test_sooner_p_value_counts_every_deal():
    never = math.inf
    # 252 ways to deal ten seeds: two of them separate the arms.
    assert sooner_p_value(
        [1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, never, never]
    ) == pytest.approx(2 / 252)
    assert sooner_p_value([9.0] * 5, [7.0] * 5) == pytest.approx(2 / 252)
    assert sooner_p_value([never] * 3, [never] * 3) == 1.0
    # Ranks 1, 2.5 against 2.5, 4: of six deals only {1, 4} and {2.5, 2.5} are less extreme.
    assert sooner_p_value([1.0, 2.0], [2.0, 3.0]) == pytest.approx(4 / 6)
    for wrong in ([], [0.0], [math.nan]):
        with pytest.raises(ValueError, match="one or more above 0 for each arm"):
            sooner_p_value(wrong, [1.0])


def test_sooner_p_value_is_that_of_the_rank_sum_test():
    rng = np.random.default_rng(3)
    steps = rng.permutation(12).astype(float) + 1
    first, second = steps[:5], steps[5:]
    exact = stats.mannwhitneyu(first, second, method="exact").pvalue
    assert sooner_p_value(first, second) == pytest.approx(exact)
