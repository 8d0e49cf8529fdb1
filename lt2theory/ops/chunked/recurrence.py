"""The linear recurrence by chunks: all work inside chunks at once, then a few products a chunk.

Let u_i be what step i adds to the state along its key. A chunk that starts from the state S has
`(I + diag(beta) A) u = diag(w) V - diag(beta) K_in S`, outputs `Q_in S + B u` and ends in
`e^{G_end} S + K_out^T u`, where A and B are products of keys with keys and of queries with keys,
decayed and causal: the WY form of DeltaNet (arXiv 2406.06484), with scalar decays (2412.06464) and
vector decays (2510.26692). The inverse of the unit triangular matrix makes u an affine map of S,
so only these small products run one chunk after the other.
"""

import math
from collections.abc import Iterable
from itertools import repeat

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops.chunked.scalar import scalar_terms
from lt2theory.ops.chunked.terms import Chunks, ChunkTerms, undecayed_terms
from lt2theory.ops.chunked.triangular import unit_lower_inverse
from lt2theory.ops.chunked.vector import vector_terms
from lt2theory.ops.factors import Factors
from lt2theory.ops.reference import reference_recurrence, state_dtype


def chunked_recurrence(
    factors: Factors,
    initial_state: Float[Tensor, "b h k v"] | None = None,
    *,
    chunk_tokens: int | None = None,
    min_log_decay: float = -math.inf,
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "b h k v"]]:
    """Run the recurrence by chunks; see `reference_recurrence` for its meaning.

    Any decay is safe, minus infinity and resets of -1000 included. Differentiable any number of
    times.

    Args:
        factors: The inputs of the recurrence.
        initial_state: The state before the first token, zero when None.
        chunk_tokens: Tokens a chunk, a power of two; None chooses.
        min_log_decay: A number that the caller knows no log decay to fall below. Decays a channel
            are faster with one (-5, say); the result is wrong where it does not hold.

    Returns:
        The outputs, in the dtype of `factors.v`, and the state after the last token.
    """
    if factors.v.numel() == 0:  # no tokens, rows, heads or values: there is nothing to cut
        return reference_recurrence(factors, initial_state)
    factors = _as_decay_first(factors)
    dtype = state_dtype(factors.v.dtype)
    length, width = factors.q.shape[1], factors.q.shape[-1]
    tokens = chunk_tokens or _choose_chunk(factors)
    chunks = _cut(factors, tokens, dtype)
    if chunks.log_decay is None:
        terms = undecayed_terms(chunks)
    elif chunks.log_decay.dim() == 2:
        terms = scalar_terms(chunks)
    else:
        terms = vector_terms(chunks, min_log_decay)
    scale = width**-0.5 if factors.scale is None else factors.scale
    output, state = _pass_states(chunks, terms, initial_state, scale)
    return output[:, :length].to(factors.v.dtype), state


def _as_decay_first(factors: Factors) -> Factors:
    """The same recurrence in decay-first order.

    Where decay and erase do not commute, a factor `D (I - beta k k^T)` followed by its write is
    an erasing factor without decay or write, then a decaying and writing one without erasure.

    Returns:
        The factors, twice as many a token in that case.
    """
    log_decay, beta = factors.log_decay, factors.beta
    vector = log_decay is not None and log_decay.dim() == factors.k.dim()
    if factors.order == "decay_first" or not vector or beta is None:
        return Factors(
            q=factors.q,
            k=factors.k,
            v=factors.v,
            log_decay=log_decay,
            beta=beta,
            write=factors.write,
            scale=factors.scale,
        )
    assert log_decay is not None
    write = beta if factors.write is None else factors.write

    def interleave(erase: Tensor, then: Tensor) -> Tensor:
        return torch.stack([erase, then], 3).flatten(2, 3)

    return Factors(
        q=factors.q,
        k=interleave(factors.k, factors.k),
        v=interleave(torch.zeros_like(factors.v), factors.v),
        log_decay=interleave(torch.zeros_like(log_decay), log_decay),
        beta=interleave(beta, torch.zeros_like(beta)),
        write=interleave(torch.zeros_like(write), write),
        scale=factors.scale,
    )


def _choose_chunk(factors: Factors) -> int:
    """Tokens a chunk: a power of two, at least 2.

    Short chunks save work inside a chunk, long ones save states. The numbers were the fastest on
    a CPU (`lt2theory.bench.ops.chunk_sizes`); elsewhere long chunks mean fewer launches.

    Returns:
        The number of tokens.
    """
    narrow = factors.k.shape[-1] <= (8 if factors.beta is None else 32)
    steps = 64 if factors.k.device.type != "cpu" else 16 if narrow else 32
    tokens = 2
    while tokens < factors.k.shape[1] and 2 * tokens * factors.num_factors <= steps:
        tokens *= 2
    return tokens


def _cut(factors: Factors, tokens: int, dtype: torch.dtype) -> Chunks:
    """Cut the inputs into chunks of whole tokens, padding the last with steps that do nothing."""
    write = factors.beta if factors.write is None else factors.write
    v = factors.v.to(dtype)
    if write is not None:
        v = v * write.to(dtype).unsqueeze(-1)
    log_decay = factors.log_decay
    if log_decay is not None:
        # exp is 0 beyond this in float64 too, and sums stay finite where alpha is exactly 0.
        log_decay = _cut_steps(log_decay.clamp(min=-1000.0), tokens, dtype)
    k = _cut_steps(factors.k, tokens, dtype)
    erasers = None
    if factors.beta is not None:
        erasers = k * -_cut_steps(factors.beta, tokens, dtype).unsqueeze(-1)
    return Chunks(
        q=_cut_steps(factors.q.unsqueeze(2), tokens, dtype),
        k=k,
        v=_cut_steps(v, tokens, dtype),
        log_decay=log_decay,
        erasers=erasers,
        batch=factors.q.shape[0],
        heads=factors.q.shape[2],
    )


def _cut_steps(x: Tensor, tokens: int, dtype: torch.dtype) -> Tensor:
    """`[b t f h ...]` to `[n c ...]`, n over (chunk, batch, head) and c over (token, factor)."""
    x = x.to(dtype)
    missing = -x.shape[1] % tokens
    if missing:
        x = F.pad(x, (0, 0) * (x.dim() - 2) + (0, missing))
    x = x.unflatten(1, (-1, tokens))
    x = x.permute(1, 0, 4, 2, 3, *range(5, x.dim()))
    return x.reshape(-1, x.shape[3] * x.shape[4], *x.shape[5:])


def _pass_states(
    chunks: Chunks, terms: ChunkTerms, state: Float[Tensor, "b h k v"] | None, scale: float
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "b h k v"]]:
    """Outputs of all chunks and the state after the last: the only sequential part."""
    pushed, read = _solve(chunks, terms)
    batch, heads, width = chunks.batch, chunks.heads, chunks.k.shape[-1]
    streams = batch * heads
    steps = zip(
        _per_chunk(pushed, streams),
        _per_chunk(read, streams),
        _per_chunk(terms.query_gram, streams),
        _per_chunk(terms.queries_in, streams),
        _per_chunk(terms.keys_out.mT, streams),
        _per_chunk(terms.total, streams),
        strict=False,
    )
    entering = None if state is None else state.flatten(0, 1)
    outputs = []
    for push, reads, query_gram, queries, writers, total in steps:
        assert push is not None
        assert query_gram is not None
        assert queries is not None
        assert writers is not None
        if entering is None:
            output, entering = query_gram @ push, writers @ push
        else:
            u = push if reads is None else torch.baddbmm(push, reads, entering)
            output = torch.baddbmm(query_gram @ u, queries, entering)
            kept = entering if total is None else entering * total
            entering = torch.baddbmm(kept, writers, u)
        outputs.append((output * scale).unflatten(0, (batch, heads)).transpose(1, 2))
    assert entering is not None
    return torch.cat(outputs, 1), entering.view(batch, heads, width, -1)


def _solve(chunks: Chunks, terms: ChunkTerms) -> tuple[Tensor, Tensor | None]:
    """What every step writes if the chunk starts from zero, and what a state adds to that."""
    if terms.eraser_gram is None or terms.erasers_in is None:
        return chunks.v, None
    inverse = unit_lower_inverse(terms.eraser_gram)
    return inverse @ chunks.v, inverse @ terms.erasers_in


def _per_chunk(x: Tensor | None, streams: int) -> Iterable[Tensor | None]:
    """Views of every chunk, or as many times None as are asked for."""
    return repeat(None) if x is None else x.unflatten(0, (-1, streams)).unbind(0)
