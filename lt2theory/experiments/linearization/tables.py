"""The tables of docs/linearization-study.md: strings, in the order of the arms."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from lt2theory.experiments.linearization.cells import LinearCells
from lt2theory.experiments.linearization.minutes import cell_seconds
from lt2theory.experiments.linearization.predictions import predictions
from lt2theory.experiments.linearization.views import (
    AGREEMENT,
    KL,
    Place,
    arms,
    ended,
    lengths,
    pooled,
)
from lt2theory.experiments.study_prediction import VERDICTS, judged
from lt2theory.linearize.evaluation import mixer_order
from lt2theory.linearize.starts import STUDENT_MIXERS
from lt2theory.report.tables import MISSING, counted, format_number

Records = list[dict[str, str]]
NOT_MEASURED = "not measured yet"


def prediction_records(table: pd.DataFrame) -> Records:
    """Every prediction with what happened.

    Args:
        table: The table; it may be empty.

    Returns:
        One record a prediction.
    """
    records = []
    for one in predictions():
        row = judged(one, table)
        records.append(
            {
                "prediction": row.claim,
                "basis": row.basis,
                "decided by": one.rule,
                "found": row.happened,
                "verdict": VERDICTS[row.verdict],
            }
        )
    return records


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


def cost_records(table: pd.DataFrame, cells: LinearCells) -> Records:
    """Minutes by study: expected, and taken on which device.

    Args:
        table: The table.
        cells: All cells.

    Returns:
        One record a study.
    """
    records = []
    taken = table[table["metric"] == "cell_seconds"]
    for study in dict.fromkeys(cell.study for cell in cells):
        own = [cell for cell in cells if cell.study == study]
        spent = taken[taken["study"] == study]
        devices = ", ".join(sorted({str(name) for name in spent["device"].dropna()}))
        done = int((spent["status"] == "done").sum())
        minutes = sum(cell_seconds(cell) for cell in own) / 60
        records.append(
            {
                "study": study,
                "cells done": f"{done} of {len(own)}",
                "GPU minutes expected": f"{minutes:.0f}",
                "taken": f"{float(spent['value'].sum()) / 60:.0f}" if len(spent) else NOT_MEASURED,
                "device": devices or MISSING,
            }
        )
    return records


def missing_cells(table: pd.DataFrame, cells: LinearCells) -> str:
    """What was not run, by study.

    Args:
        table: The table.
        cells: All cells.

    Returns:
        Markdown.
    """
    done = set(table[table["status"] == "done"]["cell"])
    lines = []
    for study in dict.fromkeys(cell.study for cell in cells):
        own = [cell.name for cell in cells if cell.study == study]
        lost = [name for name in own if name not in done]
        if lost:
            which = "all" if len(lost) == len(own) else ", ".join(f"`{name}`" for name in lost)
            lines.append(f"- {study}: {counted(len(lost), 'cell')} of {len(own)}: {which}.")
    return "\n".join(lines) + "\n" if lines else "Nothing: every cell has ended.\n"


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
