"""The algorithm of the delta-rule kernels for one stream, in plain torch: values and gradients.

What the kernels do, line by line, without tiles, batches and heads: `forward` keeps the states at
the starts of chunks and the inverses, `backward` walks the chunks in reverse and recomputes the
rest. Autograd of the token-by-token reference is what it is tested against.

Axes: s factor steps, c steps of a chunk, k key width, v value width. Notation: G is the sum of the
log decays from the start of a chunk, `between` is `e^{G_i - G_j}` for j at most i, `start`
`e^{G_i}`, `end` `e^{G_last - G_i}`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

LEAST = -87.0  # log decays below it are decays of exactly 0


@dataclass
class Stream:
    """One stream of factor steps; `q [s k]` is zero where nothing is read."""

    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor
    beta: Tensor
    write: Tensor

    def chunk(self, start: int, size: int) -> "Stream":
        return Stream(*(x[start : start + size] for x in vars(self).values()))


@dataclass
class Decays:
    between: Tensor
    start: Tensor
    end: Tensor
    total: Tensor
    kept: Tensor

    @classmethod
    def of(cls, log_decay: Tensor) -> "Decays":
        gone = log_decay < LEAST
        summed, cuts = torch.where(gone, 0.0, log_decay).cumsum(0), gone.cumsum(0)
        i = torch.arange(len(log_decay))
        met = (i[:, None] >= i) & (cuts[:, None] == cuts)
        apart = (summed[:, None] - summed).masked_fill(~met, -torch.inf)
        last = cuts[-1]
        return cls(
            apart.exp(),
            summed.exp() * (cuts == 0),
            (summed[-1] - summed).exp() * (cuts == last),
            summed[-1].exp() * (last == 0),
            ~gone,
        )


def unit_lower_inverse(below: Tensor) -> Tensor:
    """The inverse of I + below, a block size after the other: `X - X L X` is exact at each."""
    size = len(below)
    i = torch.arange(size)
    inverse, block = torch.eye(size, dtype=below.dtype), 1
    while block < size:
        corner = (i[:, None] // (2 * block) == i // (2 * block)) & (
            i[:, None] // block > i // block
        )
        inverse = inverse - inverse @ (below * corner) @ inverse
        block *= 2
    return inverse


def forward(
    x: Stream, state: Tensor, size: int
) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    outputs, states, inverses = [], [], []
    for start in range(0, len(x.k), size):
        c = x.chunk(start, size)
        d = Decays.of(c.log_decay)
        inverse = unit_lower_inverse(c.beta[:, None] * (d.between * (c.k @ c.k.T)).tril(-1))
        states.append(state)
        inverses.append(inverse)
        erased = (c.beta * d.start)[:, None] * (c.k @ state)
        u = inverse @ (c.write[:, None] * c.v - erased)
        outputs.append(d.start[:, None] * (c.q @ state) + (d.between * (c.q @ c.k.T)) @ u)
        state = d.total * state + (d.end[:, None] * c.k).T @ u
    return torch.cat(outputs), state, states, inverses


def backward(
    x: Stream,
    states: list[Tensor],
    inverses: list[Tensor],
    grad_output: Tensor,
    grad_state: Tensor,
    size: int,
) -> tuple[Stream, Tensor]:
    """Gradients of a stream's fields and of its initial state."""
    found = []
    for n in reversed(range(len(states))):
        c, do = x.chunk(n * size, size), grad_output[n * size : (n + 1) * size]
        grads, grad_state = _chunk_backward(c, states[n], inverses[n], do, grad_state)
        found.append(vars(grads))
    joined = {name: torch.cat([part[name] for part in reversed(found)]) for name in vars(x)}
    return Stream(**joined), grad_state


def _chunk_backward(
    c: Stream, state: Tensor, inverse: Tensor, do: Tensor, ds: Tensor
) -> tuple[Stream, Tensor]:
    d = Decays.of(c.log_decay)
    query_gram, gram = d.between * (c.q @ c.k.T), (d.between * (c.k @ c.k.T)).tril(-1)
    erase = (c.beta * d.start)[:, None]
    held = c.k @ state
    u = inverse @ (c.write[:, None] * c.v - erase * held)
    # u is written into the state and read inside the chunk; R = M u has the inverse's transpose.
    pushed = d.end[:, None] * (c.k @ ds)
    dr = inverse.T @ (query_gram.T @ do + pushed)
    d_query_gram = (do @ u.T).tril()
    d_erase_gram = -(dr @ u.T).tril(-1)
    dp = d_query_gram * d.between
    dh = c.beta[:, None] * d_erase_gram * d.between
    read = d.start[:, None] * (do @ state.T)
    erased = (dr * held).sum(1)
    dw = (dr * c.v).sum(1)
    pairs = d_query_gram * query_gram + c.beta[:, None] * d_erase_gram * gram
    # What decays up to step i, from a step j on, and from one end of the chunk to the other.
    until = pairs.sum(1) - pairs.sum(0) + (c.q * read).sum(1) - erase[:, 0] * erased
    since = (u * pushed).sum(1)
    through = (
        until.flip(0).cumsum(0).flip(0) + since.cumsum(0) - since + d.total * (ds * state).sum()
    )
    grads = Stream(
        q=read + dp @ c.k,
        k=dp.T @ c.q + (dh + dh.T) @ c.k - erase * (dr @ state.T) + d.end[:, None] * (u @ ds.T),
        v=c.write[:, None] * dr,
        log_decay=torch.where(d.kept, through, 0.0),
        beta=(d_erase_gram * gram).sum(1) - d.start * erased,
        write=dw,
    )
    ds = d.total * ds + (d.start[:, None] * c.q).T @ do - (erase * c.k).T @ dr
    return grads, ds
