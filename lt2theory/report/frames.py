"""Checks on the tidy tables that figures, tables and intervals are functions of."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd


def require_columns(frame: pd.DataFrame, columns: Sequence[str], what: str) -> None:
    """Refuse a table that lacks a column or has no rows.

    Args:
        frame: The tidy table.
        columns: Names that must be present.
        what: What the table is for, as it should read in the message.

    Raises:
        ValueError: A column is missing, or the table is empty.
    """
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        have = ", ".join(map(str, frame.columns))
        raise ValueError(f"{what}: column {missing[0]!r} is missing, the table has: {have}")
    if frame.empty:
        raise ValueError(f"{what}: the table has 0 rows, at least 1 is needed")


def require_one_row_each(frame: pd.DataFrame, keys: Sequence[str], what: str) -> None:
    """Refuse a table in which several rows share the same keys.

    Two rows of one seed in one cell would be counted as two independent runs.

    Args:
        frame: The tidy table.
        keys: Columns that must identify a row.
        what: What the table is for, as it should read in the message.

    Raises:
        ValueError: Some combination of `keys` occurs more than once.
    """
    repeated = frame.duplicated(list(keys), keep=False)
    if repeated.any():
        first = frame.loc[repeated, list(keys)].iloc[0]
        where = ", ".join(f"{key}={first[key]!r}" for key in keys)
        raise ValueError(
            f"{what}: {int(repeated.sum())} rows share a key, first {where}; allowed is 1 each"
        )


def in_order(values: Iterable[object]) -> list[str]:
    """Distinct values as text, in the order in which they first occur.

    Args:
        values: For instance the `label` column of a table.

    Returns:
        Each distinct value once.
    """
    return list(dict.fromkeys(str(value) for value in values))


def numbers(frame: pd.DataFrame, column: str) -> np.ndarray:
    """One column as float64, with missing entries as NaN.

    Args:
        frame: The tidy table.
        column: The column's name.

    Returns:
        One number a row.

    Raises:
        ValueError: The column holds something that is not a number.
    """
    try:
        return frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {column!r} holds {error}, allowed are numbers") from error


def require_influence(values: np.ndarray) -> None:
    """Refuse influences that a logarithmic axis cannot show.

    Args:
        values: The influences.

    Raises:
        ValueError: One is negative or not finite, or all are 0.
    """
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() > 0):
        raise ValueError(
            f"influence runs from {values.min():g} to {values.max():g}, allowed are finite values "
            "from 0, not all 0"
        )
