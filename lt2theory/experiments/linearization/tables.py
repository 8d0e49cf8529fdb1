"""The tables of docs/linearization-study.md: strings, in the order of the arms."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from lt2theory.experiments.cell_tables import Records
from lt2theory.experiments.linearization.views import (
    AGREEMENT,
    KL,
    Place,
    arms,
    ended,
    lengths,
    pooled,
)
from lt2theory.linearize.evaluation import mixer_order
from lt2theory.linearize.starts import STUDENT_MIXERS
from lt2theory.report.tables import MISSING, format_number


def number_records(
    table: pd.DataFrame, study: str, columns: Sequence[tuple[str, Place]]
) -> Records:
    """Arms of a study, with some of their numbers.

    Args:
        table: The table.
        study: The study.
        columns: Headings, and where their numbers stand.

    Returns:
        One record an arm that has ended.
    """
    rows = ended(table, study)
    return [
        {
            "arm": arm,
            "tokens": _millions(rows, arm),
            "seeds": str(rows[rows["arm"] == arm]["seed"].nunique()),
        }
        | {name: _said(rows, arm, place) for name, place in columns}
        for arm in arms(rows)
        if pooled(rows, arm, KL) is not None
    ]


def needle_columns(
    table: pd.DataFrame, study: str, kind: str = "number"
) -> list[tuple[str, Place]]:
    """Needles found at each length.

    Args:
        table: The table.
        study: The study.
        kind: Kind of the needle.

    Returns:
        Headings and places.
    """
    found = lengths(ended(table, study), "needle")
    return [(f"{n}", Place("needle", "found", "student", kind, n)) for n in found]


def teacher_records(table: pd.DataFrame) -> Records:
    """What our own teachers can, beside what needs no model.

    Args:
        table: The table.

    Returns:
        One record a teacher and number.
    """
    rows = ended(table, "teachers")
    own = rows[rows["metric"].isin(["bits_per_byte", "found", "recalled"])]
    records = []
    for row in own.to_dict("records"):
        where = " ".join(str(row[key]) for key in ("kind", "length") if not pd.isna(row[key]))
        at = _where(row["kind"], row["length"])
        one = pooled(rows, row["arm"], Place(row["part"], row["metric"], "teacher", *at))
        assert one is not None
        records.append(
            {
                "teacher": str(row["arm"]),
                "number": f"{row['part']} {where} {row['metric']}".replace("_", " "),
                "found": one.said,
                "floor": format_number(one.floor),
            }
        )
    return records


def order_records(table: pd.DataFrame) -> Records:
    """The order of the seven mixers by divergence, pair by pair.

    Args:
        table: The table.

    Returns:
        One record a pair.
    """
    rows, found = ended(table, "mixers"), []
    for mixer in STUDENT_MIXERS:
        kl = pooled(rows, mixer, KL)
        needle = pooled(rows, mixer, Place("needle", "found", kind="number", length=256))
        if kl is not None and needle is not None:
            ends = {"value": kl.value, "low": kl.low, "high": kl.high}
            found.append({"mixer": mixer, **ends, "found": needle.value})
    if len(found) < 2:
        return []
    return [
        {
            "pair": f"{row['first']}, {row['second']}",
            "nearer": str(row["better"]),
            "why not decided": str(row["reason"]) or MISSING,
        }
        for row in mixer_order(pd.DataFrame(found), higher_is_better=False).to_dict("records")
    ]


AGREED = ("agreement", AGREEMENT)


def _millions(rows: pd.DataFrame, arm: str) -> str:
    """Tokens that an arm has learnt from."""
    return f"{float(rows[rows['arm'] == arm]['tokens'].iloc[0]) / 1e6:.3g}M"


def _said(rows: pd.DataFrame, arm: str, place: Place) -> str:
    one = pooled(rows, arm, place)
    return MISSING if one is None else one.said


def _where(kind: Any, length: Any) -> tuple[str | None, int | None]:
    """Kind and length, None where they are null."""
    return None if pd.isna(kind) else str(kind), None if pd.isna(length) else int(length)
