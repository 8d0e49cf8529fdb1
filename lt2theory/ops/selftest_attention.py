"""The self-test of kernels for attention inside a window: see `selftest`."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from lt2theory.ops.attention_reference import AttentionProblem, reference_attention
from lt2theory.ops.selftest import BATCH, LENGTH, judge, recall
from lt2theory.ops.selftest_verdicts import Verdict, name_of_device, named_versions
from lt2theory.ops.workload import AttentionWorkload

AttentionRunner = Callable[[AttentionProblem], Tensor]

_WINDOW = 48


@dataclass(frozen=True)
class AttentionClass:
    """What a verdict holds for: every length and window.

    Attributes:
        kernel: Name of the kernel.
        device: Device type and index.
        device_name: Name of the device's model.
        dtype: Dtype of the inputs.
        num_heads: Query heads.
        key_heads: Key heads.
        key_width: Key width of a head.
        value_width: Value width of a head.
        segmented: Whether there are segments.
    """

    kernel: str
    device: str
    device_name: str
    dtype: torch.dtype
    num_heads: int
    key_heads: int
    key_width: int
    value_width: int
    segmented: bool

    @classmethod
    def of(cls, kernel: str, workload: AttentionWorkload) -> "AttentionClass":
        """The class of a workload.

        Args:
            kernel: Name of the kernel.
            workload: What is to be computed.

        Returns:
            Its class.
        """
        device, model = name_of_device(workload.device, workload.device_index)
        return cls(
            kernel=kernel,
            device=device,
            device_name=model,
            dtype=workload.dtype,
            num_heads=workload.num_heads,
            key_heads=workload.key_heads,
            key_width=workload.key_width,
            value_width=workload.value_width,
            segmented=workload.segmented,
        )

    def key(self) -> dict[str, Any]:
        """What has to be the same for a verdict to hold: JSON values, versions among them."""
        return named_versions(asdict(self))


def find_attention_verdict(shape: AttentionClass, run: AttentionRunner) -> Verdict:
    """The verdict on a class: known in this process, read from disk, or measured now.

    Args:
        shape: The class.
        run: The kernels on an attention.

    Returns:
        The verdict.
    """
    return recall(shape, lambda: run_attention_self_test(shape, run))


def run_attention_self_test(shape: AttentionClass, run: AttentionRunner) -> Verdict:
    """Compare values and gradients with the float64 reference on the same device.

    Args:
        shape: The class.
        run: The kernels on an attention.

    Returns:
        The verdict; an exception in the kernels is a failure.
    """
    generator = torch.Generator().manual_seed(641)
    sizes = {
        "q": (shape.num_heads, shape.key_width),
        "k": (shape.key_heads, shape.key_width),
        "v": (shape.key_heads, shape.value_width),
    }
    inputs = {
        name: torch.randn(BATCH, LENGTH, *size, generator=generator, dtype=torch.float64)
        for name, size in sizes.items()
    }
    inputs = {name: x.to(shape.device, shape.dtype) for name, x in inputs.items()}
    segments = _segments(shape.device) if shape.segmented else None
    return judge(
        partial(_compute, run, segments),
        partial(_compute, reference_attention, segments),
        inputs,
        generator=generator,
    )


def _segments(device: str) -> Tensor:
    """One row begins with padding; in the other a segment comes back inside a window."""
    index = torch.arange(LENGTH)
    return torch.stack([index // 45 - (index < 7).long(), index // 20 % 2]).to(device)


def _compute(
    run: AttentionRunner, segments: Tensor | None, inputs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The outputs of named inputs."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    scale = q.shape[-1] ** -0.5
    return {"output": run(AttentionProblem(q, k, v, _WINDOW, scale, segments, segments))}
