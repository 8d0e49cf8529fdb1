"""What a mixer is: `prepare`, the family of its op, and `output`."""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lt2theory.mixers.initialise import truncated_normal_
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import AttentionInputs, Factors

Inputs = TypeVar("Inputs", Factors, AttentionInputs)


class Mixer(nn.Module, ABC, Generic[Inputs]):
    """A token mixer without its op: the model joins `prepare`, the op and `output`.

    The factors of a recurrence are computed in at least float32 (float64 stays), so that gates
    and norms mean the same under autocast; queries, keys and values of an attention keep the
    dtype of their projections. Analysers read exactly what the op received.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__()
        self.options = options

    @abstractmethod
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Inputs:
        """Projections, short convolution, normalisation and gates.

        Args:
            x: Normalised residual stream `[b t d]`.
            stream: Positions and segments of these tokens.
            slot: What this mixer remembers in this loop; its convolution history is updated.

        Returns:
            The inputs of the op.
        """

    @abstractmethod
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        """Norm, gate and output projection.

        Args:
            o: What the op read out, `[b t h v]`.
            x: The input that `prepare` saw, `[b t d]`.

        Returns:
            The change to the residual stream `[b t d]`.
        """

    def initialise(self, generator: torch.Generator, std: float) -> None:
        """Draw every parameter afresh; matrices from a normal cut at three deviations.

        Args:
            generator: Source of randomness.
            std: Standard deviation of the projections.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                truncated_normal_(module.weight, std, generator)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)


class LinearMixer(Mixer[Factors]):
    """A mixer whose op is `linear_recurrence`.

    Attributes:
        own_decay: How many decays a head has by the mixer's definition, where `decay_grain` may
            say otherwise: one (`head`) or one a key channel (`channel`). None: the mixer has no
            decay, or one that belongs to it.
    """

    own_decay: ClassVar[Literal["head", "channel"] | None] = None


class AttentionMixer(Mixer[AttentionInputs]):
    """A mixer whose op is `softmax_attention`."""


def at_least_float32(x: Tensor) -> Tensor:
    """Widen half precision.

    Args:
        x: Any float tensor.

    Returns:
        `x`, in float32 where it is narrower.
    """
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
