"""What a cell leaves as rows: plain values under the names of the table's columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lt2theory.linearize.evaluation.table import COLUMNS
from lt2theory.linearize.selectors_compared import SCORES
from lt2theory.runs import RunFolder
from lt2theory.training.text import Corpus, xz_baseline

Rows = list[dict[str, Any]]
CURVE_POINTS = 12
"""Points of a stage's course that are kept, the last among them."""


def evaluation_rows(table: pd.DataFrame) -> Rows:
    """Rows of an evaluation.

    Args:
        table: From `evaluate_pair`.

    Returns:
        A row a number, without what is missing.
    """
    return [
        {str(name): _plain(row[name]) for name in COLUMNS if not pd.isna(row[name])}
        for row in table.to_dict("records")
    ]


def teacher_rows(rows: Rows, corpus: Corpus) -> Rows:
    """Rows of a teacher beside itself: its own numbers, with xz as the floor of bits per byte.

    Args:
        rows: Those of the pair.
        corpus: The text.

    Returns:
        The rows of the teacher.
    """
    own = [row for row in rows if row["model"] == "teacher"]
    for row in own:
        if row["metric"] == "bits_per_byte":
            row["floor"] = xz_baseline(corpus).primed
    return own


def stage_rows(folder: Path, stage: str, before: int, *, model: str = "student") -> Rows:
    """The course of a stage's loss, and how fast it went.

    Args:
        folder: The stage's run.
        stage: Its name.
        before: Steps done before it.
        model: Of what the rows are said.

    Returns:
        Rows of the parts `curve` and `cost`.
    """
    run = RunFolder.open(folder)
    place = {"model": model, "kind": stage}
    records = [one for one in run.metrics() if one.get("split") == "train"]
    chosen = np.unique(np.linspace(0, len(records) - 1, min(CURVE_POINTS, len(records))).round())
    rows: Rows = [
        place
        | {"part": "curve", "metric": "loss", "step": before + records[i]["step"]}
        | {"value": records[i]["metrics"]["loss"]}
        for i in chosen.astype(int).tolist()
    ]
    timing = run.summary()["timing"]
    names = ("training_seconds", "tokens_per_second")
    return rows + [
        place | {"part": "cost", "metric": name, "value": timing[name]} for name in names
    ]


def selection_rows(folder: Path, *, seeds: int) -> Rows:
    """Scores of layers by every selector.

    Args:
        folder: The selection.
        seeds: Seeds that it has.

    Returns:
        For each selector and layer `score` (mean, with lowest and highest seed), and `chosen` (1
        where the mean chooses it, with the share of seeds that alone would).
    """
    rows: Rows = []
    for one in pd.read_parquet(folder / SCORES).to_dict("records"):
        place: dict[str, Any] = {"part": "selection", "model": "student", "n": seeds}
        place |= {"kind": str(one["selector"]), "layer": int(one["layer"])}
        ends = {"low": float(one["lowest"]), "high": float(one["highest"])}
        rows.append(place | {"metric": "score", "value": float(one["mean"])} | ends)
        rows.append(place | {"metric": "chosen", "value": float(one["chosen"])})
        rows.append(place | {"metric": "share_of_seeds", "value": float(one["share"])})
    return rows


def _plain(value: Any) -> Any:
    """A number or a word as JSON has them."""
    return value.item() if isinstance(value, np.generic) else value
