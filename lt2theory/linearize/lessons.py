"""What a teacher says about some tokens: all logits, a few at a time, or the likeliest ids."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.linearize.chunked_loss import head_dtype
from lt2theory.linearize.topk import TopK, top_k
from lt2theory.models import LoopedModel
from lt2theory.training.passes import LOGITS_AT_ONCE


@dataclass(frozen=True)
class Spoken:
    """What a teacher's logits are made of.

    Attributes:
        x: Inputs of its head.
        head: Its weights, in the same dtype.
    """

    x: Float[Tensor, "n d"]
    head: Float[Tensor, "vocab d"]

    @classmethod
    def of(cls, teacher: LoopedModel, h: Float[Tensor, "n d"]) -> "Spoken":
        """From its residual stream after a loop.

        Args:
            teacher: The teacher.
            h: The stream.

        Returns:
            The parts, in autocast's dtype where that is on.
        """
        x = teacher.head_inputs(h)
        dtype = head_dtype(x)
        return cls(x.to(dtype), teacher.head_weight.to(dtype))

    def logits(self, part: slice) -> Float[Tensor, "c vocab"]:
        """Logits of some tokens.

        Args:
            part: Which.

        Returns:
            The logits.
        """
        return F.linear(self.x[part], self.head)

    def top_k(self, k: int, temperature: float, chunk: int | None) -> TopK:
        """The likeliest tokens of all, a chunk at a time.

        Args:
            k: How many.
            temperature: By which logits are divided.
            chunk: As in `chunked_loss`.

        Returns:
            The tokens.
        """
        size = max(1, LOGITS_AT_ONCE // len(self.head)) if chunk is None else chunk
        starts = range(0, len(self.x), size)
        with torch.autocast(self.x.device.type, enabled=False):
            found = [
                top_k(self.logits(slice(i, i + size)), k, temperature=temperature) for i in starts
            ]
        rests = [one.log_rest for one in found if one.log_rest is not None]
        return TopK(
            torch.cat([one.ids for one in found]),
            torch.cat([one.log_p for one in found]),
            torch.cat(rests) if rests else None,
        )


Lesson = Spoken | TopK
