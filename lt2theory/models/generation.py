"""Generation: the prompt in pieces, then a token a row at a time."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from lt2theory.models.arguments import check_tensor, check_whole
from lt2theory.models.cache import LoopCache
from lt2theory.models.leaving import LeavingReader
from lt2theory.models.looped import LoopedModel
from lt2theory.models.reading import WORTH, BufferedReader, CachedReader, Reader, Reading
from lt2theory.models.sampling import Sampling


@dataclass(frozen=True)
class Generation:
    """What was generated.

    Attributes:
        tokens: New tokens `[b n]`, without the prompt; n is at most `max_new_tokens`, and less
            only where every row met a stop id before. A row repeats its stop id to the end.
        lengths: Tokens of each row up to and including its first stop id `[b]`.
        exits: Loop after which the logits of each token were read `[b n]`, from 0; None where all
            were read after the last.
    """

    tokens: Int[Tensor, "b n"]
    lengths: Int[Tensor, " b"]
    exits: Int[Tensor, "b n"] | None = None


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
    reading: Reading | None = None,
) -> Generation:
    """Continue a prompt token by token; greedily, or as `sampling` says.

    Greedy generation chooses what repeated parallel calls on the growing sequence would choose,
    up to rounding. Another number of loops: `generate(at_depth(model, num_loops), ...)`.

    Args:
        model: The model.
        prompt: Token ids `[b t]`, t >= 1.
        max_new_tokens: Most tokens to generate in a row, at least 0.
        lengths: Real tokens of each row `[b]`, padded on the left, as for `LoopedModel.forward`.
        sampling: How to draw; None takes the largest logit.
        stop_ids: Tokens that end a row.
        cache: Continue what this cache has seen, with `prompt` as its next tokens; updated in
            place. It has seen all but the last of the new tokens afterwards. None: a new one.
        reading: How tokens are read; None as `Reading()` says.

    Returns:
        The new tokens and how many of them each row has.

    Raises:
        ValueError: An argument is out of range or contradicts another, the model has no exit gate
            for a threshold, or `forward` refuses the prompt.
    """
    _check(model, prompt, max_new_tokens, stop_ids)
    reader = _reader(model, prompt, max_new_tokens, cache, reading or Reading())
    stops = torch.tensor(sorted(set(stop_ids)), dtype=torch.int64, device=prompt.device)
    ended = torch.zeros_like(prompt[:, 0], dtype=torch.bool)
    count = torch.zeros_like(ended, dtype=torch.int64)
    new: list[Tensor] = []
    exits: list[Tensor] = []
    while len(new) < max_new_tokens and not (len(stops) and bool(ended.all())):
        logits = reader.step(new[-1]) if new else reader.begin(prompt, lengths)
        chosen = logits.argmax(-1) if sampling is None else sampling.draw(logits)
        if new:
            chosen = torch.where(ended, new[-1], chosen)
        if reader.exits is not None:
            exits.append(reader.exits)
        new.append(chosen)
        count += ~ended
        ended = ended | torch.isin(chosen, stops)
    tokens = torch.stack(new, 1) if new else prompt.new_empty((len(prompt), 0), dtype=torch.int64)
    return Generation(tokens, count, torch.stack(exits, 1) if exits else None)


def _reader(
    model: LoopedModel,
    prompt: Tensor,
    max_new_tokens: int,
    cache: LoopCache | None,
    reading: Reading,
) -> Reader:
    """What reads the tokens; refuses fixed buffers where a cache is to be continued."""
    if reading.fast and cache is not None:
        raise ValueError("fast: True is not allowed with cache=, which would not see the tokens")
    whole = cache is None and reading.exit_threshold is None
    on_gpu = prompt.is_cuda and not torch.is_autocast_enabled("cuda")
    fits = on_gpu and whole and max_new_tokens >= WORTH
    if reading.fast or (reading.fast is None and fits):
        return BufferedReader(model, reading.chunk, steps=max_new_tokens)
    cache = model.new_cache(prompt.shape[0]) if cache is None else cache
    if reading.exit_threshold is not None:
        return LeavingReader(model, cache, reading.exit_threshold, reading.chunk)
    return CachedReader(model, cache, reading.chunk)


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
