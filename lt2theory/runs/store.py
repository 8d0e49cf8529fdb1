"""The run store: one folder a run, resumable at any moment, done when `summary.json` is there."""

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lt2theory.cards import card
from lt2theory.runs.atomic import read_json, write_json, write_synced
from lt2theory.runs.checkpoints import (
    begin_checkpoint,
    drop_old_checkpoints,
    keep_checkpoint,
    list_checkpoints,
)
from lt2theory.runs.found import found
from lt2theory.runs.hashing import config_hash
from lt2theory.runs.jsonl import append_line, cut, drop_torn_line, read_lines
from lt2theory.runs.layout import (
    CHECKPOINTS,
    CONFIG,
    METRICS,
    SUMMARY,
    TIMING,
    RunStatus,
    read_header,
    run_status,
)
from lt2theory.runs.lock import locked
from lt2theory.runs.prepare import make_folder, sweep, take_back, take_over


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
        header = read_header(path)
        self.path = path
        self.kind: str = header["kind"]
        self.config: dict[str, Any] = header["config"]
        self.config_hash: str = header["hash"]
        self.identity: dict[str, Any] = header["identity"]

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
            raise ValueError(
                f"{path} is not a folder; expected a run's folder, found {found(path)}"
            )
        if not (path / CONFIG).is_file():
            raise ValueError(f"{path} is not a run: it has no {CONFIG}; found {found(path)}")
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
                `overwrite`), is locked by another process, or cannot be written. A new run that is
                refused inside the block, before it has kept anything, is taken back.
        """
        make_folder(path)
        with locked(path):
            new = run_status(path) == "absent"
            sweep(path)
            header = {
                "kind": kind,
                "hash": config_hash(config),
                "identity": dict(identity),
                "config": dict(config),
            }
            take_over(path, header, overwrite=overwrite)
            run = cls(path)
            drop_torn_line(path / TIMING)
            drop_old_checkpoints(path / CHECKPOINTS)  # a kill may have come before that
            try:
                yield run
            except ValueError:
                if new:
                    take_back(path)
                raise

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts = {"status": self.status, "kind": self.kind, **self.identity}
        facts["hash"] = self.config_hash
        return card(f"RunFolder {self.path}", facts, more=self.config)

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
                "the run cannot be continued; start it again with overwrite=True"
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
        temporary = begin_checkpoint(self.path / CHECKPOINTS, step)
        try:
            for name, data in files.items():
                write_synced(temporary / name, data)
            return keep_checkpoint(temporary)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    def checkpoints(self) -> list[Path]:
        """Folders of the complete checkpoints.

        Returns:
            The folders, newest first.
        """
        return list_checkpoints(self.path / CHECKPOINTS)

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
