"""A study's folder as a few small files, for machines that give little back: packed and unpacked.

What is known of every run travels: configurations, metrics, summaries, the table. Of checkpoints
there is as much as fits: first, exactly, the newest of runs that are to be gone on with, those
first that have cost most for their size; then the weights alone of finished runs whose transitions
can be measured (`study_ranks`), or from which other cells learn. A run that is left without its
checkpoint begins anew.
"""

import io
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lt2theory.experiments.language.cells import KIND as LANGUAGE_CELL
from lt2theory.experiments.language.table import TABLE as LANGUAGE_TABLE
from lt2theory.experiments.language.table import merge_language, read_language_table
from lt2theory.experiments.linearization.cells import KIND as LINEARIZE_CELL
from lt2theory.experiments.linearization.table import TABLE as LINEAR_TABLE
from lt2theory.experiments.linearization.table import merge_linear, read_linear_table
from lt2theory.experiments.study_ranks import is_measurable
from lt2theory.experiments.study_table import TABLE, merge, read_study_table
from lt2theory.runs import RunFolder, Study, run_status, write_bytes, write_table
from lt2theory.runs.jsonl import read_lines
from lt2theory.runs.lock import LOCK_NAME
from lt2theory.runs.prepare import remove_tree
from lt2theory.runs.study import MANIFEST, RESULTS
from lt2theory.training.checkpoint import MODEL
from lt2theory.training.sharing import SESSIONS

RECORDS = "records.tar.gz"
CHECKPOINTS = "checkpoints.tar"
MIB = 2**20
PART = 15 * MIB
"""Bytes of a file; an archive has as many as it takes, numbered in their order."""


@dataclass(frozen=True)
class Packed:
    """What travels.

    Attributes:
        files: The files, in order.
        runs: Number of runs.
        checkpoints: Folders of the runs that go on where they stopped.
        weights: Folders of the finished runs whose weights are there.
        left: Folders of the unfinished runs that will begin anew.
    """

    files: tuple[Path, ...]
    runs: int
    checkpoints: tuple[str, ...]
    weights: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in self.files)


def pack(root: Path, out: Path, *, mebibytes: float = 60.0) -> Packed:
    """Write a study's folder as files of at most 15 MiB.

    Args:
        root: The study's folder; nothing may write it meanwhile.
        out: Where the files go; made if it is missing. Files of an earlier packing are replaced.
        mebibytes: Most that they may hold together. The records travel in any case.

    Returns:
        What was packed.

    Raises:
        ValueError: The folder is no study, or `mebibytes` is not allowed.
    """
    if not mebibytes > 0:
        raise ValueError(f"mebibytes: got {mebibytes}, allowed are numbers > 0")
    runs = Study(root).run_folders()
    out.mkdir(parents=True, exist_ok=True)
    for old in (*_parts(out, RECORDS), *_parts(out, CHECKPOINTS)):
        old.unlink()
    files = _written(out, RECORDS, _archive(root, _records(root, runs), "w:gz"))
    left = mebibytes * MIB - sum(path.stat().st_size for path in files)
    begun = sorted(
        (run for run in runs if run.status != "done" and run.checkpoints()),
        key=lambda run: -_seconds(run) / _size(run.checkpoints()[0].iterdir()),
    )
    taken: list[Path] = []
    kept: dict[str, list[str]] = {"checkpoints": [], "weights": []}
    wanted = [("checkpoints", run, sorted(run.checkpoints()[0].iterdir())) for run in begun]
    wanted += [
        ("weights", run, [run.checkpoints()[0] / MODEL]) for run in runs if _gives_weights(run)
    ]
    for kind, run, members in wanted:
        size = _size(members) + 4096  # what tar adds: a block a member, and the rounding
        if size <= left:
            left -= size
            taken += members
            kept[kind].append(run.path.name)
    if taken:
        files += _written(out, CHECKPOINTS, _archive(root, taken, "w"))
    lost = {run.path.name for run in runs if run.status != "done"} - set(kept["checkpoints"])
    return Packed(
        tuple(files),
        len(runs),
        tuple(kept["checkpoints"]),
        tuple(kept["weights"]),
        tuple(sorted(lost)),
    )


def unpack(source: Path, root: Path) -> list[str]:
    """Put a packed study into a folder; of a run that is there already, what is further on.

    Args:
        source: Where `pack` wrote.
        root: The study's folder; made if it is missing. Nothing may write it meanwhile.

    Returns:
        Folders of the runs that were taken over.

    Raises:
        ValueError: There is nothing packed, an archive is damaged, or a run is being written.
    """
    if not _parts(source, RECORDS):
        raise ValueError(f"{source} holds no packed study: it has no {RECORDS}.00")
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, suffix=".tmp") as name:
        fresh = Path(name)
        for archive in (RECORDS, CHECKPOINTS):
            _extract(_parts(source, archive), fresh)
        taken = [
            folder.name
            for folder in sorted(fresh.iterdir())
            if folder.is_dir() and _take_over(folder, root / folder.name)
        ]
        if not (root / MANIFEST).exists():
            (fresh / MANIFEST).rename(root / MANIFEST)
        for name, read, merged in _TABLES:
            tables = [place / name for place in (root, fresh) if (place / name).exists()]
            if tables:
                write_table(root / name, merged(read(path) for path in tables))
    Study(root).collect()
    return taken


_TABLES = (
    (TABLE, read_study_table, merge),
    (LINEAR_TABLE, read_linear_table, merge_linear),
    (LANGUAGE_TABLE, read_language_table, merge_language),
)
"""Tables of studies, how each is read, and how several are merged."""


def _gives_weights(run: RunFolder) -> bool:
    """Whether somebody still reads the weights of a finished run."""
    if run.kind in (LINEARIZE_CELL, LANGUAGE_CELL):
        return run.status == "done" and bool(run.checkpoints())
    return is_measurable(run)


def _records(root: Path, runs: Sequence[RunFolder]) -> list[Path]:
    """Everything but checkpoints, locks and what is derived from the rest."""
    files = [root / MANIFEST, *(root / name for name, _, _ in _TABLES)]
    for run in runs:
        files += sorted(path for path in run.path.iterdir() if path.suffix in (".json", ".jsonl"))
    return [path for path in files if path.is_file() and path.name != RESULTS]


def _archive(root: Path, members: Iterable[Path], mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for path in members:
            archive.add(path, arcname=str(path.relative_to(root)), recursive=False)
    return buffer.getvalue()


def _written(out: Path, name: str, data: bytes) -> list[Path]:
    """Write an archive's bytes in parts."""
    paths = []
    for number, start in enumerate(range(0, len(data), PART)):
        paths.append(out / f"{name}.{number:02d}")
        write_bytes(paths[-1], data[start : start + PART])
    return paths


def _parts(folder: Path, name: str) -> list[Path]:
    return sorted(folder.glob(f"{name}.[0-9][0-9]"))


def _extract(parts: Sequence[Path], folder: Path) -> None:
    if not parts:
        return
    data = io.BytesIO(b"".join(part.read_bytes() for part in parts))
    try:
        with tarfile.open(fileobj=data) as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{parts[0]} and its parts are damaged: {error}") from error


def _take_over(fresh: Path, present: Path) -> bool:
    """Put a run in its place if it is further on than what is there."""
    if run_status(present) != "absent" and _progress(present) >= _progress(fresh):
        return False
    if (present / LOCK_NAME).exists():
        raise ValueError(f"{present} is being written; wait for it, or delete its {LOCK_NAME}")
    if present.exists():
        remove_tree(present)
    fresh.rename(present)
    return True


def _progress(folder: Path) -> tuple[bool, int, int]:
    """What makes one state of a run better than another: done, steps kept, what is on the disk."""
    run = RunFolder.open(folder)
    checkpoints = run.checkpoints()
    step = int(checkpoints[0].name.rpartition("-")[2]) if checkpoints else 0
    return run.status == "done", step, len(run.metrics())


def _seconds(run: RunFolder) -> float:
    return sum(float(line["device_seconds"]) for line in read_lines(run.path / SESSIONS))


def _size(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths)
