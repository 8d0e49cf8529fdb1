"""The linear recurrence by chunks: all work inside chunks at once, then one product a chunk.

With u_i what step i adds to the state along its key, a chunk that starts from state S has
`(I + diag(beta) A) u = w v - diag(beta) K_in S` (A is the decayed Gram matrix of the keys below
its diagonal), `o = Q_in S + B u` and `S' = e^{G_end} S + K_out^T u` (the WY form of DeltaNet,
arXiv 2406.06484; with decays, arXiv 2412.06464 and 2510.26692). The inverse T of the unit
triangular matrix turns these into affine maps of S, so the pass over chunks is a chain of
`S' = M S + N` with everything else done for all chunks together.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops.chunk_terms import Chunks, ChunkTerms, undecayed_terms
from lt2theory.ops.chunked_scalar import scalar_terms
from lt2theory.ops.chunked_vector import vector_terms
from lt2theory.ops.factors import Factors
from lt2theory.ops.reference import state_dtype
from lt2theory.ops.triangular import unit_lower_inverse

# Factor steps a chunk aims at; chosen by lt2theory.bench.ops.
_CHUNK_STEPS = 32


def chunked_recurrence(
    factors: Factors,
    initial_state: Float[Tensor, "b h k v"] | None = None,
    *,
    chunk_tokens: int | None = None,
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "b h k v"]]:
    """Run the recurrence by chunks; see `reference_recurrence` for its meaning.

    Any decay is safe, minus infinity and resets of -1000 included. Differentiable any number of
    times.

    Args:
        factors: The inputs of the recurrence.
        initial_state: The state before the first token, zero when None.
        chunk_tokens: Tokens a chunk, a power of two; None chooses.

    Returns:
        The outputs, in the dtype of `factors.v`, and the state after the last token.
    """
    factors = _as_decay_first(factors)
    dtype = state_dtype(factors.v.dtype)
    batch, length, heads, width = factors.q.shape
    value_width = factors.v.shape[-1]
    if length == 0:
        state = initial_state
        if state is None:
            state = factors.v.new_zeros(batch, heads, width, value_width, dtype=dtype)
        return factors.v.new_zeros(batch, 0, heads, value_width), state
    tokens = chunk_tokens or _choose_chunk(length, factors.num_factors)
    chunks = _cut(factors, tokens, dtype)
    if chunks.log_decay is None:
        terms = undecayed_terms(chunks)
    elif chunks.log_decay.dim() == 2:
        terms = scalar_terms(chunks)
    else:
        terms = vector_terms(chunks)
    start = None if initial_state is None else initial_state.flatten(0, 1)
    output, state = _pass_states(chunks, terms, start, batch * heads)
    output = output.view(-1, batch, heads, tokens, value_width).permute(1, 0, 3, 2, 4)
    output = output.flatten(1, 2)[:, :length]
    return output.to(factors.v.dtype), state.view(batch, heads, width, value_width)


def _as_decay_first(factors: Factors) -> Factors:
    """The same recurrence in decay-first order.

    Where decay and erase do not commute, a factor `D (I - beta k k^T)` followed by its write is
    an erasing factor without decay or write, then a decaying and writing one without erasure.
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


def _choose_chunk(length: int, num_factors: int) -> int:
    """Tokens a chunk: a power of two, about `_CHUNK_STEPS` factor steps."""
    tokens = 1
    while tokens < length and 2 * tokens * num_factors <= _CHUNK_STEPS:
        tokens *= 2
    return tokens


def _cut(factors: Factors, tokens: int, dtype: torch.dtype) -> Chunks:
    """Cut the inputs into chunks of whole tokens, padding the last with steps that do nothing."""
    width = factors.k.shape[-1]
    scale = width**-0.5 if factors.scale is None else factors.scale
    write = factors.beta if factors.write is None else factors.write
    v = factors.v.to(dtype)
    if write is not None:
        v = v * write.to(dtype).unsqueeze(-1)
    log_decay = factors.log_decay
    if log_decay is not None:
        # exp is 0 beyond this in float64 too, and sums stay finite where alpha is exactly 0.
        log_decay = _cut_steps(log_decay.clamp(min=-1000.0), tokens, dtype)
    return Chunks(
        q=_cut_steps((factors.q.to(dtype) * scale).unsqueeze(2), tokens, dtype),
        k=_cut_steps(factors.k, tokens, dtype),
        v=_cut_steps(v, tokens, dtype),
        log_decay=log_decay,
        beta=None if factors.beta is None else _cut_steps(factors.beta, tokens, dtype),
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
    chunks: Chunks,
    terms: ChunkTerms,
    start: Float[Tensor, "s k v"] | None,
    num_streams: int,
) -> tuple[Float[Tensor, "n t v"], Float[Tensor, "s k v"]]:
    """Outputs of all chunks and the state after the last, for s streams (batch and head)."""
    readers = torch.cat([terms.query_gram, terms.keys_out.mT], 1)
    tokens = chunks.q.shape[1]
    if chunks.beta is None:
        written = readers @ chunks.v
        from_state, transition = terms.queries_in, None
    else:
        inverse = unit_lower_inverse(terms.key_gram * chunks.beta.unsqueeze(-1))
        sources = torch.cat([chunks.v, terms.keys_in * chunks.beta.unsqueeze(-1)], -1)
        solved = readers @ (inverse @ sources)
        written, erased = solved.split([chunks.v.shape[-1], chunks.k.shape[-1]], -1)
        from_state = terms.queries_in - erased[:, :tokens]
        transition = _diagonal(terms.total, erased) - erased[:, tokens:]
    outputs, added = written[:, :tokens], written[:, tokens:]
    states = _chain(terms.total, transition, added.unflatten(0, (-1, num_streams)), start)
    entering = torch.cat(states[:-1])
    return torch.baddbmm(outputs, from_state, entering), states[-1]


def _diagonal(total: Tensor | None, like: Tensor) -> Tensor:
    """`diag(total)` as a matrix a chunk."""
    eye = torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
    return eye if total is None else eye * total


def _chain(
    total: Tensor | None,
    transition: Float[Tensor, "n k k"] | None,
    added: Float[Tensor, "i s k v"],
    start: Float[Tensor, "s k v"] | None,
) -> list[Tensor]:
    """The states before every chunk and after the last: the only sequential part."""
    count, streams = added.shape[:2]
    state = torch.zeros_like(added[0]) if start is None else start
    states = [state]
    totals = None if total is None else total.unflatten(0, (count, streams)).unbind(0)
    maps = None if transition is None else transition.unflatten(0, (count, streams)).unbind(0)
    for index, new in enumerate(added.unbind(0)):
        if maps is not None:
            state = torch.baddbmm(new, maps[index], state)
        elif totals is not None:
            state = torch.addcmul(new, totals[index], state)
        else:
            state = state + new
        states.append(state)
    return states
