"""What verbs leave behind: files refused early where they cannot be written."""

import os
import tempfile
from collections.abc import Mapping, Sequence
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
        UsageError: If the ending is another one, the folder is missing or not writable, or
            something stands there that is no regular file, such as a folder or a device. Of a
            symbolic link this is asked of where it leads.
    """
    if path is None:
        return
    from lt2theory.runs.atomic import file_behind, kind_of

    if suffixes and path.suffix not in suffixes:
        allowed = " or ".join(suffixes)
        raise UsageError(f"{flag}: {str(path)!r} is not allowed (must end in {allowed})")
    if kind := kind_of(path):
        raise UsageError(f"{flag}: {str(path)!r} cannot be written (it is {kind})")
    folder = file_behind(path).parent
    if not folder.is_dir():
        raise UsageError(f"{flag}: {str(path)!r} cannot be written (no folder {folder})")
    _probe(folder, flag, path)


def check_files(files: Mapping[str, Path | None]) -> None:
    """Refuse, before any work, files of which one could not be written, or two are the same.

    Args:
        files: By the flags that named them; None where none was asked for.

    Raises:
        UsageError: As for `check_file`, or if two flags name one file, also through a link.
    """
    seen: dict[str, Path] = {}
    for flag, path in files.items():
        check_file(path, flag)
        if path is None:
            continue
        for other, before in seen.items():
            if _is_same(path, before):
                raise UsageError(f"{flag}: {str(path)!r} is not allowed (it is the {other} file)")
        seen[flag] = path


def _is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file, which need not exist yet."""
    if path.exists() and other.exists():
        return path.samefile(other)
    return os.path.realpath(path) == os.path.realpath(other)


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
