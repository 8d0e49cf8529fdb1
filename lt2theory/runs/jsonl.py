"""Append-only files of JSON records, one a line, that survive a kill in the middle of a line."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lt2theory.runs.atomic import write_synced
from lt2theory.runs.hashing import canonical_json


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Add one record and flush it to the disk.

    Args:
        path: The file; made if it is missing.
        record: Plain JSON values.

    Raises:
        DiskFullError: The disk is full; the line may be torn.
        ValueError: A number is not finite.
    """
    write_synced(path, (canonical_json(dict(record)) + "\n").encode(), append=True)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the complete records; a last line without its end is still being written.

    Args:
        path: The file, which may be missing.

    Returns:
        The records, oldest first.

    Raises:
        ValueError: A complete line is no JSON object.
    """
    if not path.exists():
        return []
    complete = path.read_bytes().split(b"\n")[:-1]
    return [_parse(path, number, line) for number, line in enumerate(complete, start=1)]


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} line {number} is not valid JSON: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(f"{path} line {number} holds no JSON object")
    return record


def cut(path: Path, size: int) -> None:
    """Drop what lies behind the first `size` bytes, durably.

    Args:
        path: An existing file.
        size: Bytes to keep.
    """
    with path.open("r+b") as stream:
        stream.truncate(size)
        os.fsync(stream.fileno())


def drop_torn_line(path: Path) -> None:
    """Drop a last line that a kill left without its end, so that the next one starts cleanly.

    Args:
        path: The file, which may be missing.
    """
    data = path.read_bytes() if path.exists() else b""
    if not data.endswith(b"\n") and data:
        cut(path, data.rfind(b"\n") + 1)
