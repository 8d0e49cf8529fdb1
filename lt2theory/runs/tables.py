"""The tidy table: one row a number, of one run or of many.

Lines of `metrics.jsonl` are records of this form (absent keys mean null):

```
{"step": 200, "stage": 16, "split": "eval", "n": 1024,
 "metrics": {"scored_accuracy": 0.93, ...}, "intervals": {"scored_accuracy": [0.91, 0.94]},
 "positions": [0, 1, ...], "curves": {"position_accuracy": [1.0, 0.99, ...], ...}}
```

Every entry of `metrics` becomes a row, every entry of a curve a row with a `position`.

Splits: `train` (losses, `<name>_loss` for an auxiliary one, and learning rate since the last
record), `eval` (promotion attempts), `confirmation` (their confirmation on other instances), `test`
(read once, at the end), `floor` (accuracies that need no learning; `metric` is the floor's name),
`selection` (learning-rate candidates, one after the other; `candidates` of summary.json has them as
records), `stability` (the instruments of `lt2theory.analysis.StabilityReading`; positions are
depths, loops, layers or bins), `stage` (`solved` 0 or 1, `steps` spent, `steps_to_solve` where
solved), `run` (facts of the whole run: `parameters`, `steps`, `solved_stages`, `solved`,
`diverged`, `budget_exhausted`) and `timing` (`seconds`, `training_seconds`, `samples_per_second`).
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.runs.atomic import write_bytes
from lt2theory.runs.store import RunFolder

COLUMNS: dict[str, tuple[str, str]] = {
    "run": ("string", "name of the run's folder"),
    "config_hash": ("string", "hash of its configuration"),
    "label": ("string", "name of the experiment's arm; runs of one arm differ in the seed alone"),
    "seed": ("Int64", "seed of the weights and of the training data"),
    "task": ("string", "name of the task"),
    "stage": ("Int64", "difficulty of the curriculum's stage; null for facts of the whole run"),
    "split": ("string", "what was measured on; see the module"),
    "step": ("Int64", "optimiser steps done when it was measured, over all stages"),
    "position": ("Int64", "position in the sequence, for curves; else null"),
    "metric": ("string", "name of the number"),
    "value": ("Float64", "the number"),
    "low": ("Float64", "lower end of its 95 % interval; null where there is none"),
    "high": ("Float64", "upper end of its 95 % interval; null where there is none"),
    "n": ("Int64", "instances it is a mean over; null where that has no meaning"),
}
"""Column -> (pandas dtype, meaning)."""


def empty_table() -> pd.DataFrame:
    """A tidy table without rows.

    Returns:
        A frame with every column of `COLUMNS` and its dtype.
    """
    return _frame([])


def run_table(run: RunFolder) -> pd.DataFrame:
    """Tidy table of one run, finished or not.

    Args:
        run: The run.

    Returns:
        A frame with the columns of `COLUMNS`, in the order in which the run wrote.
    """
    rows = [row for record in run.metrics() for row in _rows(record)]
    if run.status == "done":
        rows += _timing_rows(run.summary())
    return _frame([_identity(run) | row for row in rows])


def collect(runs: Iterable[RunFolder]) -> pd.DataFrame:
    """Tidy table of several runs.

    Args:
        runs: The runs.

    Returns:
        Their tables, one below the other.
    """
    tables = [run_table(run) for run in runs]
    return pd.concat(tables, ignore_index=True) if tables else empty_table()


def config_table(runs: Iterable[RunFolder]) -> pd.DataFrame:
    """What the runs' configurations say, to be merged into a tidy table on `run`.

    Args:
        runs: The runs.

    Returns:
        One row a run: `run`, then every field of its configuration under a dotted name, such as
        `model.num_loops` or `task.knobs.distance`; lists stay lists.
    """
    return pd.DataFrame(
        [{"run": run.path.name, **dict(_flatten(run.config))} for run in runs],
    )


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a tidy table as Parquet, all or nothing.

    Args:
        path: The file.
        table: The table.
    """
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    write_bytes(path, buffer.getvalue())


def read_table(path: Path) -> pd.DataFrame:
    """Read a tidy table.

    Args:
        path: A Parquet file written by `write_table`.

    Returns:
        The table, with the dtypes of `COLUMNS`.

    Raises:
        ValueError: The file is missing, is no Parquet, or lacks a column.
    """
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        reason = re.sub(r"\s+", " ", str(error))
        raise ValueError(f"{path} is not a readable Parquet file: {reason}") from error
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"{path} is no tidy table: it lacks the columns {', '.join(missing)}")
    return table.astype(_dtypes())


def _dtypes() -> dict[str, str]:
    return {name: dtype for name, (dtype, _) in COLUMNS.items()}


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(_dtypes())


def _identity(run: RunFolder) -> dict[str, Any]:
    return {"run": run.path.name, "config_hash": run.config_hash, **run.identity}


def _rows(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    shared = {name: record.get(name) for name in ("stage", "split", "step", "n")}
    intervals = record.get("intervals", {})
    for metric, value in record.get("metrics", {}).items():
        low, high = intervals.get(metric, (None, None))
        yield shared | {"metric": metric, "value": value, "low": low, "high": high}
    positions = record.get("positions", [])
    for metric, values in record.get("curves", {}).items():
        for position, value in zip(positions, values, strict=True):
            yield shared | {"metric": metric, "value": value, "position": position}


def _timing_rows(summary: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for metric, value in summary.get("timing", {}).items():
        yield {"split": "timing", "metric": metric, "value": value}


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
