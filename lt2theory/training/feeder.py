"""Training batches made ahead of time by another process, the same bytes as made here."""

import multiprocessing
from collections import deque

from lt2theory.training.config import CurriculumConfig
from tasks import Batch
from tasks.feed import Block, Request, serve

STEPS = 16
"""Batches a request."""
DEPTH = 2
"""Requests on their way while a block is used."""


class Feeder:
    """A process that makes the batches that the next steps will want.

    Which stage comes next depends on how training goes; what was made for steps that are never
    taken is dropped.
    """

    def __init__(self) -> None:
        # Spawned, not forked: a process with a CUDA context and threads cannot be forked safely.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._asked: deque[Request] = deque()
        self._block: tuple[Request, Block] | None = None

    def batch(self, config: CurriculumConfig, stage: int, step: int) -> Batch:
        """Examples of one training step, as `training_batch` makes them.

        Args:
            config: A resolved configuration.
            stage: The stage that is trained.
            step: Steps done, over all stages.

        Returns:
            A batch of the train split.

        Raises:
            RuntimeError: The process has ended.
        """
        if self._block is None or not _holds(self._block[0], config, stage, step):
            self._turn_to(_request(config, stage, step))
        assert self._block is not None
        request, block = self._block
        return Batch(*(array[step - request.first] for array in block))

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(timeout=1.0)
        if self._process.is_alive():  # it is in the middle of a block
            self._process.terminate()
            self._process.join()
        self._process.close()

    def _turn_to(self, request: Request) -> None:
        while self._asked and self._asked[0] != request:
            self._receive()  # for a stage, or a run, that has ended
        if not self._asked:
            self._ask(request)
        self._block = request, self._receive()
        while len(self._asked) < DEPTH:
            last = self._asked[-1] if self._asked else request
            self._ask(_after(last))

    def _ask(self, request: Request) -> None:
        try:
            self._connection.send(request)
        except OSError as error:
            raise RuntimeError("the process that makes batches has ended") from error
        self._asked.append(request)

    def _receive(self) -> Block:
        try:
            answer: Block | Exception = self._connection.recv()
        except (EOFError, OSError) as error:
            raise RuntimeError("the process that makes batches has ended") from error
        self._asked.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _request(config: CurriculumConfig, stage: int, step: int) -> Request:
    knobs = tuple(sorted(config.task.knobs.items()))
    return Request(config.task.name, knobs, stage, config.seed, config.batch_size, step, STEPS)


def _after(request: Request) -> Request:
    return Request(**{**vars(request), "first": request.first + request.count})


def _holds(request: Request, config: CurriculumConfig, stage: int, step: int) -> bool:
    wanted = _request(config, stage, request.first)
    return request == wanted and request.first <= step < request.first + request.count
