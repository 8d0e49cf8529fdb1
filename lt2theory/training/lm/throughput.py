"""Tokens a second, model FLOPs utilisation and memory of training steps."""

import torch

from lt2theory.models.flops import step_flops
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.runtime import Runtime

PEAK_TFLOPS = {"H200": 989.0, "H100": 989.0, "A100": 312.0, "B200": 2250.0}
"""Dense bfloat16 rates of the vendors' data sheets (SXM parts), by a word of the device's name."""


def peak_tflops(runtime: Runtime, stated: float | None) -> float | None:
    """Peak rate that the utilisation is measured by.

    Args:
        runtime: Device and precision.
        stated: What the user says; nothing is looked up then.

    Returns:
        TFLOP/s of a device; None on a CPU, for other precisions and unknown devices.
    """
    if stated is not None:
        return stated
    if runtime.dtype != torch.bfloat16 or runtime.device.type != "cuda":
        return None
    name = runtime.device_name
    return next((rate for word, rate in PEAK_TFLOPS.items() if word in name), None)


class Throughput:
    """Turns the seconds of steps into rates.

    Args:
        config: The run.
        ranks: Its processes.
        peak: TFLOP/s of a device, or None.
    """

    def __init__(self, config: LmConfig, ranks: Ranks, peak: float | None) -> None:
        self._tokens = config.tokens_per_step
        self._flops = step_flops(config.model, config.batch_size, config.sequence_length)
        self._device = ranks.device
        self._peak = None if peak is None else peak * 1e12 * ranks.size

    def rates(self, steps: int, seconds: float) -> dict[str, float]:
        """Rates over some steps.

        Args:
            steps: How many.
            seconds: How long they took.

        Returns:
            `tokens_per_second` and `tflops` (`lt2theory.models.flops.step_flops`: the products
            that a step cannot do without, recomputation not counted), over all processes; where
            the peak is known `mfu`, its share of that; on a GPU `peak_memory_gib` since the last
            call, of this process.
        """
        rate = steps * self._flops / seconds
        found = {"tokens_per_second": steps * self._tokens / seconds, "tflops": rate / 1e12}
        if self._peak is not None:
            found["mfu"] = rate / self._peak
        if self._device.type == "cuda":
            found["peak_memory_gib"] = torch.cuda.max_memory_allocated(self._device) / 2**30
            torch.cuda.reset_peak_memory_stats(self._device)
        return found
