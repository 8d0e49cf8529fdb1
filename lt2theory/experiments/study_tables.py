"""The tables of docs/study.md, from a study's table: strings, in the order of the cells."""

import statistics
from collections.abc import Sequence

import pandas as pd

from lt2theory.experiments.cells import Cell, Cells
from lt2theory.experiments.study_paper import LINES, compared
from lt2theory.experiments.study_prediction import VERDICTS, judged
from lt2theory.experiments.study_predictions import predictions
from lt2theory.experiments.study_recipes import FAMILIES
from lt2theory.experiments.study_views import (
    best_floor,
    reached_by,
)
from lt2theory.report.tables import MISSING, format_interval
from lt2theory.report.views import accuracies, outcomes

Records = list[dict[str, str]]
NOT_RUN = "not run yet"
TOP = "tests at the highest of these"


def recall_records(table: pd.DataFrame) -> Records:
    """Stage reached by family and loops, and by GDN+Window that stays at each rung (block 1).

    Args:
        table: A study's table.

    Returns:
        One record a family and number of loops, then the settled arm's.
    """
    arms = [(family, str(loops), "") for family in FAMILIES for loops in (1, 4)]
    arms.append(("gdn-window", "4", "-settled"))
    return [
        {"mixer": f"{family}{more}", "T": loops}
        | _reached(table, f"recall-{family}-t{loops}{more}")
        for family, loops, more in arms
    ]


def arm_records(table: pd.DataFrame, cells: Cells) -> Records:
    """Stage reached by arm, for blocks without a frame of their own.

    Args:
        table: A study's table.
        cells: Their cells.

    Returns:
        One record an arm.
    """
    return [{"arm": label, **_reached(table, label)} for label in labels_of(cells)]


def paper_records(table: pd.DataFrame) -> Records:
    """The paper's stages beside ours.

    Args:
        table: A study's table.

    Returns:
        One record a line of the paper.
    """
    records = []
    for line in LINES:
        verdict, reached = compared(line, table)
        found = ", ".join(map(str, reached)) or NOT_RUN
        records.append(
            {"the paper (single runs)": line.says, "our arm": line.label,
             "stages reached, by seed": found, "verdict": verdict}
        )  # fmt: skip
    return records


def prediction_records(table: pd.DataFrame) -> Records:
    """The registered predictions and what became of them.

    Args:
        table: A study's table.

    Returns:
        One record a prediction.
    """
    records = []
    for prediction in predictions():
        row = judged(prediction, table)
        records.append(
            {
                "prediction": row.claim,
                "basis": row.basis,
                "rule": prediction.rule,
                "what happened": row.happened,
                "verdict": VERDICTS[row.verdict],
            }
        )
    return records


def cost_records(table: pd.DataFrame) -> Records:
    """What the runs cost, by block and device: all sessions of all cells that have begun.

    Args:
        table: A study's table.

    Returns:
        One record a block and device (that of a run's last session).
    """
    rows = table[(table["split"] == "cost") & (table["metric"] == "device_seconds")]
    records = []
    for (block, device), runs in rows.groupby(["block", "device"], sort=True, dropna=False):
        steps, minutes = int(runs["progress"].sum()), float(runs["value"].sum()) / 60
        records.append(
            {
                "block": str(block),
                "device": device if isinstance(device, str) else MISSING,
                "cells begun": str(len(runs)),
                "of them ended": str(int((runs["status"] == "done").sum())),
                "steps": f"{steps:,}",
                "minutes of the device": f"{minutes:.1f}",
                "ms a step": f"{6e4 * minutes / steps:.1f}" if steps else MISSING,
            }
        )
    return records


def labels_of(cells: Sequence[Cell]) -> list[str]:
    """Arms of some cells.

    Args:
        cells: The cells.

    Returns:
        Every label once, in order.
    """
    return list(dict.fromkeys(cell.config.label for cell in cells))


def _reached(table: pd.DataFrame, label: str) -> dict[str, str]:
    rows = table[table["label"] == label]
    reached = reached_by(table, label)
    if not reached:
        return {"seeds": "0", "stage reached, median (range)": NOT_RUN,
                TOP: MISSING, "best floor there": MISSING, "steps": MISSING}  # fmt: skip
    middle = f"{statistics.median(reached):g} ({min(reached)} to {max(reached)})"
    tests = accuracies(rows)
    top = max(reached)
    best = tests[tests["stage"] == top]
    scores = ", ".join(
        format_interval(float(test["value"]), float(test["low"]), float(test["high"]))
        for test in best.to_dict("records")
    )
    ends = outcomes(rows)
    diverged = int(ends["diverged"].sum())
    return {
        "seeds": f"{len(reached)}" + (f", {diverged} diverged" if diverged else ""),
        "stage reached, median (range)": middle,
        TOP: scores or MISSING,
        "best floor there": f"{best_floor(rows, top):.3f}" if scores else MISSING,
        "steps": f"{ends['steps'].astype(float).median():,.0f}",
    }


def outcome_summary(records: Records) -> str:
    """How many predictions were kept, in words.

    Args:
        records: As `prediction_records` makes them.

    Returns:
        For instance `Kept: 3 of 4 decided, broken: 1, undecided: 14.` Without an interval:
        predictions share cells and are no sample of anything.
    """
    verdicts = [record["verdict"] for record in records]
    kept, broken = verdicts.count("kept"), verdicts.count(VERDICTS["not as predicted"])
    undecided = len(verdicts) - kept - broken
    if not kept + broken:
        return f"Kept: 0, broken: 0, undecided: {undecided}."
    return f"Kept: {kept} of {kept + broken} decided, broken: {broken}, undecided: {undecided}."
