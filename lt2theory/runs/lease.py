"""Locks of hosts that have died: a holder renews its lock, and who waits watches that it does.

Nothing is known of another host's processes. So the holder of a lock touches the file every
`RENEWAL` seconds, and a lock that nobody has touched for `LEASE` seconds, by the watcher's own
clock, is one whose host is gone. A process that was stopped for so long and then goes on would
write beside its successor: that is the price of going on without its host.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

RENEWAL = 15.0
LEASE = 150.0
"""Longer than network file systems may show an old time of a file (a minute on NFS by default)."""


@contextlib.contextmanager
def renewed(path: Path, *, interval: float = RENEWAL) -> Iterator[None]:
    """Touch a lock while it is held.

    Args:
        path: The lock.
        interval: Seconds between two touches.

    Yields:
        Nothing; the lock is touched, by a thread, inside the block.
    """
    over = threading.Event()

    def renew() -> None:
        # A file that cannot be touched now may be so again, as after a fault of the network.
        while not over.wait(interval):
            with contextlib.suppress(OSError):
                os.utime(path)

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Watch:
    """How long a lock has not been renewed, as far as one has looked.

    Args:
        path: The lock.

    Attributes:
        renewals: How often it was seen to change.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._mark()
        self._since = time.monotonic()
        self.renewals = 0

    def silence(self) -> float:
        """Look again.

        Returns:
            Seconds since the last change that was seen, or since the first look.
        """
        mark = self._mark()
        if mark != self._seen:
            self._seen, self._since = mark, time.monotonic()
            self.renewals += 1
        return time.monotonic() - self._since

    def _mark(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns
