"""Processes that work for another one end with it."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def ends_with(parent: int, *, interval: float = 0.5) -> Iterator[None]:
    """End a child process, after SIGTERM's way out of its work, soon after its parent is gone.

    A parent that was killed cannot tell its workers; each would finish its run, and hold the run's
    lock until then, and the same command given again would find the runs locked.

    Args:
        parent: Number of the parent process; in that process itself nothing is watched.
        interval: Seconds between two looks.

    Yields:
        Nothing; the parent is watched inside the block.
    """
    if os.getpid() == parent:
        yield
        return
    _end_orphan(parent)
    over = threading.Event()

    def watch() -> None:
        while not over.wait(interval):
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        _end_orphan(parent)


def _end_orphan(parent: int) -> None:
    # Nobody is left to hear of an exception, and the pool would go on to the next run.
    if os.getppid() != parent:
        os._exit(130)
