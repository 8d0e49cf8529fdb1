"""Batches made by a process of their own: it answers requests until its other end is closed."""

import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from jaxtyping import Bool, Int64

from tasks.base import Task
from tasks.catalogue import create

Knob = bool | int | float | str | None
Block = tuple[
    Int64[np.ndarray, "step b t"], Int64[np.ndarray, "step b t"], Bool[np.ndarray, "step b t"]
]


@dataclass(frozen=True)
class Request:
    """Training batches of consecutive steps.

    Attributes:
        task: Name of the task.
        knobs: Its options, as sorted pairs.
        stage: The stage.
        seed: Seed of the batches.
        size: Examples a batch.
        first: Index of the first batch.
        count: How many.
    """

    task: str
    knobs: tuple[tuple[str, Knob], ...]
    stage: int
    seed: int
    size: int
    first: int
    count: int


def make_block(task: Task, request: Request) -> Block:
    """Make the batches of a request.

    Args:
        task: The task that it names.
        request: What is asked for.

    Returns:
        Inputs, targets and mask `[step b t]`: the bytes of `task.batch` for every index.
    """
    indices = range(request.first, request.first + request.count)
    batches = [
        task.batch(
            stage=request.stage, split="train", seed=request.seed, index=index, size=request.size
        )
        for index in indices
    ]
    inputs, targets, mask = (np.stack(arrays) for arrays in zip(*batches, strict=True))
    return inputs, targets, mask


def serve(connection: Connection) -> None:
    """Answer requests in turn, each with its block or with the error that it met.

    Args:
        connection: Where requests come from. It is closed, from the other side or by the end of
            that process, when there are no more. Ctrl-C is left to the process that asks.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    known: dict[tuple[str, tuple[tuple[str, Knob], ...]], Task] = {}
    while True:
        try:
            request: Request = connection.recv()
        except EOFError:
            return
        try:
            name = request.task, request.knobs
            task = known.setdefault(name, create(request.task, **dict(request.knobs)))
            answer: Block | Exception = make_block(task, request)
        except Exception as error:  # noqa: BLE001 - the process that asks raises it
            answer = error
        try:
            connection.send(answer)
        except BrokenPipeError:
            return
