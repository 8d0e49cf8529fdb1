"""A training step of full-scale language models, in one process or under torchrun.

What runs is the step of `lt2 train` (`LmStepper`): float32 masters, products under autocast, AdamW;
on windows of random ids, so that no corpus is needed.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch

from lt2theory.bench.model import Rates, floor_table
from lt2theory.models import LoopedConfig, LoopedModel, find_preset
from lt2theory.models.parameters import parameter_count
from lt2theory.models.preset import changed
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.learner import Learner
from lt2theory.training.lm.objective import LmObjective
from lt2theory.training.lm.options import Execution, Parallel
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.lm.schedule import rate_at
from lt2theory.training.lm.step import LmStepper
from lt2theory.training.lm.throughput import Throughput, peak_tflops
from lt2theory.training.text import TextBatch

FIRST_STEPS = 2
"""Steps after which nothing more is compiled or measured."""
Checkpointing = Literal["none", "loop", "block"]


@dataclass(frozen=True)
class Setting:
    """One measurement.

    Attributes:
        preset: Name of the model.
        batch: Windows that a process reads a step.
        length: Tokens of a window.
        checkpointing: What backward computes again.
        parallel: How several processes share the work; without effect for one.
        micro_batch: Windows that a process runs at once; None for all.
        dtype: "bfloat16", or "float32" on a CPU.
    """

    preset: str
    batch: int = 8
    length: int = 2048
    checkpointing: Checkpointing = "loop"
    parallel: Parallel = "auto"
    micro_batch: int | None = None
    dtype: Literal["bfloat16", "float32"] = "bfloat16"


class RandomWindows:
    """Windows of random ids, as a pure function of step and row.

    Args:
        vocab_size: Ids run from 0 to `vocab_size - 1`.
        length: Tokens of a window.
    """

    def __init__(self, vocab_size: int, length: int) -> None:
        self._vocab_size = vocab_size
        self._length = length

    def rows(self, step: int, start: int, stop: int) -> TextBatch:
        """As `lt2theory.training.text.Windows`.

        Args:
            step: Steps done before.
            start: The first window.
            stop: One after the last.

        Returns:
            `stop - start` windows, each one document.
        """
        drawn = [
            np.random.default_rng((step, row)).integers(self._vocab_size, size=self._length + 1)
            for row in range(start, stop)
        ]
        ids = np.stack(drawn)
        whole = np.zeros((stop - start, self._length), dtype=np.int64)
        return TextBatch(ids[:, :-1].copy(), ids[:, 1:].copy(), whole)


def bench_lm_step(
    settings: Sequence[Setting], ranks: Ranks, *, steps: int = 5
) -> Iterator[dict[str, Any]]:
    """Time training steps, one model after the other; all processes call this together.

    Args:
        settings: What to measure, in this order.
        ranks: The processes.
        steps: Steps that are timed.

    Yields:
        One row a setting: its fields, `processes`, `parameters_m`, `first_s` (from making the
        model to the end of its first step), `ms` a step, `loss` of the last one,
        `tokens_per_second` and `tflops` of all processes, `mfu` where the peak is known,
        `peak_memory_gib` of the first process on a GPU, `floor_ms` (the products and AdamW's bytes
        at an H200's measured rates) and `reason`. A setting that is out of memory in one process
        has that for a reason and no numbers.

    Raises:
        ValueError: There is no such preset, or `LmStepper` refuses the setting.
        torch.OutOfMemoryError: Under torchrun, where the others would wait.
    """
    for setting in settings:
        config = run_config(setting, ranks.size, steps)
        row = asdict(setting) | {
            "processes": ranks.size,
            "parameters_m": parameter_count(config.model) / 1e6,
            "floor_ms": _floor_ms(config.model, setting),
        }
        try:
            row |= _measured(setting, config, ranks, steps)
        except torch.OutOfMemoryError:
            if ranks.size > 1:
                raise
            row["reason"] = "out of memory"
        if ranks.device.type == "cuda":
            torch.cuda.empty_cache()  # the next model is another size
        yield row


def run_config(setting: Setting, processes: int, steps: int) -> LmConfig:
    """The run whose step is timed.

    Args:
        setting: What to measure.
        processes: How many share a step.
        steps: Steps that are timed.

    Returns:
        Its configuration.

    Raises:
        ValueError: There is no such preset, or a field is not allowed.
    """
    model = changed(find_preset(setting.preset).config, checkpointing=setting.checkpointing)
    return LmConfig(
        model=model,
        steps=FIRST_STEPS + steps,
        batch_size=setting.batch * processes,
        sequence_length=setting.length,
        dtype=setting.dtype,
        evaluate_every=0,
    )


def _floor_ms(model: LoopedConfig, setting: Setting) -> float:
    table = floor_table(model, setting.batch, (setting.length,), Rates())
    return float(table["train_ms"][0])


def _measured(setting: Setting, config: LmConfig, ranks: Ranks, steps: int) -> dict[str, Any]:
    began = time.perf_counter()
    stepper = _stepper(setting, config, ranks)
    _take(stepper, 0)
    _wait(ranks)
    first = time.perf_counter() - began
    for step in range(1, FIRST_STEPS):
        _take(stepper, step)
    _wait(ranks)
    throughput = Throughput(config, ranks, peak_tflops(stepper.runtime, None))
    throughput.rates(1, 1.0)  # the peak of memory is that since the last call
    began = time.perf_counter()
    for step in range(FIRST_STEPS, FIRST_STEPS + steps):
        loss = _take(stepper, step)
    _wait(ranks)
    seconds = time.perf_counter() - began
    told = {"first_s": first, "ms": 1e3 * seconds / steps, "loss": loss, "reason": None}
    return told | throughput.rates(steps, seconds)


def _stepper(setting: Setting, config: LmConfig, ranks: Ranks) -> LmStepper:
    """A stepper whose model is drawn on its device: a CPU takes a minute for a billion weights."""
    with torch.device(ranks.device):
        drawn = torch.Generator(ranks.device).manual_seed(config.seed)
        model = LoopedModel(config.model, generator=drawn)
    execution = Execution(
        device="cuda" if ranks.device.type == "cuda" else "cpu",
        parallel=setting.parallel,
        micro_batch_size=setting.micro_batch,
    )
    weight = config.optimiser.auxiliary_weight
    learner = Learner(model, lambda own: LmObjective(own, weight))
    windows = RandomWindows(config.model.vocab_size, config.sequence_length)
    return LmStepper(config, execution, ranks, windows, learner)


def _take(stepper: LmStepper, step: int) -> float:
    """One step as a run takes it; returns its loss."""
    share = stepper.read(step)
    (labels,) = stepper.ranks.sum([share.labels])
    seen = stepper.gradients(share, labels)
    stepper.apply(rate_at(stepper.config.optimiser, step, stepper.config.total_steps))
    return seen["loss"]


def _wait(ranks: Ranks) -> None:
    """Let all processes and their devices come here."""
    if ranks.device.type == "cuda":
        torch.cuda.synchronize(ranks.device)
    ranks.sum([0])
