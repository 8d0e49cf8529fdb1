"""The delta rule of long streams and wide heads, values only: most work of all chunks at once.

In the notation of `op`, a chunk's steps write `u = X (w v - beta start K S)` with the chunk's
inverse X (the WY form of DeltaNet, arXiv 2406.06484, with scalar decays, 2412.06464). X, and the
products of queries and keys, need no state: they are made for every chunk at once. What is left for
the walk over the chunks is three products in turn, of which every program has a tile of values.

Bytes decide about what is handed over: keys and queries in parts, X and the pairs of a chunk are
some 1.5 KB a step of a head of 96 x 192, as much as the inputs; the states of all chunks, for a
read-out at once too, would be 1.2 KB more, and what was written 0.8. Where all of it is more than
`MOST_BYTES`, a stretch of chunks is done after the other.

Precision: sums, states and X are float32, and no product that reaches the next state cuts a digit:
the walk multiplies parts of 8 bits, of which three are a float32 number and one is a bfloat16. With
two for what meets the keys, reflections over equal keys would cost 1e-3 of the state in 130 steps.
Read-outs keep 16 bits, and those of bfloat16 inputs 8, as their results do.

On an H200, 8 streams of 8,192 tokens and 16 heads of 96 x 192 take 4.1 ms in float32, of which the
walk is 2.8 and the inverses are 0.2, and 3.1 ms in bfloat16; in one walk that does everything, 63.5
and 56.2 ms. With chunks of 64 steps it is 5.0 ms, with nothing loaded ahead 5.3. Four times the
tokens take 3.9 times as long; a single stream of as many, whose 48 programs do not fill the device,
5.8 ms.

Axes: b batch, t time, f factors a token, h heads, n chunks, c steps of a chunk, k key width,
v value width, p parts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lt2theory.ops.triton_delta.tiles import AheadTiles, ahead_tiles
from lt2theory.ops.workload import is_interpreting

MOST_BYTES = 2 << 30
"""What the chunks that are prepared at once may take of memory."""

# Parts of 8 bits: of states, inverses and what they are multiplied with; of keys; of read-outs.
_PARTS = {torch.bfloat16: (3, 1, 1), torch.float16: (3, 2, 2), torch.float32: (3, 3, 2)}


@dataclass(frozen=True)
class _Prepared:
    """What is known of chunks before their states are.

    Attributes:
        keys: `[b h n p c k]`, as all in parts and filled up to the tiles.
        queries: `[b h n p c k]`.
        pairs: Queries times keys of a chunk, with scale and decays `[b h n p c c]`.
        below: What the inverse is of, less the identity, float32 `[b h n c c]`.
        inverses: `[b h n p c c]`.
        gates: Five numbers a step, float32 `[b h n 5 c]`.
    """

    keys: Tensor
    queries: Tensor
    pairs: Tensor
    below: Tensor
    inverses: Tensor
    gates: Tensor

    @classmethod
    def unwritten(cls, k: Tensor, tiles: AheadTiles, chunks: int, erases: bool) -> "_Prepared":
        """Buffers for some chunks of every stream."""
        state, keys, reads = _PARTS[k.dtype]
        part = torch.float32 if is_interpreting() else torch.bfloat16
        kept = (k.shape[0], k.shape[3], chunks)
        inverted = kept if erases else (0, 0, 0)
        size = tiles.size
        return cls(
            k.new_empty(*kept, keys, size, tiles.width, dtype=part),
            k.new_empty(*kept, reads, size, tiles.width, dtype=part),
            k.new_empty(*kept, reads, size, size, dtype=part),
            k.new_empty(*inverted, size, size, dtype=torch.float32),
            k.new_empty(*inverted, state, size, size, dtype=part),
            k.new_empty(*kept, 5, size, dtype=torch.float32),
        )


def chunk_bytes(dtype: torch.dtype, tiles: AheadTiles) -> int:
    """Memory that a prepared chunk of one sequence and head takes.

    Args:
        dtype: Dtype of the inputs.
        tiles: Sizes.

    Returns:
        Bytes.
    """
    state, keys, reads = _PARTS[dtype]
    parts = (keys + reads) * tiles.width + (reads + state) * tiles.size
    return tiles.size * (2 * parts + 4 * tiles.size + 4 * 5)


def stretches(chunks: int, bytes_each: int) -> list[tuple[int, int]]:
    """Stretches of chunks, as even as can be, none of more than `MOST_BYTES` but of one chunk.

    Args:
        chunks: Chunks of a stream.
        bytes_each: What one chunk of all streams takes.

    Returns:
        The first chunk of each and how many there are.
    """
    most = max(1, MOST_BYTES // bytes_each)
    length = -(-chunks // -(-chunks // most))
    return [(first, min(length, chunks - first)) for first in range(0, chunks, length)]


def run_ahead(
    given: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None],
    state: Tensor | None,
    scale: float,
    out: Tensor,
    end: Tensor,
) -> None:
    """Compute `delta_rule` without what its backward pass needs.

    Args:
        given: `q`, `k`, `v`, `log_decay`, `beta` and `write` as there.
        state: State before the first token, or None for zero.
        scale: Factor on the read-out.
        out: Where the outputs go.
        end: Where the last state goes.
    """
    k = given[1]
    batch, length, factors, heads, _ = k.shape
    tiles = ahead_tiles(k.shape[-1], given[2].shape[-1])
    chunks = -(-length * factors // tiles.size)
    parts = stretches(chunks, batch * heads * chunk_bytes(k.dtype, tiles))
    prepared = _Prepared.unwritten(k, tiles, parts[0][1], given[4] is not None)
    for first, count in parts:
        _prepare(given, scale, tiles, prepared, first, count)
        _walk(given, state if first == 0 else end, tiles, prepared, out, end, first, count)


def _prepare(
    given: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None],
    scale: float,
    tiles: AheadTiles,
    prepared: _Prepared,
    first: int,
    count: int,
) -> None:
    """Everything about a stretch of chunks that needs no state."""
    from lt2theory.ops.triton_delta.triton_prepare import inverse_kernel, prepare_kernel

    q, k, _, log_decay, beta, write = given
    batch, length, factors, heads, width = k.shape
    state_parts, key_parts, read_parts = _PARTS[k.dtype]
    grid = (batch * heads * count,)
    prepare_kernel[grid](
        q, k, *(q if x is None else x for x in (log_decay, beta, write)),
        prepared.keys, prepared.queries, prepared.pairs, prepared.below, prepared.gates,
        length, factors, first, count, scale,
        H=heads, DK=width, B1=tiles.keys, B2=tiles.more_keys, LOG=tiles.log_steps,
        KEY_PARTS=key_parts, READ_PARTS=read_parts, DECAYS=log_decay is not None,
        ERASES=beta is not None, WRITES=write is not None, num_warps=tiles.prepare_warps,
    )  # fmt: skip
    if beta is not None:
        inverse_kernel[grid](
            prepared.below, prepared.inverses, LOG=tiles.log_steps, PARTS=state_parts, num_warps=1
        )


def _walk(
    given: tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None],
    state: Tensor | None,
    tiles: AheadTiles,
    prepared: _Prepared,
    out: Tensor,
    end: Tensor,
    first: int,
    count: int,
) -> None:
    """The states through a stretch of chunks, and the outputs."""
    from lt2theory.ops.triton_delta.triton_walk import walk_kernel

    _, k, v, _, beta, _ = given
    batch, length, factors, heads, width = k.shape
    state_parts, key_parts, read_parts = _PARTS[k.dtype]
    programs = -(-v.shape[-1] // tiles.values)
    walk_kernel[(batch * heads * programs,)](
        v, prepared.keys, prepared.queries, prepared.pairs, prepared.inverses, prepared.gates,
        end if state is None else state, out, end,
        length, factors, first, count, int(state is not None),
        H=heads, DK=width, DV=v.shape[-1], TILES=programs,
        B1=tiles.keys, B2=tiles.more_keys, BV=tiles.values, LOG=tiles.log_steps,
        STATE_PARTS=state_parts, KEY_PARTS=key_parts, READ_PARTS=read_parts,
        ERASES=beta is not None, num_warps=tiles.walk_warps, num_stages=tiles.walk_stages,
    )  # fmt: skip
