"""What a folder of files held when it was complete: sizes and checksums, so that damage is seen.

A disk or a copy that changes bytes leaves files of the same size that can still be read; without
checksums a run would go on from other weights than it had.
"""

import zlib
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lt2theory.runs.atomic import read_json, write_json

CONTENTS = "contents.json"

_PIECE = 1 << 22
_THREADS = 8
"""Files that are read at a time; zlib works without the interpreter's lock."""


def write_contents(folder: Path) -> None:
    """Note size and CRC-32 of every file of a folder in its contents.json.

    Args:
        folder: A folder of files that do not change any more.

    Raises:
        DiskFullError: The disk is full.
    """
    files = sorted(path for path in folder.iterdir() if path.name != CONTENTS)
    with ThreadPoolExecutor(_THREADS) as pool:
        sums = list(pool.map(_checksum, files))
    told = {
        path.name: {"bytes": path.stat().st_size, "crc32": found}
        for path, found in zip(files, sums, strict=True)
    }
    write_json(folder / CONTENTS, {"files": told})


def check_contents(folder: Path, names: Collection[str] | None = None) -> None:
    """Compare the files of a folder with its contents.json; without one nothing is known.

    Args:
        folder: The folder.
        names: Files to look at; None for all that are named there.

    Raises:
        ValueError: A file is missing or not what it was, or contents.json cannot be read.
    """
    path = folder / CONTENTS
    if not path.exists():  # written by an earlier version
        return
    told = read_json(path).get("files")
    if not isinstance(told, dict):
        raise ValueError(f"{path} is damaged: it names no files")
    wanted = [folder / name for name in told if names is None or name in names]
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(_checksum, wanted))
    for file, checksum in zip(wanted, found, strict=True):
        said = told[file.name]
        if not isinstance(said, dict) or said.get("crc32") != checksum:
            what = "it is missing" if checksum is None else "its bytes are not those written"
            raise ValueError(f"{file} is damaged: {what} (says {path})")


def _checksum(path: Path) -> int | None:
    """CRC-32 of a file; None if there is none."""
    checksum = 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                checksum = zlib.crc32(piece, checksum)
    except FileNotFoundError:
        return None
    return checksum
