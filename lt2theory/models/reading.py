"""What generation reads tokens with: the growing cache, or buffers of fixed size."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from lt2theory.models.arguments import check_whole
from lt2theory.models.cache import LoopCache
from lt2theory.models.decoder import Decoder
from lt2theory.models.exits import check_threshold
from lt2theory.models.looped import LoopedModel
from lt2theory.models.streaming import document_ids

WORTH = 16
"""New tokens from which fixed buffers and the recording of a CUDA graph pay."""


@dataclass(frozen=True)
class Reading:
    """How generation reads.

    Attributes:
        chunk: Most tokens of a row of the prompt in one call; None reads it at once.
        fast: Whether new tokens go through a `Decoder`: buffers of fixed size, and on a GPU one
            CUDA graph a step. None does so on a GPU outside autocast, for at least `WORTH` tokens,
            where no cache was given and all loops are run.
        exit_threshold: Leave the loop as the exit gate says, where this share of its probability
            lies behind a token (`lt2theory.models.leaving`); None runs and reads all loops.

    Raises:
        ValueError: A field is out of range, or fixed buffers are wanted where tokens may leave.
    """

    chunk: int | None = None
    fast: bool | None = None
    exit_threshold: float | None = None

    def __post_init__(self) -> None:
        if self.chunk is not None:
            check_whole("chunk", self.chunk)
            if self.chunk < 1:
                raise ValueError(f"chunk: {self.chunk} must be >= 1 or None")
        if self.exit_threshold is None:
            return
        check_threshold("exit_threshold", self.exit_threshold)
        if self.fast:
            raise ValueError("fast: True is not allowed with exit_threshold (allowed: None, False)")


class Reader(ABC):
    """Gives the logits of the next token after what it has read.

    Attributes:
        exits: Loop after which the logits of the last call were read `[b]`; None for the last.
    """

    exits: Int[Tensor, " b"] | None = None

    @abstractmethod
    def begin(self, prompt: Tensor, lengths: Tensor | None) -> Float[Tensor, "b vocab"]:
        """Read a prompt.

        Args:
            prompt: Token ids `[b t]`.
            lengths: Real tokens of each row `[b]`, padded on the left; None for all.

        Returns:
            The logits after it.
        """

    @abstractmethod
    def step(self, tokens: Tensor) -> Float[Tensor, "b vocab"]:
        """Read one more token a row.

        Args:
            tokens: Token ids `[b]`.

        Returns:
            The logits after them, until the next call.
        """


class CachedReader(Reader):
    """One call of the model a token, through a growing cache.

    Args:
        model: The model.
        cache: Updated in place.
        chunk: As for `prefill`.
    """

    def __init__(self, model: LoopedModel, cache: LoopCache, chunk: int | None) -> None:
        self.model = model
        self.cache = cache
        self.chunk = chunk

    @override
    def begin(self, prompt: Tensor, lengths: Tensor | None) -> Float[Tensor, "b vocab"]:
        return prefill(self.model, prompt, self.cache, lengths=lengths, chunk=self.chunk)

    @override
    def step(self, tokens: Tensor) -> Float[Tensor, "b vocab"]:
        logits: Tensor = self.model(tokens.unsqueeze(1), self.cache, last_logits=1)
        return logits[:, 0]


class BufferedReader(Reader):
    """The prompt through a cache of its own, then every step through a `Decoder`.

    Args:
        model: The model.
        chunk: As for `prefill`.
        steps: Most steps that are taken.
    """

    def __init__(self, model: LoopedModel, chunk: int | None, *, steps: int) -> None:
        self.model = model
        self._chunk = chunk
        self._steps = steps
        self._cache: LoopCache | None = None
        self._decoder: Decoder | None = None

    @override
    def begin(self, prompt: Tensor, lengths: Tensor | None) -> Float[Tensor, "b vocab"]:
        self._cache, self._decoder = self.model.new_cache(len(prompt)), None
        return prefill(self.model, prompt, self._cache, lengths=lengths, chunk=self._chunk)

    @override
    def step(self, tokens: Tensor) -> Float[Tensor, "b vocab"]:
        if self._decoder is None:
            assert self._cache is not None, "a prompt comes first"
            capacity = self._cache.length + self._steps
            limit = self.model.config.max_length
            capacity = capacity if limit is None else min(capacity, limit)
            self._decoder = Decoder(self.model, self._cache, capacity=capacity)
            self._cache = None  # it was copied
        return self._decoder.step(tokens)


@torch.no_grad()
def prefill(
    model: LoopedModel,
    prompt: Tensor,
    cache: LoopCache,
    *,
    lengths: Tensor | None = None,
    chunk: int | None = None,
) -> Float[Tensor, "b vocab"]:
    """Read a prompt into a cache and give the logits of the next token.

    In pieces it gives the same logits (claim L5), and what one call needs beside the cache does
    not grow with the prompt.

    Args:
        model: The model.
        prompt: Token ids `[b t]`, t >= 1.
        cache: Updated in place. If a call fails, it has seen the pieces before.
        lengths: Real tokens of each row `[b]`, padded on the left, as for `LoopedModel.forward`.
        chunk: Most tokens of a row in one call; None reads the whole prompt at once.

    Returns:
        Logits after the last token.

    Raises:
        ValueError: `chunk` is below 1 or no whole number, or `forward` refuses the prompt.
    """
    Reading(chunk)
    length = prompt.shape[1]
    if chunk is None or chunk >= length:
        whole: Tensor = model(prompt, cache, lengths=lengths, last_logits=1)
        return whole[:, 0]
    # Padding may fill a piece, and only the first call of a stream may say `lengths`.
    padding = None if lengths is None else document_ids(prompt, cache, lengths, None)
    for start in range(0, length, chunk):
        piece = slice(start, min(start + chunk, length))
        own = None if padding is None else padding[:, piece]
        last = int(piece.stop == length)
        logits: Tensor = model(prompt[:, piece], cache, documents=own, last_logits=last)
    return logits[:, 0]
