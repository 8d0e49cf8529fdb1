"""Generation: the prompt in pieces, then one forward call a token, through the cache."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.mixers.base import at_least_float32
from lt2theory.models.arguments import check_tensor, check_whole
from lt2theory.models.cache import LoopCache
from lt2theory.models.looped import LoopedModel
from lt2theory.models.streaming import document_ids


@dataclass(frozen=True)
class Generation:
    """What was generated.

    Attributes:
        tokens: New tokens `[b n]`, without the prompt; n is at most `max_new_tokens`, and less
            only where every row met a stop id before. A row repeats its stop id to the end.
        lengths: Tokens of each row up to and including its first stop id `[b]`.
    """

    tokens: Int[Tensor, "b n"]
    lengths: Int[Tensor, " b"]


@dataclass(frozen=True)
class Sampling:
    """Draw each token from `softmax(logits / temperature)`, in at least float32.

    One draw a row and token, also in rows that have ended, all from one generator.

    Attributes:
        generator: Source of randomness, on the model's device.
        temperature: Finite and positive; towards 0 the choice becomes greedy.
        top_k: Only so many of the largest logits may be drawn (all, where the vocabulary is
            smaller); None for all.

    Raises:
        ValueError: `temperature` or `top_k` is out of range.
    """

    generator: torch.Generator
    temperature: float | int = 1.0
    top_k: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature: {self.temperature} must be finite and > 0")
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
    _check_chunk(chunk)
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


@torch.no_grad()
def generate(
    model: LoopedModel,
    prompt: Tensor,
    max_new_tokens: int,
    *,
    lengths: Tensor | None = None,
    sampling: Sampling | None = None,
    stop_ids: Collection[int] = (),
    cache: LoopCache | None = None,
    chunk: int | None = None,
) -> Generation:
    """Continue a prompt token by token; greedily, or as `sampling` says.

    Greedy generation chooses what repeated parallel calls on the growing sequence would choose,
    up to rounding.

    Args:
        model: The model.
        prompt: Token ids `[b t]`, t >= 1.
        max_new_tokens: Most tokens to generate in a row, at least 0.
        lengths: Real tokens of each row `[b]`, padded on the left, as for `LoopedModel.forward`.
        sampling: How to draw; None takes the largest logit.
        stop_ids: Tokens that end a row.
        cache: Continue what this cache has seen, with `prompt` as its next tokens; updated in
            place. It has seen all but the last of the new tokens afterwards. None: a new one.
        chunk: As for `prefill`.

    Returns:
        The new tokens and how many of them each row has.

    Raises:
        ValueError: An argument is out of range, or `forward` refuses the prompt.
    """
    _check(model, prompt, max_new_tokens, stop_ids)
    _check_chunk(chunk)
    if cache is None:
        cache = model.new_cache(prompt.shape[0])
    stops = torch.tensor(sorted(set(stop_ids)), dtype=torch.int64, device=prompt.device)
    ended = torch.zeros_like(prompt[:, 0], dtype=torch.bool)
    count = torch.zeros_like(ended, dtype=torch.int64)
    new: list[Tensor] = []
    while len(new) < max_new_tokens and not (len(stops) and bool(ended.all())):
        if new:
            logits = model(new[-1].unsqueeze(1), cache, last_logits=1)[:, 0]
        else:
            logits = prefill(model, prompt, cache, lengths=lengths, chunk=chunk)
        chosen = logits.argmax(-1) if sampling is None else sampling.draw(logits)
        if new:
            chosen = torch.where(ended, new[-1], chosen)
        new.append(chosen)
        count += ~ended
        ended = ended | torch.isin(chosen, stops)
    tokens = torch.stack(new, 1) if new else prompt.new_empty((len(prompt), 0), dtype=torch.int64)
    return Generation(tokens, count)


def _check_chunk(chunk: int | None) -> None:
    if chunk is None:
        return
    check_whole("chunk", chunk)
    if chunk < 1:
        raise ValueError(f"chunk: {chunk} must be >= 1 or None")


def _check(
    model: LoopedModel, prompt: Tensor, max_new_tokens: int, stop_ids: Collection[int]
) -> None:
    """Refuse what `forward` would not."""
    vocab = model.config.vocab_size
    check_tensor("prompt", prompt)
    check_whole("max_new_tokens", max_new_tokens)
    if prompt.dim() != 2 or prompt.shape[1] == 0:
        raise ValueError(
            f"prompt: shape {tuple(prompt.shape)} must be [batch, length] with length >= 1"
        )
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens: {max_new_tokens} must be >= 0")
    for stop in stop_ids:
        check_whole("stop_ids", stop)
        if not 0 <= stop < vocab:
            raise ValueError(f"stop_ids: {stop} is outside the vocabulary 0..{vocab - 1}")
