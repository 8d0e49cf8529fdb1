"""Runs as tasks of a Ray cluster, each with its part of a GPU; those of dead workers go on.

Without an address a cluster of this machine alone is started, for as long as the runs take, whose
processes listen on 127.0.0.1 only. Ray's usage statistics are off.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from typing_extensions import override

from lt2theory.runs.executors.base import (
    Assignment,
    Ending,
    Executor,
    RunOne,
    attempt_anywhere,
    check_amounts,
    extra,
    said,
)

LOOPBACK = "127.0.0.1"
LOCAL_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""At 0 the nodes of this machine call themselves 127.0.0.1, on Linux too, and listen there alone;
an address of 127.0.0.1 without it becomes that of the network."""
GRACE = 30.0
"""Seconds in which runs that are stopped may write a checkpoint."""


class RayExecutor(Executor):
    """Ray gives runs to whichever nodes have room; a run whose worker dies is given to another.

    Args:
        address: `HOST:PORT` of a cluster; None starts one of this machine alone. A process that is
            connected to a cluster stays with that.
        cpus: Cores that a run is given, which are also its threads.
        gpus: Part of a GPU that a run is given, or a whole number. Memory is not divided.
        retries: How often a run is given to another worker after one has died.

    Raises:
        ValueError: A number or the address is not allowed.
    """

    def __init__(
        self, address: str | None = None, *, cpus: int = 1, gpus: float = 0.0, retries: int = 3
    ) -> None:
        check_amounts(cpus=cpus, gpus=gpus, retries=retries)
        if gpus > 1 and gpus != int(gpus):
            raise ValueError(f"gpus: got {gpus}, allowed are parts of one GPU and whole numbers")
        if address is not None and not address.rpartition(":")[0]:
            raise ValueError(f"address: got {address!r}, allowed is HOST:PORT")
        self.address = address
        self.cpus = cpus
        self.gpus = gpus
        self.retries = retries

    @property
    @override
    def share(self) -> float:
        return self.gpus or 1.0

    @override
    def carry_out(
        self, run_one: RunOne, assignments: Sequence[Assignment]
    ) -> Generator[Ending, None, None]:
        if not assignments:
            return
        with _connected(self.address) as ray:
            self._check_room(ray)
            # Ray's own retries would hide how often a worker died.
            task = ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0)
            submit = task(attempt_anywhere).remote
            waiting = {submit(run_one, each, self.cpus): (each, 1) for each in assignments}
            try:
                while waiting:
                    (reference, *_), _ = ray.wait(list(waiting))
                    each, attempts = waiting[reference]
                    ending, died = _ending(ray, reference, each, attempts)
                    del waiting[reference]
                    if died and attempts <= self.retries:
                        waiting[submit(run_one, each, self.cpus)] = each, attempts + 1
                    else:
                        yield ending
            finally:
                _stop(ray, list(waiting))

    def _check_room(self, ray: Any) -> None:
        """A task that fits nowhere would wait for ever."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for name, resource, wanted in (("cpus", "CPU", self.cpus), ("gpus", "GPU", self.gpus)):
            most = max((node.get(resource, 0) for node in nodes), default=0)
            if wanted > most:
                raise ValueError(
                    f"{name}: got {wanted}, allowed are at most {most:g} (the largest node of the "
                    "Ray cluster)"
                )


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """The module `ray`, connected to a cluster; one that was started here ends with the block."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    loopback = address is None or address.rpartition(":")[0] in {LOOPBACK, "localhost"}
    if loopback:
        os.environ.setdefault(LOCAL_ONLY, "0")
    ray = extra("ray")
    if ray.is_initialized():
        yield ray
        return
    if loopback and ray.util.get_node_ip_address() != LOOPBACK:
        raise ValueError(
            "executor: Ray was imported before and would listen on the network; set "
            f"{LOCAL_ONLY}=0 in the environment"
        )
    with _own_sigterm():
        try:
            # "local", since without a name Ray takes the cluster that was last started here.
            ray.init(
                address or "local",
                include_dashboard=False,
                log_to_driver=False,
                logging_level="error",
            )
        except ConnectionError as error:
            raise ValueError(f"address: no Ray cluster answers at {address}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep the process's way to end, which connecting to Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _ending(ray: Any, reference: Any, assignment: Assignment, attempts: int) -> tuple[Ending, bool]:
    """How a task has ended, and whether that was its worker's death."""
    try:
        ending: Ending = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return Ending(assignment.folder, said(error), attempts=attempts), False
    except ray.exceptions.RayError as error:
        fault = f"its worker died, for the last time by {said(error)}"
        return Ending(assignment.folder, fault, attempts=attempts), True
    return Ending(ending.folder, ending.fault, ending.seconds, attempts), False


def _stop(ray: Any, references: list[Any]) -> None:
    """Interrupt tasks as Ctrl-C would, and let them write a checkpoint."""
    for reference in references:
        ray.cancel(reference, force=False)
    if references:
        ray.wait(references, num_returns=len(references), timeout=GRACE)
