"""The short causal convolution in front of a linear mixer."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lt2theory.mixers.initialise import uniform_
from lt2theory.mixers.stream import Slot, Stream


class ShortConvolution(nn.Module):
    """Depthwise taps `[channels, 1, conv_width]`, the last one for the token itself.

    Holds the parameters under FLA's names; `short_convolution` does the work for several at once.
    """

    def __init__(self, channels: int, conv_width: int, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, conv_width))
        self.bias = nn.Parameter(torch.empty(channels)) if bias else None

    def initialise(self, generator: torch.Generator) -> None:
        """Draw taps and bias as `torch.nn.Conv1d` does: uniform within `conv_width ** -0.5`.

        Args:
            generator: Source of randomness.
        """
        bound = self.weight.shape[-1] ** -0.5
        uniform_(self.weight, -bound, bound, generator)
        if self.bias is not None:
            uniform_(self.bias, -bound, bound, generator)


def short_convolution(
    x: Float[Tensor, "b t c"],
    weight: Float[Tensor, "c 1 w"],
    stream: Stream,
    slot: Slot | None = None,
    *,
    bias: Float[Tensor, " c"] | None = None,
) -> Float[Tensor, "b t c"]:
    """Causal depthwise convolution that continues a cached stream and respects segments.

    Args:
        x: Inputs `[b t c]`.
        weight: Taps `[c 1 w]`, oldest token first.
        stream: Segments of these tokens; a tap that reaches into another segment reads zero.
        slot: Holds the inputs of the last `w - 1` tokens, and is updated.
        bias: Added to every token's output.

    Returns:
        `[b t c]`, before any activation.
    """
    width, length = weight.shape[-1], x.shape[1]
    if slot is not None and slot.conv is not None:
        past = slot.conv
    else:
        past = x.new_zeros(x.shape[0], width - 1, x.shape[2])
    padded = torch.cat([past.to(x.dtype), x], 1)
    if slot is not None:
        slot.conv = padded[:, length:].clone()  # a view would keep all of `padded` alive
    segments = stream.segments_with_past(width - 1)
    taps = weight[:, 0].to(x.dtype)
    y = x * taps[:, -1]
    for tap in range(width - 1):
        shifted = padded[:, tap : tap + length]
        if segments is not None and stream.segments is not None:
            same = segments[:, tap : tap + length] == stream.segments
            shifted = shifted * same.unsqueeze(-1)
        y = y + shifted * taps[:, tap]
    return y if bias is None else y + bias.to(x.dtype)
