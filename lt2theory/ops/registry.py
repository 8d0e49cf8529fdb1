"""Which backends an op has, which one `auto` takes, and why.

A backend is one entry in a table. A table is ordered: `auto` takes the first entry that neither
refuses the workload nor declines it. The decision looks at device, dtype and shapes only, so it
never waits for a device and never depends on values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from tasks.names import unknown_name

BACKENDS = ("auto", "reference", "chunked", "fla", "triton")
"""Every name that a model may ask for. An op without such a backend chooses as for `auto`."""

KERNELS = ("fla", "triton")
"""Backends whose kernels run on a GPU alone, and choose their block sizes by measuring."""

Workload = TypeVar("Workload")
Runner = TypeVar("Runner")


def _never(workload: object) -> None:
    """No objection to any workload."""


@dataclass(frozen=True)
class Backend(Generic[Workload, Runner]):
    """One implementation of an op.

    Attributes:
        name: Its name.
        load: Returns the implementation; imports what it needs only then.
        merit: Why `auto` takes it where it does.
        refuses: Why it cannot do a workload at all, or None where it can.
        declines: Why `auto` passes it over though it could do the workload, or None.
        describes: What it would do with a workload, as part of the reason, or None.
        fails: Why it cannot after all, found by running it, or None. Asked last, so that nothing
            runs for `auto` that it would not take.
        lacks: Why there is nothing of its kind for a workload, so that its name is answered as an
            op's without such a backend is, or None.
    """

    name: str
    load: Callable[[], Runner]
    merit: str
    refuses: Callable[[Workload], str | None] = _never
    declines: Callable[[Workload], str | None] = _never
    describes: Callable[[Workload], str | None] = _never
    fails: Callable[[Workload], str | None] = _never
    lacks: Callable[[Workload], str | None] = _never

    def reason(self, merit: str, workload: Workload) -> str:
        """Why it was taken: `merit`, and what it does with the workload where it says so.

        Args:
            merit: What it was taken for.
            workload: What is to be computed.

        Returns:
            One line.
        """
        details = self.describes(workload)
        return merit if details is None else f"{merit}: {details}"


@dataclass(frozen=True)
class Choice(Generic[Workload, Runner]):
    """A backend, why it was taken, and why the ones before it were not.

    Attributes:
        backend: The backend that runs.
        reason: Why.
        passed_over: The objection to every backend that `auto` would rather have taken.
    """

    backend: Backend[Workload, Runner]
    reason: str
    passed_over: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.backend.name}: {self.reason}"]
        lines += [f"not {name}: {objection}" for name, objection in self.passed_over]
        return "; ".join(lines)


def _not_repeatable(name: str) -> str | None:
    """Why `auto` leaves out kernels whose sums have no fixed order while torch is deterministic."""
    if name not in KERNELS or not torch.are_deterministic_algorithms_enabled():
        return None
    return (
        "its kernels measure block sizes or add atomically, so another run may add in other orders"
    )


@dataclass(frozen=True)
class Registry(Generic[Workload, Runner]):
    """The backends of one op, in the order in which `auto` prefers them.

    Attributes:
        op: Name of the op.
        backends: The entries.
    """

    op: str
    backends: tuple[Backend[Workload, Runner], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that can be asked for, `auto` among them."""
        return ("auto", *sorted(entry.name for entry in self.backends))

    def names_for(self, workload: Workload) -> tuple[str, ...]:
        """The names of the backends that there are for a workload, refusing ones among them.

        Args:
            workload: What is to be computed.

        Returns:
            As `names`, without those that the op lacks for it.
        """
        lacked = {entry.name for entry in self.backends if entry.lacks(workload) is not None}
        return tuple(name for name in self.names if name not in lacked)

    def choose(self, workload: Workload, backend: str = "auto") -> Choice[Workload, Runner]:
        """Take the backend asked for, or the best one.

        Args:
            workload: What is to be computed.
            backend: A name in `BACKENDS`. One that this op does not have, or lacks for the workload
                (no kernel of that kind exists), is answered as `auto` is, and the choice says so.

        Returns:
            The choice with its reasons.

        Raises:
            ValueError: If there is no such backend, or it cannot do this workload.
        """
        known = dict.fromkeys((*BACKENDS, *self.names))
        if backend not in known:
            raise ValueError(unknown_name(f"backend of {self.op}", backend, known))
        named = next((entry for entry in self.backends if entry.name == backend), None)
        if (entry := named) is not None and entry.lacks(workload) is None:
            objection = entry.refuses(workload) or entry.fails(workload)
            if objection is not None:
                raise ValueError(f"backend {backend!r} cannot run this {self.op}: {objection}")
            return Choice(entry, entry.reason("asked for by name", workload))
        passed_over: list[tuple[str, str]] = []
        if backend not in self.names:
            passed_over.append((backend, f"{self.op} has no such backend"))
        for entry in self.backends:
            objection = entry.lacks(workload) or entry.refuses(workload)
            objection = objection or entry.declines(workload)
            objection = objection or _not_repeatable(entry.name) or entry.fails(workload)
            if objection is None:
                return Choice(entry, entry.reason(entry.merit, workload), tuple(passed_over))
            passed_over.append((entry.name, objection))
        raise ValueError(f"no backend can run this {self.op}: {passed_over}")
