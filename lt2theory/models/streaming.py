"""From tokens, lengths and documents to a `Stream`, and on to the next call through the cache."""

import itertools

import torch
from jaxtyping import Int
from torch import Tensor

from lt2theory.mixers import Stream
from lt2theory.models.arguments import check_integers
from lt2theory.models.cache import LoopCache
from lt2theory.models.config import LoopedConfig
from lt2theory.models.snapshots import is_cuttable


def document_ids(
    tokens: Int[Tensor, "b t"],
    cache: LoopCache | None,
    lengths: Tensor | None,
    documents: Tensor | None,
) -> Int[Tensor, "b t"] | None:
    """One document id a token, whichever way the caller told it.

    Args:
        tokens: Token ids.
        cache: What came before, or None.
        lengths: Real tokens a row, padded on the left; only for the first call of a stream.
        documents: Document of each token; a run of equal ids is one document, a negative id
            is padding.

    Returns:
        `[b t]`, -1 for padding, or None for one unbroken stream.

    Raises:
        ValueError: The arguments contradict each other, the cache, or the tokens.
    """
    begun = cache is not None and cache.length > 0
    carried = None if cache is None or cache.documents is None else cache.documents[:, -1:]
    if lengths is not None and documents is not None:
        raise ValueError("lengths: give lengths or documents, not both")
    if lengths is not None:
        if begun:
            raise ValueError("lengths: only the first call of a cached stream may be padded")
        return _from_lengths(tokens, lengths)
    if documents is not None:
        check_integers("documents", documents)
        if documents.shape != tokens.shape:
            raise ValueError(
                f"documents: shape {tuple(documents.shape)} must be that of the tokens, "
                f"{tuple(tokens.shape)}"
            )
        if begun and carried is None:
            raise ValueError("documents: the cached stream began without documents")
        # One id for all padding, so that changing it begins nothing.
        return documents.to(tokens.device, torch.int64).clamp(min=-1)
    if carried is None:
        return None
    if bool((carried < 0).any()):
        raise ValueError("documents: a cached row ends in padding; say which document goes on")
    return carried.expand(tokens.shape)


def _from_lengths(tokens: Int[Tensor, "b t"], lengths: Tensor) -> Int[Tensor, "b t"]:
    """Document 0 for the last `lengths` tokens of each row, -1 before them."""
    batch, length = tokens.shape
    check_integers("lengths", lengths)
    if lengths.shape != (batch,):
        raise ValueError(f"lengths: shape {tuple(lengths.shape)} must be ({batch},)")
    if bool((lengths < 1).any()) or bool((lengths > length).any()):
        raise ValueError(f"lengths: {lengths.tolist()} must lie in 1..{length}")
    index = torch.arange(length, device=tokens.device)
    padding = index.unsqueeze(0) < (length - lengths.to(tokens.device)).unsqueeze(1)
    return -padding.to(torch.int64)


def open_stream(
    tokens: Int[Tensor, "b t"], documents: Int[Tensor, "b t"] | None, cache: LoopCache | None
) -> Stream:
    """Positions and segments of the tokens of one call.

    Args:
        tokens: Token ids.
        documents: What `document_ids` gave.
        cache: What came before, or None.

    Returns:
        The stream; positions count from 0 within each segment and go on from the cache.
    """
    batch, length = tokens.shape
    index = torch.arange(length, device=tokens.device).expand(batch, length)
    if documents is None:
        return Stream(index if cache is None else index + cache.length)
    past = tokens.new_empty((batch, 0))
    first = torch.ones_like(documents[:, :1], dtype=torch.bool)
    begun, offset = tokens.new_zeros(batch, 1), tokens.new_zeros(batch, 1)
    if cache is not None and cache.documents is not None:
        assert cache.segments is not None
        assert cache.num_segments is not None
        assert cache.next_position is not None
        past = cache.segments
        first = documents[:, :1] != cache.documents[:, -1:]
        begun = cache.num_segments.unsqueeze(1)
        offset = cache.next_position.unsqueeze(1)
    starts = torch.cat([first, documents[:, 1:] != documents[:, :-1]], 1)
    runs = begun + starts.cumsum(1) - 1
    origin = torch.where(starts, index, -offset).cummax(1).values
    padding = documents < 0
    return Stream(
        positions=torch.where(padding, 0, index - origin),
        segments=torch.where(padding, -1, runs),
        past_segments=past,
    )


def pieces_of_call(length: int, cache: LoopCache | None) -> list[tuple[int, int]]:
    """Cut a call where the cache takes its snapshots; the pieces give the same logits (claim L5).

    Args:
        length: Tokens of the call.
        cache: What came before, or None.

    Returns:
        Start and stop of each piece, in order; one piece without snapshots or tokens.
    """
    if cache is None or cache.snapshot_every is None or length == 0:
        return [(0, length)]
    every = cache.snapshot_every
    bounds = [0, *range(every - cache.length % every, length, every), length]
    return list(itertools.pairwise(bounds))


def close_stream(stream: Stream, documents: Int[Tensor, "b t"] | None, cache: LoopCache) -> None:
    """Advance the cache's bookkeeping past the tokens of one call.

    Args:
        stream: What `open_stream` gave.
        documents: What `document_ids` gave.
        cache: The cache to advance.
    """
    batch, length = stream.positions.shape
    cache.length += length
    if documents is None or length == 0:
        return
    assert stream.segments is not None
    assert stream.past_segments is not None
    starts = stream.starts()
    assert starts is not None
    begun = starts.new_zeros(batch) if cache.num_segments is None else cache.num_segments
    cache.num_segments = begun + starts.sum(1)
    cache.next_position = stream.positions[:, -1] + 1
    kept = look_back(cache.config) if cache.snapshot_every is None else None
    cache.segments = _last(stream.past_segments, stream.segments, kept)
    cache.documents = _last(cache.documents, documents, kept)


def _last(past: Tensor | None, new: Tensor, kept: int | None) -> Tensor:
    """The past and the new entries `[b t]`, or as many of the last as are kept."""
    known = new if past is None else torch.cat([past, new], 1)
    return known[:, 0 if kept is None else -kept :].clone()


def look_back(config: LoopedConfig) -> int | None:
    """How many cached tokens the next one may need to know the segment of.

    Args:
        config: The model's config.

    Returns:
        A number of tokens, or None where a layer sees the whole past.
    """
    specs = dict.fromkeys(spec for loop in config.loops for spec in loop)
    if any(map(is_cuttable, specs)):
        return None
    windows = [config.mixer_options(spec).window or 1 for spec in specs]
    return max(1, config.conv_width - 1, *(window - 1 for window in windows))
