"""Tables of pages about studies: predictions, costs and what was not run; strings."""

from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from lt2theory.experiments.serial import AnyCell
from lt2theory.experiments.study_prediction import VERDICTS, Prediction, judged
from lt2theory.report.markdown import record_table
from lt2theory.report.tables import MISSING, counted

Records = list[dict[str, str]]
NOT_MEASURED = "not measured yet"


def prediction_records(table: pd.DataFrame, predictions: Iterable[Prediction]) -> Records:
    """Every prediction with what happened.

    Args:
        table: The table; it may be empty.
        predictions: The predictions.

    Returns:
        One record a prediction.
    """
    records = []
    for one in predictions:
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


def cost_records(
    table: pd.DataFrame, cells: Sequence[AnyCell], seconds: Callable[[AnyCell], float]
) -> Records:
    """Minutes by study: expected, and taken on which device.

    Args:
        table: The table.
        cells: All cells.
        seconds: What a cell is expected to take.

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
        minutes = sum(seconds(cell) for cell in own) / 60
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


def missing_cells(table: pd.DataFrame, cells: Sequence[AnyCell]) -> str:
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


def table_or_nothing(records: Records) -> str:
    """Records as Markdown.

    Args:
        records: The records; there may be none.

    Returns:
        The table, or a sentence that nothing was measured.
    """
    return (record_table(records) if records else f"{NOT_MEASURED.capitalize()}.") + "\n"
