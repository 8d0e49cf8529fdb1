"""Per-token statistics of a table, summarised for each input token."""

from collections.abc import Mapping

import pandas as pd
from jaxtyping import Int
from torch import Tensor


def group_by_input(
    table: pd.DataFrame,
    tokens: Int[Tensor, "b t"],
    statistic: str = "entropy_rank",
    *,
    reference: Mapping[int, float] | None = None,
) -> pd.DataFrame:
    """A per-token statistic, summarised for each input token.

    For a group word problem the input is a group element, and `reference` its `n - cycles`: the
    number of factors that its permutation needs (theory E2).

    Args:
        table: From `loop_transitions` with `span=1`.
        tokens: The traced tokens `[b t]`.
        statistic: Column to summarise.
        reference: A number to stand beside each input token; tokens that it lacks are left out.

    Returns:
        One row for each layer, head, number of loops and input token: `input`, `count`, `mean`,
        `std` (population), `low`, `median`, `high` (5, 50 and 95 %), the label columns, and
        `reference` where given.

    Raises:
        ValueError: If the table has spans of several tokens, lacks the statistic, or does not
            belong to these tokens.
    """
    _check_table(table, tokens, statistic)
    ids = tokens.detach().cpu().numpy()
    inputs = ids[table["batch"].to_numpy(), table["token"].to_numpy()]
    chosen = table.assign(input=inputs)
    if reference is not None:
        chosen = chosen[chosen["input"].isin(list(reference))]
    keys = ["layer", "head", "num_loops", "loop_state", "acts_on_state", "meaning", "input"]
    grouped = chosen.groupby(keys, observed=True)[statistic]
    summary = pd.DataFrame(
        {
            "count": grouped.size(),
            "mean": grouped.mean(),
            "std": grouped.std(ddof=0),
            "low": grouped.quantile(0.05),
            "median": grouped.median(),
            "high": grouped.quantile(0.95),
        }
    ).reset_index()
    summary.insert(len(keys), "statistic", statistic)
    if reference is not None:
        summary["reference"] = summary["input"].map(dict(reference)).astype(float)
    return summary


def _check_table(table: pd.DataFrame, tokens: Tensor, statistic: str) -> None:
    """Refuse a table that cannot be grouped by these tokens.

    Raises:
        ValueError: Naming `table`, `tokens` or `statistic`.
    """
    if statistic not in table.columns:
        raise ValueError(f"statistic: {statistic!r} is not a column (must be one of the table's)")
    if (table["span"] != 1).any():
        raise ValueError("table: spans of several tokens have no single input (must have span 1)")
    if table.empty:
        raise ValueError("table: no rows (must have at least one)")
    needed = (int(table["batch"].max()) + 1, int(table["token"].max()) + 1)
    if tuple(tokens.shape) != needed:
        expected = list(needed)
        raise ValueError(f"tokens: shape {list(tokens.shape)} is not allowed (must be {expected})")
