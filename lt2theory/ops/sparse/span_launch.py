"""Windows and the branches of native sparse attention as spans: launches of `triton_span`.

Triton is imported when a kernel is launched, not with this module.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.sparse.nsa_parts import Branch, Gradients, Parts, Piece
from lt2theory.ops.sparse.nsa_spans import Window
from lt2theory.ops.sparse.tiling import LOG2_E, Heads, Tiling, kind_of, sizes_of

TILINGS = {
    ("forward", "half"): Tiling(128, 64, 8, 2),
    ("query_gradient", "half"): Tiling(64, 64, 4, 2),
    ("key_gradient", "half"): Tiling(64, 64, 8, 2),
    ("key_gradient", "half narrow"): Tiling(32, 64, 4, 2),
    ("forward", "wide"): Tiling(64, 64, 8, 2),
    ("query_gradient", "wide"): Tiling(64, 32, 4, 2),
    ("key_gradient", "wide"): Tiling(32, 32, 8, 2),
    ("forward", "float32"): Tiling(32, 32, 8, 1),
    ("query_gradient", "float32"): Tiling(16, 16, 4, 1),
    ("query_gradient", "float32 narrow"): Tiling(32, 32, 4, 1),
    ("key_gradient", "float32"): Tiling(16, 16, 8, 1),
    ("key_gradient", "float32 narrow"): Tiling(32, 32, 8, 1),
}
"""By kernel and by what a tile must hold: halves, keys wider than 128, or float32.

Narrow are keys and values of at most 128. Eight warps on 64 keys are two groups that compute the
same scores, in so many registers that a multiprocessor holds one program; where the sums fit four
warps it holds two or three.
"""
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
    given, gates = gradients.output, _gates(gradients)
    result = given if gradients.result is None else gradients.result
    tensors = (*other, result, given, lse, gradients.dots, gates, gradients.q)
    name, factor = "query_gradient", (branch.heads.scale,)
    _by_queries(
        *(span_query_gradient_kernel, name, branch, piece, tensors),
        factor=factor,
        P=0 if parts is None else parts.values.shape[2],
        EACH=1 if parts is None else parts.each,
        BRANCHES=gradients.dots.shape[-1],
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
    tiling = _tiling("key_gradient", heads)
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
    batch, length, _, _ = heads.q.shape
    num_keys, groups = heads.k.shape[1:3]
    tiling = _tiling("key_gradient", heads)
    tiles = -(-num_keys // tiling.keys)
    readers = lse if isinstance(spans, Window) else spans.readers(num_keys, tiling.keys)
    span_key_gradient_kernel[(tiles * batch * groups, splits)](
        *_read(branch), readers, gradients.output, lse, gradients.dots, _gates(gradients), *written,
        *_scalars(branch), heads.scale, length, num_keys, batch, tiles,
        BRANCHES=gradients.dots.shape[-1], BRANCH=branch.number, ADD=add,
        **_kinds(branch), **sizes_of(heads, tiling),
    )  # fmt: skip


def _tiling(name: str, heads: Heads) -> Tiling:
    """How a kernel is cut for some heads."""
    kind = kind_of(heads)
    narrow = max(heads.q.shape[-1], heads.v.shape[-1]) <= 128
    found = TILINGS.get((name, f"{kind} narrow")) if narrow else None
    return TILINGS[name, kind] if found is None else found


def _gates(gradients: Gradients) -> Tensor:
    """The gates; no pointer to those of one branch is followed."""
    return gradients.dots if gradients.gates is None else gradients.gates


def _read(branch: Branch) -> tuple[Tensor, ...]:
    """What every kernel reads; no pointer is followed that `_kinds` does not ask for."""
    heads, spans = branch.heads, branch.spans
    rest = heads.k if branch.rest is None else branch.rest
    given: list[Tensor | None] = [None] * 4
    if isinstance(spans, Window):
        given[2:] = spans.asking, spans.asked
    else:
        given[:2] = spans.low, spans.high
    bounds = (heads.k if x is None else x for x in given)
    return heads.q, heads.k, rest, heads.v, *bounds


def _scalars(branch: Branch) -> tuple[float, int]:
    """The scale to base 2, and the width of the window."""
    width = branch.spans.width if isinstance(branch.spans, Window) else 0
    return branch.heads.scale * LOG2_E, width


def _kinds(branch: Branch) -> dict[str, Any]:
    """What a kernel is compiled for beside its sizes."""
    heads, spans = branch.heads, branch.spans
    groups = heads.k.shape[2]
    return {
        "G": groups,
        "R": heads.q.shape[2] // groups,
        "SPLIT": branch.rest is not None,
        "WINDOW": isinstance(spans, Window),
        "SEGMENTS": isinstance(spans, Window) and spans.asking is not None,
    }


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
    tiling = _tiling(name, heads)
    kernel[(-(-piece.length // tiling.queries) * piece.count * (count // groups),)](
        *_read(branch), *tensors, *_scalars(branch), *factor,
        length, num_keys, piece.first, piece.start, piece.length,
        **_kinds(branch), **more, **sizes_of(heads, tiling),
    )  # fmt: skip
