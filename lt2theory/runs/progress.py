"""Progress of long work: a bar on a terminal, an occasional plain line elsewhere."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tqdm import tqdm


@dataclass(frozen=True)
class ProgressEvent:
    """How far a piece of work is.

    Attributes:
        task: Name of the piece, such as "parity 16"; a new name starts a new bar.
        done: Units done.
        total: Units in all (for a training stage its step budget, which it may not need).
        unit: Name of a unit.
        notes: Numbers worth showing, such as the loss.
        final: The piece has ended, whether or not `done` reached `total`.
    """

    task: str
    done: int
    total: int
    unit: str = "step"
    notes: Mapping[str, float | int | str] = field(default_factory=dict)
    final: bool = False


Progress = Callable[[ProgressEvent], None]
"""Takes note of an event; called from the thread that does the work."""


@runtime_checkable
class Stream(Protocol):
    """What of a text stream is used: standard error has it, and so has a string buffer."""

    def write(self, text: str, /) -> int: ...  # noqa: D102
    def flush(self) -> None: ...  # noqa: D102
    def isatty(self) -> bool: ...  # noqa: D102


class TerminalProgress:
    """Shows events on a stream: tqdm on a terminal, else a line at most every `interval` seconds.

    Attributes:
        stream: Where to write; standard error by default, so that output can be piped.
        interval: Least seconds between two plain lines; the first and last of a piece always show.
    """

    def __init__(self, stream: Stream | None = None, *, interval: float = 10.0) -> None:
        self.stream: Stream = sys.stderr if stream is None else stream
        self.interval = interval
        self._bar: tqdm[Any] | None = None
        self._task: str | None = None
        self._last = 0.0

    def __call__(self, event: ProgressEvent, /) -> None:
        """Show an event.

        Args:
            event: How far the work is.
        """
        if self.stream.isatty():
            self._draw(event)
        else:
            self._write(event)

    def _draw(self, event: ProgressEvent) -> None:
        bar = self._bar
        if bar is None or event.task != self._task:
            self.close()
            bar = self._bar = self._new_bar(event)
            self._task = event.task
        bar.update(event.done - bar.n)
        if event.notes:
            bar.set_postfix({key: _shown(value) for key, value in event.notes.items()})
        if event.final:
            self.close()

    def _new_bar(self, event: ProgressEvent) -> "tqdm[Any]":
        return tqdm(
            desc=event.task,
            total=event.total,
            initial=event.done,
            unit=event.unit,
            file=self.stream,
            dynamic_ncols=True,
        )

    def _write(self, event: ProgressEvent) -> None:
        now = time.monotonic()
        fresh = event.task != self._task
        if not (fresh or event.final or now - self._last >= self.interval):
            return
        self._task, self._last = event.task, now
        notes = "".join(f", {key} {_shown(value)}" for key, value in event.notes.items())
        self.stream.write(f"{event.task}: {event.unit} {event.done} of {event.total}{notes}\n")
        self.stream.flush()

    def close(self) -> None:
        """End the bar that is shown, if any; the next event starts a new one."""
        if self._bar is not None:
            self._bar.close()
        self._bar, self._task = None, None


def _shown(value: float | int | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
