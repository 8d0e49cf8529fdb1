"""How tokens are drawn from logits."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.mixers.base import at_least_float32
from lt2theory.models.arguments import check_whole

LOWEST, HIGHEST = 1e-30, 1e30
"""Temperatures between which a division gives numbers in float32."""


@dataclass(frozen=True)
class Sampling:
    """Draw each token from `softmax(logits / temperature)`, in at least float32.

    One draw a row and token, also in rows that have ended, all from one generator.

    Attributes:
        generator: Source of randomness, on the model's device.
        temperature: From 1e-30 to 1e30; towards 0 the choice becomes greedy.
        top_k: Only so many of the largest logits may be drawn (all, where the vocabulary is
            smaller); None for all.

    Raises:
        ValueError: `temperature` or `top_k` is out of range.
    """

    generator: torch.Generator
    temperature: float | int = 1.0
    top_k: int | None = None

    def __post_init__(self) -> None:
        if not LOWEST <= self.temperature <= HIGHEST:
            raise ValueError(
                f"temperature: {self.temperature} must be >= {LOWEST} and <= {HIGHEST}"
            )
        if self.top_k is None:
            return
        check_whole("top_k", self.top_k)
        if self.top_k < 1:
            raise ValueError(f"top_k: {self.top_k} must be >= 1 or None")

    def draw(self, logits: Float[Tensor, "b vocab"]) -> Int[Tensor, " b"]:
        """Draw one token a row.

        Args:
            logits: Logits of the next token.

        Returns:
            Token ids, int64.
        """
        wide = at_least_float32(logits)
        count = wide.shape[1] if self.top_k is None else min(self.top_k, wide.shape[1])
        values, ids = wide.topk(count, -1)
        # The largest is taken off first, so that no temperature overflows.
        chances = ((values - values[:, :1]) / self.temperature).softmax(-1)
        return ids.gather(1, torch.multinomial(chances, 1, generator=self.generator)).squeeze(1)
