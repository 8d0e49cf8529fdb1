"""What a code's numbers amount to, by rules with stated thresholds."""

from collections.abc import Mapping
from typing import Any, Literal

import pandas as pd

from lt2theory.analysis.group_codes import CARRIES

CodeKind = Literal["representation", "cascade", "feedback", "rewritten", "unclear"]

READABLE = 0.9
"""Least held-out accuracy at which something counts as readable."""

ERASES = 0.3
"""Largest such share at which the code counts as written afresh."""

EXPLAINED = 0.9
"""Least explained variance at which transitions count as depending on nothing else."""

GAIN = 0.05
"""Explained variance that more of the prefix must add before it counts."""

CHARACTER = 0.15
"""Largest mean deviation of traces from a character, a dimension, in a representation."""

KINDS: Mapping[CodeKind, str] = {
    "representation": (
        "what a token does depends on its element alone, which makes it a linear representation"
    ),
    "cascade": (
        "what a token does depends on its element and on the commuting part of the prefix, which "
        "makes it a cascade, as in a semidirect product (Krohn and Rhodes)"
    ),
    "feedback": "what a token does depends on the whole product so far, which makes it a feedback",
    "rewritten": "the transitions do not carry it: it is written afresh at every token",
    "unclear": "this is none of the named kinds",
}
"""What every kind means."""


def code_kind(row: Mapping[Any, Any]) -> CodeKind:
    """What moves a code.

    Args:
        row: A row as `code_row` makes it.

    Returns:
        The first of `KINDS` whose rule holds: a code of which less than `ERASES` is carried is
        rewritten; one of which `CARRIES` is carried belongs to the least part of the prefix that
        explains `EXPLAINED` of its transitions and to which more adds less than `GAIN`, provided
        that the traces of a representation are its character's within `CHARACTER`.
    """
    if row["carried"] <= ERASES:
        return "rewritten"
    token, commuting, product = (row[f"by_{name}"] for name in ("token", "commuting", "product"))
    if row["carried"] < CARRIES:
        return "unclear"
    # NaN where there are too few tokens to say more; then the simpler account stands.
    if token >= EXPLAINED and not commuting - token >= GAIN and not product - token >= GAIN:
        return "representation" if row["character_error"] <= CHARACTER else "unclear"
    if commuting >= EXPLAINED and not product - commuting >= GAIN:
        return "cascade"
    return "feedback" if product >= EXPLAINED else "unclear"


def named_codes(codes: pd.DataFrame) -> pd.DataFrame:
    """The place where every component is carried best.

    Args:
        codes: Rows as `code_row` makes them.

    Returns:
        One row a component with its `kind` and `others`, how many other heads of the same kind
        hold it, carried ones first, then by energy.
    """
    if codes.empty:
        return codes.assign(kind=[], others=[])
    kinds = codes.assign(kind=[code_kind(row) for row in codes.to_dict("records")])
    kinds["carries"] = kinds["kind"].isin(["representation", "cascade", "feedback"])
    kinds = kinds.sort_values(["carries", "landing", "energy"], ascending=False, kind="stable")
    best = kinds.drop_duplicates("component")
    heads = kinds.groupby(["component", "kind"])[["layer", "head"]].apply(
        lambda rows: len(rows.drop_duplicates())
    )
    others = [heads[row["component"], row["kind"]] - 1 for row in best.to_dict("records")]
    best = best.assign(others=others).drop(columns="carries")
    return best.sort_values("dimension", ascending=False, kind="stable").reset_index(drop=True)
