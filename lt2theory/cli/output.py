"""What verbs leave behind: files refused early where they cannot be written."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lt2theory.cli.errors import UsageError


@dataclass(frozen=True)
class JsonCopy:
    """What a verb computes, as JSON."""

    json: Path | None = None
    """File for the result as JSON, besides what is printed."""


def check_file(path: Path | None, flag: str, *, suffixes: Sequence[str] = ()) -> None:
    """Refuse, before any work, a file that could not be written at its end.

    Args:
        path: The file, or None if none was asked for.
        flag: The flag that named it.
        suffixes: The endings that are allowed; any if empty.

    Raises:
        UsageError: If the ending is another one, the folder is missing or not writable, or a
            folder stands there.
    """
    if path is None:
        return
    if suffixes and path.suffix not in suffixes:
        allowed = " or ".join(suffixes)
        raise UsageError(f"{flag}: {str(path)!r} is not allowed (must end in {allowed})")
    if path.is_dir():
        raise UsageError(f"{flag}: {str(path)!r} cannot be written (it is a folder)")
    if not path.parent.is_dir():
        raise UsageError(f"{flag}: {str(path)!r} cannot be written (no folder {path.parent})")
    _probe(path.parent, flag, path)


def check_folder(path: Path | None, flag: str) -> None:
    """Refuse, before any work, a folder in which nothing could be written.

    Args:
        path: The folder, which need not exist yet, or None if none was asked for.
        flag: The flag that named it.

    Raises:
        UsageError: If a file stands there, or its nearest existing parent is not writable.
    """
    if path is None:
        return
    nearest = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    if not nearest.is_dir():
        raise UsageError(f"{flag}: {str(path)!r} cannot be written ({nearest} is not a folder)")
    _probe(nearest, flag, path)


def _probe(folder: Path, flag: str, path: Path) -> None:
    """Create and drop a nameless file in a folder: the only check that every system honours.

    Raises:
        UsageError: If the system refuses.
    """
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{flag}: {str(path)!r} cannot be written ({reason})") from None
