"""The branches of native sparse attention as spans: launches of `triton_span`.

Triton is imported when a kernel is launched, not with this module.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.sparse.nsa_parts import Branch, Gradients, Parts, Piece
from lt2theory.ops.sparse.tiling import LOG2_E, Tiling, kind_of, sizes_of

TILINGS = {
    ("forward", "half"): Tiling(128, 64, 8, 2),
    ("query_gradient", "half"): Tiling(64, 64, 4, 2),
    ("key_gradient", "half"): Tiling(64, 64, 8, 2),
    ("forward", "wide"): Tiling(64, 64, 8, 2),
    ("query_gradient", "wide"): Tiling(64, 32, 4, 2),
    ("key_gradient", "wide"): Tiling(32, 32, 8, 2),
    ("forward", "float32"): Tiling(32, 32, 8, 1),
    ("query_gradient", "float32"): Tiling(32, 32, 4, 1),
    ("key_gradient", "float32"): Tiling(32, 32, 8, 1),
}
"""By kernel and by what a tile must hold: halves, keys wider than 128, or float32."""
_PROGRAMS = 264
"""Programs that keep a GPU busy."""


def attend(
    branch: Branch,
    output: Float[Tensor, "b t h v"],
    lse: Float[Tensor, "b t h"],
    piece: Piece,
) -> None:
    """Write the outputs of a branch.

    Args:
        branch: The branch.
        output: Where they are written; zero where nothing is read.
        lse: Where the logarithms to base 2 of the sums of exponentials are written.
        piece: Whose queries.
    """
    from lt2theory.ops.sparse.triton_span import span_forward_kernel

    _by_queries(span_forward_kernel, "forward", branch, piece, (output, lse))


def add_query_gradient(
    branch: Branch,
    gradients: Gradients,
    lse: Float[Tensor, "b t h"],
    piece: Piece,
    *,
    parts: Parts | None = None,
    add: bool = True,
) -> None:
    """Write or add the gradient of the queries.

    Args:
        branch: The branch.
        gradients: What is read and written.
        lse: Logarithms to base 2 of the sums of exponentials of the branch.
        piece: Whose queries.
        parts: Gradients from other keys that join these.
        add: Whether it is added to what is there.
    """
    from lt2theory.ops.sparse.triton_span import span_query_gradient_kernel

    # Without parts no pointer to them is followed.
    other = (lse,) * 2 if parts is None else (parts.values, parts.taken)
    tensors = (*other, gradients.output, lse, gradients.dots, gradients.gates, gradients.q)
    name, factor = "query_gradient", (branch.heads.scale,)
    _by_queries(
        *(span_query_gradient_kernel, name, branch, piece, tensors),
        factor=factor,
        P=0 if parts is None else parts.values.shape[2],
        EACH=1 if parts is None else parts.each,
        BRANCH=branch.number,
        ADD=add,
    )


def add_key_gradient(
    branch: Branch, gradients: Gradients, lse: Float[Tensor, "b t h"], *, add: bool = True
) -> None:
    """Write or add the gradients of keys and values.

    Args:
        branch: The branch.
        gradients: What is read and written.
        lse: Logarithms to base 2 of the sums of exponentials of the branch.
        add: Whether they are added to what is there.
    """
    _key_gradient(branch, gradients, lse, (gradients.k, gradients.v), splits=1, add=add)


def key_gradients(
    branch: Branch, gradients: Gradients, lse: Float[Tensor, "b t h"]
) -> tuple[Float[Tensor, "b m g k"], Float[Tensor, "b m g v"]]:
    """The gradients of a branch's own keys and values, where these are few and readers many.

    Args:
        branch: The branch.
        gradients: What is read.
        lse: Logarithms to base 2 of the sums of exponentials of the branch.

    Returns:
        Both in float32.
    """
    heads = branch.heads
    tiling = TILINGS["key_gradient", kind_of(heads)]
    programs = -(-heads.k.shape[1] // tiling.keys) * len(heads.k) * heads.k.shape[2]
    splits = max(1, min(_PROGRAMS // programs, heads.q.shape[1] // tiling.queries))
    out = tuple(x.new_empty(splits, *x.shape, dtype=torch.float32) for x in (heads.k, heads.v))
    _key_gradient(branch, gradients, lse, out, splits=splits, add=False)
    return out[0].sum(0), out[1].sum(0)


def _key_gradient(
    branch: Branch,
    gradients: Gradients,
    lse: Tensor,
    written: tuple[Tensor, ...],
    *,
    splits: int,
    add: bool,
) -> None:
    from lt2theory.ops.sparse.triton_span import span_key_gradient_kernel

    heads, spans = branch.heads, branch.spans
    batch, length, count, _ = heads.q.shape
    num_keys, groups = heads.k.shape[1:3]
    tiling = TILINGS["key_gradient", kind_of(heads)]
    readers = spans.readers(num_keys, tiling.keys)
    tiles = readers.shape[2]
    span_key_gradient_kernel[(tiles, batch * groups, splits)](
        *_read(branch), readers, gradients.output, lse, gradients.dots, gradients.gates, *written,
        heads.scale * LOG2_E, heads.scale, length, num_keys, batch, tiles,
        G=groups, R=count // groups, SPLIT=branch.rest is not None, BRANCH=branch.number, ADD=add,
        **sizes_of(heads, tiling),
    )  # fmt: skip


def _read(branch: Branch) -> tuple[Tensor, ...]:
    heads, spans = branch.heads, branch.spans
    rest = heads.k if branch.rest is None else branch.rest
    return heads.q, heads.k, rest, heads.v, spans.low, spans.high


def _by_queries(
    kernel: Any,
    name: str,
    branch: Branch,
    piece: Piece,
    tensors: tuple[Tensor, ...],
    *,
    factor: tuple[float, ...] = (),
    **more: Any,
) -> None:
    """Run a kernel on every tile of queries and head of a piece."""
    heads = branch.heads
    _, length, count, _ = heads.q.shape
    num_keys, groups = heads.k.shape[1:3]
    tiling = TILINGS[name, kind_of(heads)]
    kernel[(-(-piece.length // tiling.queries), piece.count * (count // groups))](
        *_read(branch), *tensors, heads.scale * LOG2_E, *factor,
        length, num_keys, piece.first, piece.start, piece.length,
        G=groups, R=count // groups, SPLIT=branch.rest is not None,
        **more, **sizes_of(heads, tiling),
    )  # fmt: skip
