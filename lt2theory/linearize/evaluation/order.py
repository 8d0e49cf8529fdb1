"""Which of two mixers is better, and when that cannot be said."""

import itertools
from typing import Any

import pandas as pd

NEEDLE_LENGTH = 256
LEAST_FOUND = 0.5
"""Below this share of needles at the shortest length a student is too broken to be ranked."""

_COLUMNS = ("mixer", "value", "low", "high", "found")


def mixer_order(table: pd.DataFrame, *, higher_is_better: bool = True) -> pd.DataFrame:
    """Compare mixers by pairs.

    The order of two is undecided where their intervals overlap, where one has none, or where
    either finds less than half of the needles in a haystack of 256 tokens: what recovers a loss but
    cannot recall is no better a model.

    Args:
        table: A row a mixer: `mixer`, `value` with `low` and `high` (its 95 % interval), and
            `found`, the share of needles at 256 tokens.
        higher_is_better: Whether a higher value is better; not for a divergence.

    Returns:
        A row a pair: `first`, `second`, `better` (a mixer, or `undecided`) and `reason`.

    Raises:
        ValueError: A column is missing or a mixer has two rows.
    """
    missing = [name for name in _COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"table: lacks the columns {', '.join(missing)}")
    if table["mixer"].duplicated().any():
        raise ValueError("table: a mixer has two rows (allowed is one each)")
    rows = table.to_dict("records")
    pairs = []
    for one, other in itertools.combinations(rows, 2):
        reason = _undecided(one, other)
        better = "undecided"
        if not reason:
            first = (one["value"] > other["value"]) is higher_is_better
            better = str((one if first else other)["mixer"])
        pairs.append((one["mixer"], other["mixer"], better, reason))
    return pd.DataFrame(pairs, columns=["first", "second", "better", "reason"])


def _undecided(one: dict[Any, Any], other: dict[Any, Any]) -> str:
    """Why two cannot be ordered; nothing where they can."""
    for row in (one, other):
        if not row["found"] >= LEAST_FOUND:  # also where it is no number
            share = f"{100 * row['found']:.0f} %"
            return f"{row['mixer']} finds {share} of needles at {NEEDLE_LENGTH} tokens"
    apart = one["high"] < other["low"] or other["high"] < one["low"]
    return "" if apart else "intervals overlap"


def recovered_share(student: float, teacher: float, floor: float) -> float:
    """How much of what the teacher has above the floor the student has too.

    Args:
        student: Accuracy of the student.
        teacher: Accuracy of the teacher.
        floor: What needs no model.

    Returns:
        `(student - floor) / (teacher - floor)`: 1 is all, 0 nothing, below 0 less than guessing.

    Raises:
        ValueError: The teacher is not above the floor, so that there is nothing to recover.
    """
    if not teacher > floor:
        raise ValueError(f"teacher: {teacher} must be > {floor} (the floor)")
    return (student - floor) / (teacher - floor)
