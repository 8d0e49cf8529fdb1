"""The file of an efficiency benchmark: rows are added as they are measured, sessions resume."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lt2theory.runs import write_json
from lt2theory.runs.atomic import read_json

KEY = ("arm", "form", "phase", "batch", "length")
SAME = ("device",)
"""What must not change between the sessions of one file, besides torch and Triton."""
PACKAGES = ("torch", "triton")

Rows = Iterator[dict[str, Any]]
C = TypeVar("C")


def left_to_do(cells: Sequence[C], path: Path, key: Sequence[str] = KEY) -> list[C]:
    """The cells that a file has no row of.

    Args:
        cells: All that are wanted.
        path: The file, which may be missing.
        key: Fields of a cell that name its row.

    Returns:
        The others, in the same order.

    Raises:
        ValueError: The file holds something else.
    """
    rows = _content(path)["rows"]
    done = {tuple(row.get(name) for name in key) for row in rows}
    return [cell for cell in cells if tuple(vars(cell)[name] for name in key) not in done]


def add_rows(
    path: Path,
    measure: Callable[[], Rows],
    *,
    command: str,
    environment: dict[str, Any],
    told: Callable[[dict[str, Any]], None] = lambda row: None,
) -> dict[str, Any]:
    """Measure, and write the file anew after every row.

    Args:
        path: The file; made if it is missing.
        measure: Gives the rows.
        command: What is typed to get them.
        environment: As `lt2theory.runs.environment.capture` gives it.
        told: Told every row once it is written.

    Returns:
        The file's contents: `commands`, `date`, `environment` and `rows`.

    Raises:
        ValueError: The file holds something else, or rows of another device, torch or Triton.
    """
    content = _content(path)
    before = content.get("environment")
    if before is not None:
        _check_same(path, before, environment)
    content["environment"] = environment
    content["commands"] = list(dict.fromkeys([*content.get("commands", []), command]))
    for row in measure():
        content["rows"].append(row)
        content["date"] = time.strftime("%Y-%m-%d", time.gmtime())
        write_json(path, content)
        told(row)
    return content


def _content(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {"rows": []}
    found = read_json(path)
    rows = found.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path} is not a file of this benchmark: it has no rows")
    return found


def _check_same(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to mix rows of different machines.

    Raises:
        ValueError: Naming what differs.
    """
    old = {name: before.get(name) for name in SAME} | _versions(before)
    new = {name: now.get(name) for name in SAME} | _versions(now)
    for name, value in new.items():
        if old[name] != value:
            raise ValueError(
                f"{path} holds rows of {name} {old[name]}, not {value}; give another file"
            )


def _versions(environment: dict[str, Any]) -> dict[str, Any]:
    return {name: environment.get("packages", {}).get(name) for name in PACKAGES}
