"""What an executor is given and gives, and the attempt at a run that all of them make."""

import importlib
import importlib.util
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lt2theory.runs.lock import await_release

RunOne = Callable[[dict[str, Any], Path, int], None]
"""Carries out, or continues, one run: its configuration, its folder, the threads it may use.

It must be importable by name, since other processes call it."""


@dataclass(frozen=True)
class Assignment:
    """A run to be carried out.

    Attributes:
        config: Its configuration as plain JSON values.
        folder: Its folder.
    """

    config: dict[str, Any]
    folder: Path


@dataclass(frozen=True)
class Ending:
    """How an assignment has ended.

    Attributes:
        folder: The run's folder.
        fault: Why it failed, in one line; None if it is done.
        seconds: How long the last attempt took.
        attempts: Workers that it was given to; those before the last have died.
    """

    folder: Path
    fault: str | None = None
    seconds: float = 0.0
    attempts: int = 1


class Executor(ABC):
    """Carries out runs somewhere."""

    @property
    @abstractmethod
    def share(self) -> float:
        """The part of a device that a run has, for what it costs."""

    @abstractmethod
    def carry_out(
        self, run_one: RunOne, assignments: Sequence[Assignment]
    ) -> Generator[Ending, None, None]:
        """Carry out runs; one that fails does not stop the others.

        Closing the iterator, or an exception that is raised while it waits, stops them all.

        Args:
            run_one: Carries out one of them.
            assignments: The runs.

        Yields:
            How each has ended, as soon as it has.

        Raises:
            ValueError: The executor cannot give what a run needs, or is not there.
        """


def attempt(run_one: RunOne, assignment: Assignment, threads: int) -> Ending:
    """Try one run in this process.

    Args:
        run_one: Carries it out.
        assignment: The run.
        threads: Threads it may use.

    Returns:
        How it has ended, with one attempt.
    """
    start, fault = time.monotonic(), None
    try:
        run_one(assignment.config, assignment.folder, threads)
    except Exception as error:  # noqa: BLE001 - one run's fault, whatever it is, spares the others
        fault = said(error)
    return Ending(assignment.folder, fault, time.monotonic() - start)


def attempt_anywhere(run_one: RunOne, assignment: Assignment, threads: int) -> Ending:
    """Try one run on whichever machine this is, after workers that may have died on others.

    Args:
        run_one: Carries it out.
        assignment: The run; its folder must lie where all machines see it.
        threads: Threads it may use.

    Returns:
        How it has ended, with one attempt.
    """

    def carried_out(config: dict[str, Any], folder: Path, threads: int) -> None:
        if not folder.parent.is_dir():
            raise ValueError(
                f"{folder.parent} is not there on host {socket.gethostname()}; the folder of a "
                "study must lie where all machines see it"
            )
        await_release(folder)
        run_one(config, folder, threads)

    return attempt(carried_out, assignment, threads)


def said(error: BaseException) -> str:
    """An error in one line.

    Args:
        error: The error.

    Returns:
        Its type and message.
    """
    return " ".join(f"{type(error).__name__}: {error}".split())


def extra(name: str) -> Any:
    """Import a package that the base install does not bring.

    Args:
        name: The package.

    Returns:
        The module.

    Raises:
        ValueError: It is not installed.
    """
    if importlib.util.find_spec(name) is None:
        raise ValueError(
            f"executor: {name} is not installed; pip install 'lt2theory[cluster]' brings it"
        )
    return importlib.import_module(name)


def check_amounts(**amounts: int | float) -> None:
    """Check what a run is given.

    Args:
        **amounts: Name and number: `cpus` and `at_once` from 1 on, the others from 0.

    Raises:
        ValueError: A number is not allowed.
    """
    for name, value in amounts.items():
        least = 1 if name in {"cpus", "at_once"} else 0
        if not least <= value < float("inf"):
            raise ValueError(f"{name}: got {value}, allowed are numbers >= {least}")
