"""Ctrl-C and SIGTERM end a run between two steps, with a checkpoint."""

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """The run was stopped by the user and can be continued by the same command (exit code 130)."""


class StopRequest:
    """Whether somebody has asked the run to stop, or its time is over.

    Args:
        seconds: Time it has from now; None for no end.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._signalled = False
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def requested(self) -> bool:
        """True after the first signal, and when the time is over."""
        return self._signalled or time.monotonic() >= self._end

    @requested.setter
    def requested(self, asked: bool) -> None:
        self._signalled = asked

    def check(self) -> None:
        """Stop here if a signal has come.

        Raises:
            Interrupted: One has.
        """
        if self.requested:
            raise Interrupted("interrupted; the same command continues the run")


@contextlib.contextmanager
def stop_requests(seconds: float | None = None) -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request; a second one acts at once, as usual.

    Outside the main thread Python delivers no signals, so there only the end of time is a request.

    Args:
        seconds: Time after which the run is to stop as if a signal had come; None for no end.

    Yields:
        The request, to be asked between steps.
    """
    request = StopRequest(seconds)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        request.requested = True
        restore()

    for number in SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield request
    finally:
        restore()


@contextlib.contextmanager
def termination_interrupts() -> Iterator[None]:
    """Let SIGTERM raise `Interrupted`, for work that other processes do.

    Yields:
        Nothing; the handler is in place inside the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise Interrupted("terminated; the same command continues the runs")

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
