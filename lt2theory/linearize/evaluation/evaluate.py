"""An evaluation: all its parts, each kept in the folder as soon as it is done."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from lt2theory.linearize.evaluation.cloze import cloze_rows
from lt2theory.linearize.evaluation.generation import text_rows
from lt2theory.linearize.evaluation.needle import needle_rows
from lt2theory.linearize.evaluation.pair import EvaluationConfig, Pair, PartName
from lt2theory.linearize.evaluation.recall import recall_rows
from lt2theory.linearize.evaluation.recovery import recovery_rows
from lt2theory.linearize.evaluation.speed import speed_rows
from lt2theory.linearize.evaluation.states import state_rows
from lt2theory.linearize.evaluation.table import Measured, measured_table
from lt2theory.linearize.evaluation.zero_shot import zero_shot_rows
from lt2theory.runs import config_hash, read_json, write_json, write_table
from lt2theory.runs.environment import ENVIRONMENT, capture, record
from lt2theory.runs.layout import CONFIG, SUMMARY

PARTS: dict[PartName, Callable[[Pair, EvaluationConfig], list[Measured]]] = {
    "recovery": recovery_rows,
    "cloze": cloze_rows,
    "needle": needle_rows,
    "mqar": recall_rows,
    "text": text_rows,
    "states": state_rows,
    "speed": speed_rows,
    "zero_shot": zero_shot_rows,
}
TABLE = "evaluation.parquet"
_DONE = "parts"


def evaluate_pair(
    pair: Pair,
    config: EvaluationConfig,
    folder: Path,
    *,
    about: dict[str, Any] | None = None,
    made: Mapping[str, str] | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> pd.DataFrame:
    """Evaluate a student, or go on with what an interrupted call has left.

    Args:
        pair: The student and its teacher.
        config: What to measure.
        folder: Holds a Parquet file a part while they are being made, then `evaluation.parquet`
            and summary.json, written last.
        about: What the models and the text are, as JSON; part of the hash.
        made: What made the `student` and the `teacher`, in words
            (`lt2theory.linearize.teachers.made_by`); kept in environment.json, beside what this
            call runs on.
        tell: Told of each part before it begins.

    Returns:
        The table.

    Raises:
        ValueError: The folder holds another evaluation, or as the parts.
    """
    settings = {"config": config.model_dump(mode="json"), "about": about or {}}
    _claim(folder, settings)
    paths = {name: folder / _DONE / f"{name}.parquet" for name in config.parts}
    done = sum(path.is_file() for path in paths.values())
    if done < len(paths):
        here = capture(threads=torch.get_num_threads(), device=pair.runtime.device_name)
        here |= {"dtype": str(pair.runtime.dtype).removeprefix("torch."), **(made or {})}
        record(folder, here, step=done)  # a part is a step
    tables = []
    for name, path in paths.items():
        if not path.is_file():
            tell(name)
            path.parent.mkdir(exist_ok=True)
            try:
                rows = PARTS[name](pair, config)
            except ValueError:
                _take_back(folder)
                raise
            write_table(path, measured_table(rows))
        # From the file in either case: an interrupted evaluation ends with the same table.
        tables.append(pd.read_parquet(path).astype(measured_table([]).dtypes.to_dict()))
    table = pd.concat(tables, ignore_index=True)
    write_table(folder / TABLE, table)
    write_json(folder / SUMMARY, settings | {"headline": headline(table)})
    return table


def headline(table: pd.DataFrame) -> dict[str, float]:
    """The numbers of the whole models, by `part.model.metric`, for printing.

    Args:
        table: An evaluation.

    Returns:
        Those that are numbers and have no kind, layer or loop; of several lengths the first.
    """
    whole = table[table[["kind", "layer", "loop"]].isna().all(axis=1)]
    names = whole["part"] + "." + whole["model"] + "." + whole["metric"]
    found: dict[str, float] = {}
    for name, value in zip(names, whole["value"], strict=True):
        if math.isfinite(value):
            found.setdefault(str(name), float(value))
    return found


def _claim(folder: Path, settings: dict[str, Any]) -> None:
    """Make the folder, or make sure that it is of the same settings.

    Raises:
        ValueError: It is of others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CONFIG
    if not path.is_file():
        write_json(path, settings)
        return
    before = read_json(path)
    if config_hash(before) != config_hash(settings):
        changed = [key for key in settings if before.get(key) != settings[key]]
        raise ValueError(
            f"out: {str(folder)!r} holds another evaluation (other {', '.join(changed)}); "
            "give another folder"
        )


def _take_back(folder: Path) -> None:
    """Leave a folder free for other settings, where a refusal came before the first part."""
    if not any((folder / _DONE).iterdir()):
        (folder / _DONE).rmdir()
        (folder / CONFIG).unlink()
        (folder / ENVIRONMENT).unlink()
