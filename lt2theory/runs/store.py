"""The run store: one folder a run, resumable at any moment, done when `summary.json` is there."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from lt2theory.runs.atomic import (
    TEMPORARY_SUFFIX,
    full_disk_named,
    read_json,
    sync_directory,
    write_json,
    write_synced,
)
from lt2theory.runs.hashing import config_hash
from lt2theory.runs.jsonl import append_line, cut, drop_torn_line, read_lines
from lt2theory.runs.lock import LOCK_NAME, locked

RunStatus = Literal["absent", "unfinished", "done"]

CONFIG = "config.json"
METRICS = "metrics.jsonl"
TIMING = "timing.jsonl"
SUMMARY = "summary.json"
CHECKPOINTS = "checkpoints"
KEPT_CHECKPOINTS = 2


class RunFolder:
    """A run on the disk.

    `config.json` holds `kind` (which trainer), `hash`, `identity` (the columns label, seed and task
    of the tidy table) and `config`. `metrics.jsonl` is deterministic: an interrupted and resumed
    run leaves the same bytes as an undisturbed one, so wall-clock numbers live in `timing.jsonl`.

    Use `RunFolder.open` to read and `RunFolder.writing` to write.

    Attributes:
        path: The folder.
        kind: Which trainer wrote it, such as "curriculum".
        config: Its configuration as plain JSON values.
        config_hash: Short hash of the configuration.
        identity: Values of the tidy table's columns `label`, `seed` and `task`.
    """

    def __init__(self, path: Path) -> None:
        header = read_json(path / CONFIG)
        missing = [key for key in ("kind", "hash", "identity", "config") if key not in header]
        if missing:
            raise ValueError(f"{path / CONFIG} lacks {', '.join(missing)}: not a run's config.json")
        identity = header["identity"]
        if not isinstance(identity, dict) or not {"label", "seed", "task"} <= identity.keys():
            raise ValueError(f"{path / CONFIG} is damaged: identity lacks label, seed or task")
        if not isinstance(header["config"], dict):
            raise ValueError(f"{path / CONFIG} is damaged: config is no object")
        self.path = path
        self.kind: str = header["kind"]
        self.config: dict[str, Any] = header["config"]
        self.config_hash: str = header["hash"]
        self.identity: dict[str, Any] = header["identity"]
        if config_hash(self.config) != self.config_hash:
            raise ValueError(f"{path / CONFIG} was edited: its hash is not that of its config")

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open an existing run for reading.

        Args:
            path: The run's folder.

        Returns:
            The run.

        Raises:
            ValueError: The folder does not exist, is not a run, or its config.json is damaged.
        """
        if not path.is_dir():
            raise ValueError(f"{path} is not a folder; expected a run's folder")
        if not (path / CONFIG).is_file():
            raise ValueError(f"{path} is not a run: it has no {CONFIG}")
        return cls(path)

    @classmethod
    @contextlib.contextmanager
    def writing(
        cls,
        path: Path,
        *,
        kind: str,
        config: Mapping[str, Any],
        identity: Mapping[str, Any],
        overwrite: bool = False,
    ) -> Iterator["RunFolder"]:
        """Create a run, or open an unfinished one to continue it, holding its lock.

        Args:
            path: The run's folder; made if it is missing.
            kind: Which trainer writes it.
            config: Its configuration as plain JSON values.
            identity: `label`, `seed` and `task` for the tidy table.
            overwrite: Drop what the folder's run has written and start afresh.

        Yields:
            The run. It may be done already: ask its `status`.

        Raises:
            ValueError: The folder holds something else, a run of another configuration (without
                `overwrite`), is locked by another process, or cannot be written.
        """
        _make_folder(path)
        with locked(path):
            _sweep(path)
            header = {
                "kind": kind,
                "hash": config_hash(config),
                "identity": dict(identity),
                "config": dict(config),
            }
            _claim(path, header, overwrite=overwrite)
            run = cls(path)
            drop_torn_line(path / TIMING)
            yield run

    @property
    def status(self) -> RunStatus:
        """`done` once summary.json is there, else `unfinished`."""
        return run_status(self.path)

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """Add one record, flushed to the disk; the form is documented in `runs.tables`.

        Args:
            record: Plain JSON values, deterministic given the configuration: no wall-clock times.
        """
        append_line(self.path / METRICS, record)

    def append_timing(self, record: Mapping[str, Any]) -> None:
        """Add one record of wall-clock numbers, which no comparison between runs reads.

        Args:
            record: Plain JSON values.
        """
        append_line(self.path / TIMING, record)

    def metrics(self) -> list[dict[str, Any]]:
        """All records of metrics.jsonl; a last line that is still being written is left out.

        Returns:
            The records, oldest first.
        """
        return read_lines(self.path / METRICS)

    def timing(self) -> list[dict[str, Any]]:
        """All records of timing.jsonl.

        Returns:
            The records, oldest first, over all sessions of the run.
        """
        return read_lines(self.path / TIMING)

    def metrics_size(self) -> int:
        """Bytes of metrics.jsonl, which a checkpoint notes so that a resume can cut back to it.

        Returns:
            The size; 0 before the first record.
        """
        path = self.path / METRICS
        return path.stat().st_size if path.exists() else 0

    def cut_metrics(self, size: int) -> None:
        """Drop what was written to metrics.jsonl after a checkpoint.

        Args:
            size: `metrics_size()` when the checkpoint was written.

        Raises:
            ValueError: The file is shorter: something else has changed it.
        """
        path, present = self.path / METRICS, self.metrics_size()
        if present < size:
            raise ValueError(
                f"{path} holds {present} bytes, but the checkpoint was written after {size}: "
                "the run cannot be continued; start it again with overwrite"
            )
        if present > size:
            cut(path, size)

    def save_checkpoint(self, step: int, files: Mapping[str, bytes]) -> Path:
        """Write a checkpoint, complete or not at all, and keep the last two.

        Args:
            step: Optimiser steps done.
            files: File name -> contents.

        Returns:
            The checkpoint's folder.

        Raises:
            DiskFullError: The disk is full; earlier checkpoints are intact.
        """
        existing = self.checkpoints()
        serial = int(existing[0].name.partition("-")[0]) + 1 if existing else 1
        folder = self.path / CHECKPOINTS
        final = folder / f"{serial:06d}-step-{step}"
        temporary = final.with_name(final.name + TEMPORARY_SUFFIX)
        try:
            with full_disk_named(final):
                temporary.mkdir(parents=True)
            for name, data in files.items():
                write_synced(temporary / name, data)
            sync_directory(temporary)
            temporary.rename(final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(folder)
        for old in self.checkpoints()[KEPT_CHECKPOINTS:]:
            _remove_tree(old)
        return final

    def checkpoints(self) -> list[Path]:
        """Folders of the complete checkpoints.

        Returns:
            The folders, newest first.
        """
        folder = self.path / CHECKPOINTS
        if not folder.is_dir():
            return []
        names = [entry for entry in folder.iterdir() if entry.suffix != TEMPORARY_SUFFIX]
        return sorted(names, reverse=True)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json, which marks the run as done.

        Args:
            summary: Plain JSON values; the numbers of `timing` also enter the tidy table.
        """
        write_json(self.path / SUMMARY, dict(summary))

    def summary(self) -> dict[str, Any]:
        """Read summary.json.

        Returns:
            What `write_summary` wrote.

        Raises:
            ValueError: The run is not done, or the file is damaged.
        """
        if self.status != "done":
            raise ValueError(f"{self.path} is not finished: it has no {SUMMARY} yet")
        return read_json(self.path / SUMMARY)


def run_status(path: Path) -> RunStatus:
    """How far the run of a folder is.

    Args:
        path: Folder of a run, which need not exist.

    Returns:
        `absent` without config.json, `done` with summary.json, else `unfinished`.
    """
    if not (path / CONFIG).is_file():
        return "absent"
    return "done" if (path / SUMMARY).is_file() else "unfinished"


def _make_folder(path: Path) -> None:
    try:
        with full_disk_named(path):
            path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ValueError(f"{path} cannot be a run's folder: a file is in its place") from error
    except PermissionError as error:
        raise ValueError(f"{path} cannot be created: {error.strerror}") from error
    if not os.access(path, os.W_OK):
        raise ValueError(f"{path} cannot be written: no permission")


def _sweep(path: Path) -> None:
    """Remove what a killed writer left half-written (the lock is ours: nobody else writes)."""
    for folder in (path, path / CHECKPOINTS):
        for entry in folder.glob(f"*{TEMPORARY_SUFFIX}"):
            if entry.is_dir():
                _remove_tree(entry)
            else:
                entry.unlink()


def _claim(path: Path, header: dict[str, Any], *, overwrite: bool) -> None:
    if run_status(path) == "absent":
        others = sorted(entry.name for entry in path.iterdir() if entry.name != LOCK_NAME)
        if others:
            raise ValueError(f"{path} is not empty and not a run (it holds {others[0]})")
        write_json(path / CONFIG, header)
    elif overwrite:
        _clear(path)
        write_json(path / CONFIG, header)
    else:
        found = RunFolder.open(path)
        if found.kind != header["kind"]:
            raise ValueError(
                f"{path} holds a run of kind {found.kind!r}, not {header['kind']!r}; "
                "choose another folder or overwrite"
            )
        if found.config_hash != header["hash"]:
            raise ValueError(
                f"{path} holds a {found.kind} run of another configuration "
                f"({found.config_hash}, not {header['hash']}); choose another folder or overwrite"
            )


def _clear(path: Path) -> None:
    """Remove a run's files, config.json excepted: a kill in between leaves a run, not rubble."""
    (path / SUMMARY).unlink(missing_ok=True)
    if (path / CHECKPOINTS).exists():
        _remove_tree(path / CHECKPOINTS)
    for entry in path.iterdir():
        if entry.suffix in {".json", ".jsonl"} and entry.name != CONFIG:
            entry.unlink()
    sync_directory(path)


def _remove_tree(folder: Path) -> None:
    """Remove a folder; a kill in between leaves a temporary name, which nothing reads."""
    if folder.suffix != TEMPORARY_SUFFIX:
        doomed = folder.with_name(folder.name + TEMPORARY_SUFFIX)
        folder.rename(doomed)
        folder = doomed
    shutil.rmtree(folder)
