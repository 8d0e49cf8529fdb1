"""The table of an evaluation: one row a number, with its interval, its floor and its count."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from lt2theory.linearize.evaluation.intervals import Estimate

COLUMNS: dict[str, tuple[str, str]] = {
    "part": (
        "string",
        "what was measured: recovery, cloze, needle, mqar, text, states, speed, zero_shot",
    ),
    "model": ("string", "`student`, `teacher`, `pair` for a comparison, `text` for the text's own"),
    "kind": (
        "string",
        "kind of needle, name of a task, way of generating; null where there is one",
    ),
    "length": ("Int64", "tokens of the context, or pairs for mqar; null where it has no meaning"),
    "layer": ("Int64", "layer, counted from 0; null for the whole model"),
    "loop": ("Int64", "loop, counted from 0; null for the whole model"),
    "metric": ("string", "name of the number"),
    "value": ("Float64", "the number"),
    "low": ("Float64", "lower end of its 95 % interval; null where there is none"),
    "high": ("Float64", "upper end of its 95 % interval; null where there is none"),
    "floor": ("Float64", "what needs no model; null where there is no such number"),
    "n": ("Int64", "independent units behind it: documents, texts, instances, timings"),
}
"""Column -> (pandas dtype, meaning)."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One number; the fields are those of `COLUMNS`."""

    part: str
    model: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    floor: float | None = None
    n: int | None = None
    kind: str | None = None
    length: int | None = None
    layer: int | None = None
    loop: int | None = None

    @classmethod
    def of(cls, one: Estimate, **fields: Any) -> "Measured":
        """A row of an estimate.

        Args:
            one: Value, interval and count.
            **fields: The other fields.

        Returns:
            The row.
        """
        return cls(**fields, value=one.value, low=one.low, high=one.high, n=one.n)


def measured_table(rows: Iterable[Measured]) -> pd.DataFrame:
    """Rows as a frame.

    Args:
        rows: The numbers.

    Returns:
        A frame with every column of `COLUMNS` and its dtype, in the order of the rows.
    """
    frame = pd.DataFrame([asdict(row) for row in rows], columns=list(COLUMNS))
    return frame.astype({name: dtype for name, (dtype, _) in COLUMNS.items()})
