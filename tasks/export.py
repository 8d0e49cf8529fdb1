"""Batches as files, Parquet or NumPy archives, with a data card for readers without this code."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from jaxtyping import Shaped

from tasks.base import Batch, Task
from tasks.validation import refusal

SUFFIXES = (".parquet", ".npz")


def export(
    task: Task,
    path: Path | str,
    *,
    stage: int,
    split: str = "train",
    seed: int = 0,
    index: int = 0,
    size: int,
) -> tuple[Path, Path]:
    """Write one batch to a file, and its data card beside it.

    Parquet has a row an example with the columns `inputs`, `targets` (lists of int64) and `mask`
    (list of bool); the archive has the three arrays `[size length]` under the same names. Both
    files are written under a temporary name and renamed; files of these names are replaced.

    Args:
        task: The task.
        path: Target, ending in .parquet or .npz.
        stage: As in `Task.batch`.
        split: As in `Task.batch`.
        seed: As in `Task.batch`.
        index: As in `Task.batch`.
        size: Examples; in eval and test all of them are distinct.

    Returns:
        The path of the data, and that of the card: the same name with ".card.json" added.

    Raises:
        ValueError: The path has another ending, or the batch cannot be built.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(
            refusal("path", str(path), "a file name ending in " + " or ".join(SUFFIXES))
        )
    batch = task.batch(stage=stage, split=split, seed=seed, index=index, size=size)
    card = data_card(task, stage=stage, split=split, seed=seed, index=index, size=size)
    text = json.dumps(card, indent=2, ensure_ascii=False)
    write = _write_parquet if path.suffix == ".parquet" else _write_archive
    _replace(path, lambda file: write(file, batch, text))
    _replace(card_path(path), lambda file: file.write(text.encode() + b"\n"))
    return path, card_path(path)


def card_path(path: Path) -> Path:
    """Where the card of an exported batch lies.

    Args:
        path: Path of the data.

    Returns:
        The same name with ".card.json" added.
    """
    return path.with_name(path.name + ".card.json")


def data_card(
    task: Task, *, stage: int, split: str, seed: int, index: int, size: int
) -> dict[str, Any]:
    """What a reader of an exported batch needs to know.

    Args:
        task: The task.
        stage: As in `Task.batch`.
        split: As in `Task.batch`.
        seed: As in `Task.batch`.
        index: As in `Task.batch`.
        size: As in `Task.batch`.

    Returns:
        The task's card, the arguments that name the batch, its floors and the vocabulary.
    """
    return {
        **task.card(),
        "batch": {"stage": stage, "split": split, "seed": seed, "index": index, "size": size},
        "length": task.sequence_length(stage),
        "instances": task.instance_count(stage),
        "labels": "targets are token ids, -100 where mask is false; no shift",
        "floors": task.floors(stage),
        "vocabulary": list(task.token_names),
    }


def _write_parquet(file: IO[bytes], batch: Batch, card: str) -> None:
    # pyarrow takes a moment to import, and only exports need it.
    import pyarrow as pa
    import pyarrow.parquet as pq

    def column(array: Shaped[np.ndarray, "size length"]) -> Any:
        return pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[1])

    table = pa.table({name: column(array) for name, array in batch._asdict().items()})
    pq.write_table(table.replace_schema_metadata({"card": card}), file)


def _write_archive(file: IO[bytes], batch: Batch, card: str) -> None:
    np.savez_compressed(
        file, inputs=batch.inputs, targets=batch.targets, mask=batch.mask, card=np.array(card)
    )


def _replace(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write to a temporary file in the same folder, flush it to the disk, rename it.

    Of a symbolic link, the file behind it is written.

    Raises:
        OSError: As the system says, or if something else than a regular file stands there.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "no regular file", str(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        # Writers on an open file, pyarrow's among them, do not know its name.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno, reason, str(path)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
