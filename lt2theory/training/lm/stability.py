"""The stability instruments during a run: a reading every so many steps, as lines of metrics.

A reading runs forward and backward on a few windows of the next step, so it takes about
`measure_windows / (batch_size * measure_every)` of the time of training. It changes nothing, and
depends on nothing but the weights and the step: a resumed run writes the same lines.
"""

from typing import Any

import torch
from torch import Tensor

from lt2theory.analysis import read_stability
from lt2theory.models import LoopedModel
from lt2theory.models.loop_loss import loop_loss
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import Windows


def stability_due(config: LmConfig, step: int) -> bool:
    """Whether a reading is due.

    Args:
        config: The run.
        step: Steps done.

    Returns:
        Whether it is.
    """
    every = config.stability.measure_every
    return bool(every) and step % every == 0


def stability_lines(
    model: LoopedModel, batches: Windows, runtime: Runtime, config: LmConfig, *, step: int
) -> list[dict[str, Any]]:
    """Read the instruments.

    Args:
        model: The model, whole.
        batches: The windows.
        runtime: Device and precision.
        config: The run.
        step: Steps done.

    Returns:
        Records of split `stability` (`lt2theory.analysis.StabilityReading`).
    """
    some = batches.rows(step, 0, min(config.stability.measure_windows, config.batch_size))
    inputs, targets, documents = (torch.from_numpy(x).to(runtime.device) for x in some)
    unbroken = bool((some.documents == some.documents[:, :1]).all())

    def loss() -> Tensor:
        with runtime.autocast():
            own = None if unbroken else documents
            return loop_loss(model, inputs, targets, documents=own).total

    return read_stability(model, loss).records(step)
