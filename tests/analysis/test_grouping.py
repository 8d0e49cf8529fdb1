"""Statistics by input token against a loop over the rows."""

import numpy as np
import pandas as pd
import pytest
import torch

from lt2theory.analysis import MEANINGS, group_by_input

TOKENS = torch.tensor([[0, 1, 2, 1], [2, 2, 0, 1]])


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {"batch": b, "token": t, "span": 1, "layer": layer, "head": head, "num_loops": num_loops}
        for b in range(2)
        for t in range(4)
        for layer in range(2)
        for head in range(2)
        for num_loops in (1, 2)
    ]
    return pd.DataFrame(rows).assign(
        loop_state="accumulate",
        acts_on_state=True,
        meaning=MEANINGS["accumulate"],
        entropy_rank=rng.uniform(0, 2, len(rows)),
    )


def test_equals_a_loop_over_the_rows(table):
    summary = group_by_input(table, TOKENS)
    assert len(summary) == 2 * 2 * 2 * 3
    for group in summary.itertuples():
        values = [
            row.entropy_rank
            for row in table.itertuples()
            if (row.layer, row.head, row.num_loops) == (group.layer, group.head, group.num_loops)
            and TOKENS[row.batch, row.token] == group.input
        ]
        assert group.count == len(values) == (group.input == TOKENS).sum()
        assert group.mean == pytest.approx(np.mean(values))
        assert group.std == pytest.approx(np.std(values))
        quantiles = np.quantile(values, [0.05, 0.5, 0.95])
        assert [group.low, group.median, group.high] == pytest.approx(list(quantiles))
        assert group.statistic == "entropy_rank"


def test_reference_stands_beside_and_restricts(table):
    summary = group_by_input(table, TOKENS, reference={1: 1.0, 2: 2})
    assert set(summary["input"]) == {1, 2}
    assert (summary["reference"] == summary["input"]).all()


def test_errors_name_the_argument(table):
    with pytest.raises(ValueError, match="statistic: 'nuclear' is not a column"):
        group_by_input(table, TOKENS, "nuclear")
    with pytest.raises(ValueError, match="table: spans of several tokens"):
        group_by_input(table.assign(span=2), TOKENS)
    with pytest.raises(ValueError, match=r"tokens: shape \[1, 4\] .*\[2, 4\]"):
        group_by_input(table, TOKENS[:1])
    with pytest.raises(ValueError, match=r"tokens: shape \[2, 3\] .*\[2, 4\]"):
        group_by_input(table, TOKENS[:, 1:])
    with pytest.raises(ValueError, match="table: no rows"):
        group_by_input(table.iloc[:0], TOKENS)
