"""Steps of a language model from buffers that never move: on a GPU, two CUDA graphs a step.

The first holds forward, backward and clipping of all parts, the second the optimiser's step. What
the first saw is read before the second is launched, so the rules for steps that go wrong are those
of steps taken one operation after the other.
"""

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.learner import Learner
from lt2theory.training.lm.objective import Place
from lt2theory.training.lm.optimisers import set_rate
from lt2theory.training.lm.options import Execution
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.lm.step import LmStepper, Part, Share, label_share
from lt2theory.training.recording import record
from lt2theory.training.text import Windows

_NOWHERE = Place(0, 1, 0)


class GraphLmStepper(LmStepper):
    """Takes steps of a run in one process from fixed buffers.

    Documents are always told, also where every window lies within one, so that one graph serves.
    The optimiser's step is a graph with AdamW alone; Muon's runs one operation after the other. On
    a CPU nothing is recorded, and steps are a twin for tests.

    Args:
        config: As for `LmStepper`.
        execution: As for `LmStepper`.
        ranks: As for `LmStepper`; one process.
        batches: As for `LmStepper`.
        learner: As for `LmStepper`.

    Raises:
        ValueError: The objective changes from step to step, or as for `LmStepper`.
    """

    def __init__(
        self,
        config: LmConfig,
        execution: Execution,
        ranks: Ranks,
        batches: Windows,
        learner: Learner | None = None,
    ) -> None:
        super().__init__(config, execution, ranks, batches, learner)
        objective = self.placement.objective
        objective.check_graph()
        shape, device = (self._rows, config.sequence_length), ranks.device
        self._buffers = [torch.zeros(shape, dtype=torch.int64, device=device) for _ in range(3)]
        count = -(-self._rows // self._at_once)
        self._shares = torch.zeros(count, dtype=config.weight_dtype, device=device)
        self._numbers = torch.empty(0)
        self._graphs: tuple[torch.cuda.CUDAGraph, ...] = ()

    @override
    def _launch(self, share: Share, labels: float) -> Tensor:
        self.placement.objective.begin_step(share.step, self.config.total_steps)
        shares = np.array([label_share(part, labels) for part in share.parts])
        self._shares.copy_(self._moved(shares))
        start = 0
        for part in share.parts:
            stop = start + len(part.inputs)
            for buffer, array in zip(self._buffers, part, strict=True):
                buffer[start:stop].copy_(self._moved(array))
            start = stop
        if self.ranks.device.type == "cpu":
            self._run()
        else:
            if not self._graphs:
                with self.runtime.alone():
                    self._graphs = self._record()
            self._graphs[0].replay()
        return self._numbers

    @override
    def apply(self, rate: float) -> None:
        if len(self._graphs) < 2:
            super().apply(rate)
            return
        set_rate(self.optimisers, rate)
        self._graphs[1].replay()

    def _record(self) -> tuple[torch.cuda.CUDAGraph, ...]:
        """The graphs of a step. What runs before they are recorded leaves gradients alone."""
        graphs = [record(self._run)]
        # Gradients are where the first graph leaves them from now on.
        if self.config.optimiser.name == "adamw":
            graphs.append(record(self._optimise, warm_up=False))
        return tuple(graphs)

    def _optimise(self) -> None:
        for optimiser in self.optimisers:
            optimiser.step()

    def _run(self) -> None:
        """Gradients from the buffers; nothing here may wait for the device."""
        inputs, targets, documents = (buffer.split(self._at_once) for buffer in self._buffers)
        parts = zip(inputs, targets, documents, self._shares.unbind(), strict=True)
        self._numbers = self._accumulate(Part(*part, _NOWHERE) for part in parts)


def make_lm_stepper(
    config: LmConfig,
    execution: Execution,
    ranks: Ranks,
    batches: Windows,
    learner: Learner | None = None,
) -> LmStepper:
    """The stepper that an execution asks for.

    Args:
        config: As for `LmStepper`.
        execution: As for `LmStepper`.
        ranks: As for `LmStepper`.
        batches: As for `LmStepper`.
        learner: As for `LmStepper`.

    Returns:
        The stepper.

    Raises:
        ValueError: As for `LmStepper` and `GraphLmStepper`.
    """
    kind = GraphLmStepper if execution.cuda_graph else LmStepper
    return kind(config, execution, ranks, batches, learner)
