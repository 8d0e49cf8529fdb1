"""Who takes the steps of a run: one by one, or as a CUDA graph that the host runs ahead of.

`Stepper` takes a step and knows at once what it saw. `GraphStepper` launches the whole step
(forward, loss, backward, clipping, AdamW) as one graph for every shape of batch, and what the steps
saw stays on the device until somebody asks. A step that saw something not finite changes nothing
there, nor does any step after it, so a divergence that is found late has left the same weights.
"""

import shutil
from collections.abc import Iterator
from os import environ

import torch
from torch import Tensor
from typing_extensions import override

from lt2theory.models import LoopedModel
from lt2theory.training.config import CurriculumConfig
from lt2theory.training.evaluation import Answering
from lt2theory.training.optimiser import (
    StepResult,
    clipped_gradients,
    finite_result,
    make_optimiser,
    masked_loss_of_fixed_shape,
    train_step,
)
from lt2theory.training.recorded import RecordedModel
from lt2theory.training.recording import record
from lt2theory.training.runtime import Runtime
from tasks import Batch

_RECORDED: set[tuple[str, torch.Size]] = set()
"""Kinds of steps that this process has recorded: what of a configuration shapes a step, and the
shape of its batch. The seeds of an arm and the settings of a search compile and choose once."""


class Stepper:
    """Takes steps one at a time.

    Args:
        model: The model, changed in place.
        config: How it is optimised.
        runtime: Device and precision.

    Attributes:
        optimiser: AdamW for the model.
        answering: The model as evaluations ask it.
        longest_wait: Steps that may be taken before their results are read.
    """

    longest_wait = 1

    def __init__(self, model: LoopedModel, config: CurriculumConfig, runtime: Runtime) -> None:
        self.model = model
        self.config = config.optimiser
        self.runtime = runtime
        self.optimiser = self._make_optimiser()
        self.answering: Answering = model
        self._results: list[StepResult] = []

    def _make_optimiser(self) -> torch.optim.AdamW:
        return make_optimiser(self.model, self.config)

    @property
    def pending(self) -> int:
        """Steps taken whose results nobody has read."""
        return len(self._results)

    def take(self, batch: Batch, learning_rate: float) -> None:
        """Take a step.

        Args:
            batch: Training examples.
            learning_rate: For this step.

        Raises:
            DivergenceError: It saw something that is not finite, and changed nothing.
        """
        result = train_step(
            self.model,
            self.optimiser,
            batch,
            learning_rate=learning_rate,
            clip=self.config.clip,
            runtime=self.runtime,
            auxiliary_weight=self.config.auxiliary_weight,
        )
        self._results.append(result)

    def results(self) -> Iterator[StepResult]:
        """What the steps saw that nobody has read, the oldest first.

        Yields:
            One result a step.

        Raises:
            DivergenceError: This step saw something that is not finite. It and all after it have
                changed nothing; no more results follow.
        """
        results, self._results = self._results, []
        yield from results


class GraphStepper(Stepper):
    """Takes steps from buffers that never move; on a GPU each is one launch of a CUDA graph.

    The first step of every shape of batch is rehearsed, and runs twice with its outcome thrown
    away, which compiles and measures what has to be, and is then recorded. Where this process has
    recorded the like, one run does. On a CPU steps run one
    operation after the other, as a twin for tests.
    """

    longest_wait = 32

    def __init__(self, model: LoopedModel, config: CurriculumConfig, runtime: Runtime) -> None:
        super().__init__(model, config, runtime)
        # AdamW's own switch, made for loss scaling: at 1 its step changes nothing. Not declared.
        self._stopped = torch.zeros((), device=runtime.device)
        self.optimiser.found_inf = self._stopped  # type: ignore[attr-defined]
        shape = config.model.model_dump_json(exclude={"init_std", "embedding_std"})
        own = config.optimiser.clip, config.optimiser.auxiliary_weight
        self._kind = f"{shape} {config.dtype} {config.compile} {own}"
        self._answers = RecordedModel(model, runtime) if runtime.device.type == "cuda" else None
        if self._answers is not None:
            self.answering = self._answers
        self._buffers: tuple[Tensor, Tensor, Tensor] | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._names: tuple[str, ...] = ()
        self._seen = torch.empty(0, device=runtime.device)
        self._rows: list[Tensor] = []

    @override
    def _make_optimiser(self) -> torch.optim.AdamW:
        return make_optimiser(self.model, self.config, capturable=True)

    @property
    @override
    def pending(self) -> int:
        return len(self._rows)

    @override
    def take(self, batch: Batch, learning_rate: float) -> None:
        on_gpu = self.runtime.device.type == "cuda"
        if self._buffers is None or self._buffers[0].shape != batch.inputs.shape:
            with self.runtime.alone():
                self._forget()  # its memory goes before the next one needs some
                inputs, targets, mask = (self.runtime.tensor(array).clone() for array in batch)
            self._buffers = inputs, targets, mask
        else:
            for buffer, array in zip(self._buffers, batch, strict=True):
                new = torch.from_numpy(array)
                # From pinned memory a copy waits for its turn on the device, not the host for it.
                buffer.copy_(new.pin_memory() if on_gpu else new, non_blocking=True)
        for group in self.optimiser.param_groups:
            group["lr"].fill_(learning_rate)
        if not on_gpu:
            self._run()
        else:
            if self._graph is None:
                with self.runtime.alone():
                    self._graph = self._capture()
                    if self._answers is not None:
                        self._answers.borrow(self._graph)
            self._graph.replay()
        self._rows.append(self._seen.clone())

    @override
    def results(self) -> Iterator[StepResult]:
        rows, self._rows = self._rows, []
        for row in torch.stack(rows).tolist() if rows else ():
            yield finite_result(dict(zip(self._names, row, strict=True)))

    def _forget(self) -> None:
        self._graph = None
        if self._answers is not None:
            self._answers.forget()

    def _run(self) -> None:
        """One step from the buffers; nothing here may wait for the device."""
        assert self._buffers is not None
        seen = clipped_gradients(
            self.model,
            self._buffers,
            clip=self.config.clip,
            runtime=self.runtime,
            auxiliary_weight=self.config.auxiliary_weight,
            loss=masked_loss_of_fixed_shape,
        )
        self._names = tuple(seen)
        self._seen = torch.stack([value.float() for value in seen.values()])
        self._stopped.copy_(torch.maximum(self._stopped, (~self._seen.isfinite()).any().float()))
        self.optimiser.step()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Record a step; the runs before it have no effect."""
        assert self._buffers is not None
        kind = self._kind, self._buffers[0].shape
        kept = self._stopped.clone()
        self._stopped.fill_(1.0)
        graph = record(self._run, known=kind in _RECORDED)
        self._stopped.copy_(kept)
        _RECORDED.add(kind)
        return graph


def make_stepper(config: CurriculumConfig, model: LoopedModel, runtime: Runtime) -> Stepper:
    """The stepper that a configuration asks for.

    Args:
        config: The configuration.
        model: The model; under `compile` its blocks are compiled when they first train.
        runtime: Device and precision.

    Returns:
        The stepper.

    Raises:
        ValueError: Compiling is asked for on a machine without a C++ compiler.
    """
    check_compiler(config.compile)
    model.compiled = config.compile
    return (GraphStepper if config.cuda_graph else Stepper)(model, config, runtime)


def check_compiler(wanted: bool) -> None:
    """Refuse compiling where it would fail late.

    Args:
        wanted: Whether compiling is asked for.

    Raises:
        ValueError: It is, on a machine without a C++ compiler.
    """
    compiler = environ.get("CXX", "g++")
    if wanted and shutil.which(compiler) is None:
        raise ValueError(
            f"compile: got True, but torch.compile needs a C++ compiler and {compiler!r} (the "
            "variable CXX) is not there; allowed here: False"
        )
