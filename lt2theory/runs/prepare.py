"""A run's folder before it is written: made, swept of what a killed writer left, and taken over."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

from lt2theory.runs.atomic import (
    TEMPORARY_SUFFIX,
    full_disk_named,
    sync_directory,
    write_json,
)
from lt2theory.runs.layout import CHECKPOINTS, CONFIG, SUMMARY, read_header, run_status
from lt2theory.runs.lock import LOCK_NAME

_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_TOLD, _LONGEST = 4, 40
_NONE = "nothing"
"""What stands for a field that only one of two configurations has."""


def make_folder(path: Path) -> None:
    """Make the folder of a run if it is missing.

    Args:
        path: The run's folder.

    Raises:
        ValueError: A file is in its place, or it cannot be written.
        DiskFullError: The disk is full.
        OSError: Something else is wrong with it.
    """
    try:
        with full_disk_named(path):
            path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(f"{path} cannot be a run's folder: a file is in its place") from error
    except OSError as error:
        if error.errno not in _FORBIDDEN:
            raise
        raise ValueError(f"{path} cannot be created: {error.strerror}") from error
    if not os.access(path, os.W_OK):
        raise ValueError(f"{path} cannot be written: no permission")


def sweep(path: Path) -> None:
    """Remove what a killed writer left half-written (the lock is ours: nobody else writes).

    Args:
        path: The run's folder.
    """
    for folder in (path, path / CHECKPOINTS):
        for entry in folder.glob(f"*{TEMPORARY_SUFFIX}"):
            if entry.is_dir():
                remove_tree(entry)
            else:
                entry.unlink()


def take_over(path: Path, header: dict[str, Any], *, overwrite: bool) -> None:
    """Make a locked folder the run of a header: a new one, the same continued, or one overwritten.

    Args:
        path: The run's folder.
        header: `kind`, `hash`, `identity` and `config`.
        overwrite: Drop what the folder's run has written and start afresh.

    Raises:
        ValueError: The folder holds something else, or a run of another configuration (without
            `overwrite`).
    """
    if run_status(path) == "absent":
        others = sorted(entry.name for entry in path.iterdir() if entry.name != LOCK_NAME)
        if others:
            raise ValueError(f"{path} is not empty and not a run (it holds {others[0]})")
        write_json(path / CONFIG, header)
    elif overwrite:
        _clear(path)
        write_json(path / CONFIG, header)
    else:
        found = read_header(path)
        if found["kind"] != header["kind"]:
            raise ValueError(
                f"{path} holds a run of kind {found['kind']!r}, not {header['kind']!r}; "
                "choose another folder or give overwrite=True"
            )
        if found["hash"] != header["hash"]:
            raise ValueError(
                f"{path} holds a {found['kind']} run of another configuration "
                f"({_changes(found['config'], header['config'])}); choose another folder or "
                "give overwrite=True"
            )


def _changes(before: Any, now: Any) -> str:
    """Where two configurations differ: the first fields with their values, and how many more."""
    old, new = _leaves(before), _leaves(now)
    names = [name for name in {**old, **new} if old.get(name, _NONE) != new.get(name, _NONE)]
    told = [
        f"{name}: {_short(old.get(name, _NONE))} there, {_short(new.get(name, _NONE))} asked for"
        for name in names[:_TOLD]
    ]
    more = len(names) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _leaves(value: Any, name: str = "") -> dict[str, str]:
    """The values of a nested configuration by their paths, each as JSON."""
    if isinstance(value, dict | list | tuple) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        found: dict[str, str] = {}
        for key, part in parts:
            found |= _leaves(part, f"{name}.{key}" if name else str(key))
        return found
    return {name: json.dumps(value)}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def take_back(path: Path) -> None:
    """Forget that a locked folder was made a run, if nothing of the run was kept in it.

    Args:
        path: The run's folder.
    """
    if {entry.name for entry in path.iterdir()} <= {CONFIG, LOCK_NAME}:
        (path / CONFIG).unlink(missing_ok=True)


def _clear(path: Path) -> None:
    """Remove a run's files, config.json excepted: a kill in between leaves a run, not rubble."""
    (path / SUMMARY).unlink(missing_ok=True)
    if (path / CHECKPOINTS).exists():
        remove_tree(path / CHECKPOINTS)
    for entry in path.iterdir():
        if entry.suffix in {".json", ".jsonl"} and entry.name != CONFIG:
            entry.unlink()
    sync_directory(path)


def remove_tree(folder: Path) -> None:
    """Remove a folder; a kill in between leaves a temporary name, which nothing reads.

    Args:
        folder: The folder.
    """
    if folder.suffix != TEMPORARY_SUFFIX:
        doomed = folder.with_name(folder.name + TEMPORARY_SUFFIX)
        folder.rename(doomed)
        folder = doomed
    shutil.rmtree(folder)
