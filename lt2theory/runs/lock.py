"""One writer a run folder: a lock file that names its holder's host and process."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lt2theory.runs.atomic import TEMPORARY_SUFFIX, read_json, write_synced
from lt2theory.runs.lease import LEASE, Watch, renewed

LOCK_NAME = "lock"


class LockedError(ValueError):
    """Another process writes the folder, or may still do so."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; a lock left behind by a dead process of this host is taken over.

    Args:
        folder: An existing folder.

    Yields:
        Nothing; the lock is held inside the block and removed after it.

    Raises:
        LockedError: Another process holds the lock, or one of another host may still do so.
    """
    path = folder / LOCK_NAME
    _acquire(path)
    try:
        with renewed(path):
            yield
    finally:
        path.unlink(missing_ok=True)


def is_held(folder: Path) -> bool:
    """Whether another process writes a folder, or may still do so.

    Args:
        folder: A folder, which need not exist.

    Returns:
        True unless there is no lock, or a dead process of this host has left it behind.
    """
    holder = _holder_of(folder / LOCK_NAME)
    return holder is not None and not _is_stale(holder)


def await_release(folder: Path, *, lease: float = LEASE, interval: float = 0.5) -> None:
    """Wait until a folder can be locked, where its writer may have died with its host.

    Args:
        folder: A folder, which need not exist.
        lease: Seconds after which a lock that is not renewed counts as abandoned, and is removed.
        interval: Seconds between two looks.

    Raises:
        LockedError: The holder lives: it has renewed its lock.
    """
    path = folder / LOCK_NAME
    watch = Watch(path)
    while (holder := _holder_of(path)) is not None and not _is_stale(holder):
        silence = watch.silence()
        if watch.renewals:
            raise LockedError(_refusal(path, holder))
        if silence > lease:
            _remove(path, holder)
            return
        time.sleep(min(interval, lease))


def _acquire(path: Path) -> None:
    mine = path.with_name(f".{LOCK_NAME}.{os.getpid()}{TEMPORARY_SUFFIX}")
    write_synced(mine, json.dumps(_holder(os.getpid())).encode())
    try:
        # A hard link appears with its contents and fails where the name exists: no moment at which
        # another process could read an empty lock.
        try:
            path.hardlink_to(mine)
        except FileExistsError:
            _take_over(path)
            try:
                path.hardlink_to(mine)
            except FileExistsError:
                raise LockedError(_refusal(path, read_json(path))) from None
    finally:
        mine.unlink(missing_ok=True)


def _take_over(path: Path) -> None:
    holder = _holder_of(path)
    if holder is None:
        return
    if not _is_stale(holder):
        raise LockedError(_refusal(path, holder))
    _remove(path, holder)


def _holder_of(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except ValueError:
        if not path.exists():
            return None
        raise


def _remove(path: Path, holder: dict[str, Any]) -> None:
    # Two processes may find the same stale lock; neither may remove what the other puts there.
    aside = path.with_name(f".{LOCK_NAME}.{os.getpid()}.stale{TEMPORARY_SUFFIX}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return
    moved = read_json(aside)
    if moved != holder:
        aside.rename(path)
        raise LockedError(_refusal(path, moved))
    aside.unlink()


def _refusal(path: Path, holder: dict[str, Any]) -> str:
    host, pid = holder.get("host"), holder.get("pid")
    return (
        f"{path.parent} is being written by process {pid} on host {host}; "
        f"wait for it, or delete {path} if that process is gone"
    )


def _holder(pid: int) -> dict[str, Any]:
    return {"host": socket.gethostname(), "pid": pid, "started": _start_time(pid)}


def _is_stale(holder: dict[str, Any]) -> bool:
    # Nothing is known of another host's processes, so their locks never count as stale.
    pid = holder.get("pid")
    if holder.get("host") != socket.gethostname() or not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    # The number may have been given to a newer process: after a reboot, or in a container.
    started = holder.get("started")
    return started is not None and started != _start_time(pid)


def _start_time(pid: int) -> str | None:
    # Boot and clock tick at which the process started; None for a zombie or without /proc.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The second field, the command, may hold spaces and parentheses: count from its end.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else f"{boot}:{fields[19]}"
