"""Writing files so that a kill, a crash or a full disk never leaves half of one behind.

Every file is written under a temporary name in its own folder, flushed to the disk, renamed over
the final name, and the folder is flushed too: POSIX makes the rename atomic, and only the flush of
the folder makes it durable.
"""

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TEMPORARY_SUFFIX = ".tmp"

_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


class DiskFullError(OSError):
    """The disk, or the user's quota on it, is full; what was complete before still is."""


@contextlib.contextmanager
def full_disk_named(path: Path) -> Iterator[None]:
    """Turn the system's "no space left" into an error that says what to do.

    Args:
        path: File that is being written, for the message.

    Yields:
        Nothing; the block runs under the translation.

    Raises:
        DiskFullError: The disk or the quota is full.
        OSError: Any other failure of the operating system, unchanged.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL_DISK:
            raise
        raise DiskFullError(
            error.errno,
            f"disk full while writing {path}: the last complete checkpoint is intact; "
            "free some space and run the same command again",
        ) from error


def file_behind(path: Path) -> Path:
    """The file that a path means: itself, or where a symbolic link leads.

    Args:
        path: A path; nothing need stand there.

    Returns:
        A path that is no link; of links that lead round in a circle, one of them.
    """
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def kind_of(path: Path) -> str:
    """What stands at a path that no file can be written to.

    Args:
        path: A path; links are followed.

    Returns:
        `a folder`, `a device` and the like; empty for a regular file or nothing at all.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return "a link to itself" if file_behind(path).is_symlink() else ""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return "" if stat.S_ISREG(mode) else kinds.get(stat.S_IFMT(mode), "a device")


def refuse_irregular(path: Path) -> None:
    """Refuse a path where something else than a regular file stands.

    Args:
        path: A path; links are followed.

    Raises:
        ValueError: If a folder, a device, a pipe or a socket stands there.
    """
    if kind := kind_of(path):
        raise ValueError(f"{path} is no regular file (it is {kind})")


def sync_directory(folder: Path) -> None:
    """Flush a folder's entries, which makes the renames done in it durable.

    Args:
        folder: An existing folder.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, data: bytes, *, append: bool = False) -> None:
    """Write bytes in place and flush them to the disk (no rename: see `write_bytes`).

    Args:
        path: File to write.
        data: Its contents, or what is added to them.
        append: Add at the end instead of replacing.

    Raises:
        DiskFullError: The disk is full; part of `data` may have been written.
    """
    with full_disk_named(path), path.open("ab" if append else "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file's contents, all or nothing.

    Args:
        path: File to write; its folder must exist. Of a symbolic link, the file behind it is
            written, and the link stays.
        data: The new contents.

    Raises:
        DiskFullError: The disk is full; the old contents are still there.
        IsADirectoryError: A folder stands there.
        ValueError: Something else than a file stands there, such as a device.
    """
    path = file_behind(path)
    if not path.is_dir():
        refuse_irregular(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_text(path: Path, text: str) -> None:
    """Replace a text file's contents (UTF-8), all or nothing.

    Args:
        path: File to write; its folder must exist.
        text: The new contents.
    """
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file's contents, all or nothing; keys keep their order.

    Args:
        path: File to write; its folder must exist.
        value: Anything JSON can hold; NaN and infinities are refused, being no JSON.

    Raises:
        ValueError: A number is not finite.
    """
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds one object.

    Args:
        path: The file.

    Returns:
        The object.

    Raises:
        ValueError: The file is missing, is no JSON, or holds something else than an object.
    """
    try:
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds a {type(value).__name__}; expected a JSON object")
    return value
