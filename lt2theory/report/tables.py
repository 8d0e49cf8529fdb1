"""Tables for readers: every number beside its interval, its n and the floors it must beat."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_bool, is_float, is_integer

from lt2theory.report.frames import numbers, require_columns, require_one_row_each

AboveFloor = Literal["yes", "no", "unclear"]

MISSING = "—"


def format_number(value: float, digits: int = 3) -> str:
    """A number for reading.

    Args:
        value: The number.
        digits: Decimals of numbers below 1,000; larger ones have none.

    Returns:
        For instance `0.912`, `12,300`, `∞`, or a dash for NaN.
    """
    if np.isnan(value):
        return MISSING
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value != 0 and abs(value) < 10**-digits:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}f}"


def format_interval(value: float, low: float, high: float, digits: int = 3) -> str:
    """A number with its interval.

    Args:
        value: The estimate.
        low: Lower end, NaN where there is none.
        high: Upper end, NaN where there is none.
        digits: Decimals.

    Returns:
        For instance `0.912 [0.880, 0.940]`, or the number alone without an interval.
    """
    text = format_number(value, digits)
    if np.isnan(low) or np.isnan(high):
        return text
    return f"{text} [{format_number(low, digits)}, {format_number(high, digits)}]"


def format_cell(value: object, digits: int = 3) -> str:
    """A cell of a table for reading.

    Args:
        value: A number, a truth value, a text, or nothing (None, NaN and pandas' own).
        digits: Decimals, as for `format_number`.

    Returns:
        Numbers as `format_number` writes them, whole ones without decimals, `yes` or `no`, a dash
        for nothing, anything else as it writes itself.
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return MISSING
    if is_bool(value):
        return "yes" if value else "no"
    if is_integer(value):
        return f"{int(str(value)):,}"
    return format_number(float(str(value)), digits) if is_float(value) else str(value)


def readable(table: pd.DataFrame | pd.Series, digits: int = 4) -> pd.DataFrame:
    """A table of measurements for reading, as the notebooks show them all.

    Args:
        table: Any table, or one column of it.
        digits: Decimals of numbers that are not whole.

    Returns:
        The same rows and columns in text, each cell as `format_cell` writes it; a column of
        floats that are all whole or missing has no decimals.
    """
    frame = table.to_frame() if isinstance(table, pd.Series) else table
    return frame.convert_dtypes().map(lambda value: format_cell(value, digits)).astype(str)


def counted(count: int, noun: str) -> str:
    """A number of things.

    Args:
        count: How many.
        noun: What, in the singular; its plural takes an s.

    Returns:
        For instance `1 run` or `2 runs`.
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def above_floor(low: float, high: float, floor: float) -> AboveFloor:
    """Whether an interval lies above a floor.

    Args:
        low: Lower end.
        high: Upper end.
        floor: What needs no learning of the skill in question.

    Returns:
        `yes` if all of the interval lies above, `no` if none of it does, else `unclear` (also
        where there is no interval).
    """
    if low > floor:
        return "yes"
    return "no" if high <= floor else "unclear"


def accuracy_table(
    frame: pd.DataFrame,
    floors: pd.DataFrame,
    *,
    by: str = "stage",
    stage_label: str | None = None,
) -> pd.DataFrame:
    """Accuracies with intervals, n and every floor.

    Args:
        frame: One row an arm and stage: `label`, the column `by`, `value`, `low`, `high`; columns
            `n` (instances, or seeds where the interval is over seeds) and `seeds` are kept.
        floors: One row a stage and floor: the column `by`, `floor`, `value`.
        by: Name of the difficulty's column, such as `stage` or `length`.
        stage_label: Its heading, `by` itself if None.

    Returns:
        One row an arm and stage, ready to show: arm, difficulty, accuracy with interval, seeds, n,
        whether it is above the best floor, and all floors, best first.
    """
    require_columns(frame, ["label", by, "value", "low", "high"], "accuracy table")
    require_one_row_each(frame, ["label", by], "accuracy table")
    require_columns(floors, [by, "floor", "value"], "floors of the accuracy table")
    require_one_row_each(floors, [by, "floor"], "floors of the accuracy table")
    values, lows, highs = (numbers(frame, name) for name in ("value", "low", "high"))
    wide = floors.pivot_table(index=by, columns="floor", values="value", sort=False)
    beside = wide.reindex(frame[by]).astype(float).reset_index(drop=True)
    best = beside.max(axis=1).to_numpy(dtype=float)
    shown: dict[str, Sequence[object]] = {
        "arm": frame["label"].astype(str).tolist(),
        stage_label or by: frame[by].tolist(),
        "accuracy": [
            format_interval(value, low, high)
            for value, low, high in zip(values, lows, highs, strict=True)
        ],
    }
    shown |= {name: frame[name].tolist() for name in ("seeds", "n") if name in frame.columns}
    shown["above best floor"] = [
        above_floor(low, high, floor) for low, high, floor in zip(lows, highs, best, strict=True)
    ]
    shown["floors"] = [_floors(row) for _, row in beside.iterrows()]
    return pd.DataFrame(shown)


def outcome_table(success: pd.DataFrame) -> pd.DataFrame:
    """Success rates and steps to solve, ready to show.

    Args:
        success: As `lt2theory.report.statistics.success_table` makes it, with `label`.

    Returns:
        One row an arm: arm, seeds that solved, success rate and median steps with intervals.
    """
    needed = ["label", "successes", "n", "rate", "low", "high", "median_steps"]
    require_columns(success, [*needed, "steps_low", "steps_high", "steps_confidence"], "outcomes")
    return pd.DataFrame(
        [
            {
                "arm": str(arm["label"]),
                "solved": f"{arm['successes']} of {counted(arm['n'], 'seed')}",
                "success rate": format_interval(arm["rate"], arm["low"], arm["high"]),
                "median steps to solve": _steps(arm),
            }
            for arm in success.to_dict("records")
        ]
    )


def _floors(row: pd.Series) -> str:
    known = row.dropna().sort_values(ascending=False, kind="stable")
    return "; ".join(f"{name} {format_number(value)}" for name, value in known.items()) or MISSING


def _steps(arm: Mapping[Hashable, object]) -> str:
    """The median with its interval; the coverage is said where it is not the usual one."""
    median, low, high, confidence = (
        float(str(arm[name]))
        for name in ("median_steps", "steps_low", "steps_high", "steps_confidence")
    )
    if np.isinf(median):
        return "not reached" if np.isinf(low) else f"not reached (above {format_number(low, 0)})"
    text = format_interval(median, low, high, 0)
    short = confidence < 0.95 and not np.isnan(low)
    return f"{text} ({100 * confidence:.1f} % interval)" if short else text
