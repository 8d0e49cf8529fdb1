"""Where the tokens of one call stand: their positions, their segments, and what came before."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Stream:
    """The tokens of one call, as every layer and loop sees them.

    A segment is a run of tokens that belong together: a document, or the real tokens beside
    left padding. Nothing (state, convolution, attention) crosses from one into another. A state
    sees where a run ends, attention which numbers are equal: every run has a number of its own.

    Attributes:
        positions: Position of each token within its segment, `[b t]`.
        segments: Segment of each token, `[b t]`; -1 is padding. None: one unbroken stream.
        past_segments: Segments of the cached tokens just before, `[b m]`, oldest first; given
            exactly when `segments` is. May be shorter than the history of a window or state.
    """

    positions: Int[Tensor, "b t"]
    segments: Int[Tensor, "b t"] | None = None
    past_segments: Int[Tensor, "b m"] | None = None

    def segments_with_past(self, length: int) -> Int[Tensor, "b n"] | None:
        """Segments of the last `length` cached tokens followed by this call's.

        Args:
            length: How many cached tokens to put in front; where fewer are known the rest
                reads -2, which equals no segment.

        Returns:
            `[b length+t]`, or None for an unbroken stream.
        """
        if self.segments is None or self.past_segments is None:
            return None
        batch, known = self.past_segments.shape
        if known >= length:
            past = self.past_segments[:, known - length :]
        else:
            unknown = self.segments.new_full((batch, length - known), -2)
            past = torch.cat([unknown, self.past_segments], 1)
        return torch.cat([past, self.segments], 1)

    def starts(self) -> Bool[Tensor, "b t"] | None:
        """Which tokens begin a segment, and so find an empty state.

        Returns:
            `[b t]`, or None for an unbroken stream.
        """
        known = self.segments_with_past(1)
        return None if known is None else known[:, 1:] != known[:, :-1]


@dataclass
class Slot:
    """What one mixer remembers in one loop; updated in place by the call that uses it.

    Attributes:
        conv: Inputs of the short convolution for the last `conv_width - 1` tokens, `[b c ch]`.
        state: Matrix state `[b h k v]`, at least float32.
        keys: Keys of the cached tokens `[b m g k]`.
        values: Values of the cached tokens `[b m g v]`.
        index_keys: Keys of the indexer for the cached tokens `[b m i]`.
        log_max: Stabiliser of a normalised recurrence after the last token `[b h]`.
    """

    conv: Tensor | None = None
    state: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None
    index_keys: Tensor | None = None
    log_max: Tensor | None = None

    def tensors(self) -> dict[str, Tensor]:
        """What is held, by name.

        Returns:
            The fields that are not None.
        """
        return {name: x for name, x in vars(self).items() if x is not None}

    def num_bytes(self) -> int:
        """Count what this slot holds.

        Returns:
            Bytes of its tensors.
        """
        return sum(x.numel() * x.element_size() for x in self.tensors().values())
