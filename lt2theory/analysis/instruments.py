"""What stability is measured by: definitions on tensors, for analyses and during training alike."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lt2theory.mixers.base import at_least_float32
from lt2theory.ops import run_attention
from lt2theory.ops.factors import AttentionInputs

BETA_EDGES = tuple(round(0.1 * step, 1) for step in range(21))
"""Bins of the erase strength; beta lies in (0, 2)."""
ALPHA_EDGES = (
    *(round(0.1 * step, 1) for step in range(10)),
    *(0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0),
)
"""Bins of the decay, finer towards 1, where the memory of a state is decided."""


def token_rms(h: Float[Tensor, "*rest d"]) -> Float[Tensor, "*rest"]:
    """Root mean square over the width, in at least float32.

    Args:
        h: Residual stream.

    Returns:
        One number a token.
    """
    return at_least_float32(h).square().mean(-1).sqrt()


def massive(h: Float[Tensor, "*rest d"]) -> Float[Tensor, ""]:
    """Largest absolute entry over the root mean square of all (Sun et al., arXiv 2402.17762).

    Args:
        h: Residual stream.

    Returns:
        The quotient, at least 1; NaN where all entries are 0.
    """
    wide = at_least_float32(h)
    return wide.abs().amax() / wide.square().mean().sqrt()


def first_token_share(
    inputs: AttentionInputs,
    starts: Bool[Tensor, "b t"],
    *,
    segments: Int[Tensor, "b t"] | None = None,
    backend: str = "auto",
) -> Float[Tensor, "b t h"]:
    """Share of every query's attention weights that falls on the first token of its segment.

    The op itself says it: values that are 1 at first tokens and 0 elsewhere are read as that
    share, so that nothing of size queries times keys is held where the op holds nothing of it,
    and windows, chosen blocks and chosen keys count as they ran.

    Args:
        inputs: What an attention layer prepared, without cached keys. Of native sparse attention
            the branches count with their gates, and the share is of the sum of all weights.
        starts: Which tokens are the first of their segment.
        segments: Segment of every token; None for one unbroken stream.
        backend: Backend of the attention.

    Returns:
        Shares in [0, 1], in the dtype of the queries; 0 where a query reads nothing.
    """
    batch, length, groups, width = inputs.v.shape
    # Channel 0 reads the first tokens, the others all weights.
    values = inputs.v.new_ones(batch, length, groups, max(2, width))
    values[..., 0] = starts[..., None]
    read = run_attention(
        replace(inputs, v=values),
        query_segments=segments,
        key_segments=segments,
        backend=backend,
    )
    first, total = read[..., 0], read[..., 1]
    return torch.where(total == 0, 0, first / torch.where(total == 0, 1, total))


def key_coherence(
    keys: Float[Tensor, "*rest n k"],
) -> tuple[Float[Tensor, "*rest"], Float[Tensor, "*rest"]]:
    """Largest and mean |cosine| between two different keys of a group, such as one a loop.

    Args:
        keys: The n keys of every group.

    Returns:
        Both; NaN where a group has one key.
    """
    unit = torch.nn.functional.normalize(keys, dim=-1, eps=torch.finfo(keys.dtype).tiny)
    cosines = (unit @ unit.mT).abs()
    count = keys.shape[-2]
    row, column = torch.triu_indices(count, count, offset=1, device=keys.device)
    pairs = cosines[..., row, column].clamp(max=1)
    if pairs.shape[-1] == 0:
        nothing = keys.new_full(keys.shape[:-2], torch.nan)
        return nothing, nothing
    return pairs.amax(-1), pairs.mean(-1)


def counts_in_bins(x: Tensor, edges: tuple[float, ...]) -> Int[Tensor, " bins"]:
    """How many entries fall into each bin; a bin has its lower edge, the last one both.

    Args:
        x: Numbers of any shape.
        edges: Edges of the bins, rising; what lies outside counts in the outermost bins.

    Returns:
        Counts.
    """
    inner = torch.tensor(edges[1:-1], dtype=x.dtype, device=x.device)
    places = torch.bucketize(x.flatten(), inner, right=True)
    return torch.bincount(places, minlength=len(edges) - 1)
