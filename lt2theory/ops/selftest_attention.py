"""The self-test of kernels for attention inside a window: see `selftest`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from lt2theory.ops.attention_reference import AttentionProblem, reference_attention
from lt2theory.ops.selftest import BATCH, LENGTH, KernelClass, Runner
from lt2theory.ops.workload import AttentionRunner

WINDOW = 48
"""Keys that a query sees."""


@dataclass(frozen=True)
class HeadsClass(KernelClass[Runner]):
    """What a verdict on a kernel of any attention holds for: every length and window.

    Attributes:
        num_heads: Query heads.
        key_heads: Key heads.
        key_width: Key width of a head.
        value_width: Value width of a head.
        segmented: Whether there are segments.
    """

    num_heads: int
    key_heads: int
    key_width: int
    value_width: int
    segmented: bool

    def draw_heads(self, num_keys: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Queries, keys and values.

        Args:
            num_keys: Keys, of which the last `LENGTH` are the queries' own.
            generator: Source of randomness, on the CPU.

        Returns:
            They by name, as from `draw`.
        """
        sizes = {
            "q": (LENGTH, self.num_heads, self.key_width),
            "k": (num_keys, self.key_heads, self.key_width),
            "v": (num_keys, self.key_heads, self.value_width),
        }
        return {
            name: torch.randn(BATCH, *size, generator=generator, dtype=torch.float64)
            for name, size in sizes.items()
        }


@dataclass(frozen=True)
class AttentionClass(HeadsClass[AttentionRunner]):
    """What a verdict on a kernel for windows holds for."""

    seed: ClassVar[int] = 641

    @override
    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        return self.draw_heads(LENGTH, generator)

    @override
    def compute(self, run: AttentionRunner, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        q, k, v = inputs["q"], inputs["k"], inputs["v"]
        segments = _segments().to(q.device) if self.segmented else None
        scale = self.key_width**-0.5
        return {"output": run(AttentionProblem(q, k, v, WINDOW, scale, segments, segments))}

    @override
    def twin(self) -> AttentionRunner:
        return reference_attention


def _segments() -> Tensor:
    """One row begins with padding; in the other a segment comes back inside a window."""
    index = torch.arange(LENGTH)
    return torch.stack([index // 45 - (index < 7).long(), index // 20 % 2])
