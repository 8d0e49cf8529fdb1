"""Inverse of many small unit lower triangular matrices, the inner solve of the chunked recurrence.

`torch.linalg.solve_triangular` walks a batch of small matrices one by one on a CPU. Here the
diagonal blocks are inverted first and then merged pairwise with batched products:
`inv([[A, 0], [X, B]]) = [[inv A, 0], [-inv B X inv A, inv B]]`.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# Blocks up to this size are inverted row by row; larger ones by merging.
_BASE = 8


def unit_lower_inverse(strict: Float[Tensor, "n c c"]) -> Float[Tensor, "n c c"]:
    """Invert `I + strict`, reading only the part of `strict` below its diagonal.

    Args:
        strict: A batch of square matrices; the diagonal and what lies above it are ignored.

    Returns:
        The inverses: lower triangular with a unit diagonal.
    """
    inverse: Tensor = _UnitLowerInverse.apply(strict)
    return inverse


class _UnitLowerInverse(torch.autograd.Function):
    """The inverse T with `dT = -T dA T`, differentiable any number of times.

    The backward pass is made of differentiable operations on T itself, which is an output, so
    double backward and forward mode need nothing else.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(strict: Tensor) -> Tensor:
        return _merge_blocks(strict)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        return -(inverse.mT @ grad @ inverse.mT).tril(-1)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        return -(inverse @ tangent.tril(-1) @ inverse)


def _merge_blocks(strict: Tensor) -> Tensor:
    """The inverse, by doubling the size of inverted diagonal blocks until one is left."""
    size = strict.shape[-1]
    block = size
    while block % 2 == 0 and block > _BASE:
        block //= 2
    inverse = torch.zeros_like(strict, memory_format=torch.contiguous_format)
    _diagonal_blocks(inverse, block).copy_(_invert_rows(_diagonal_blocks(strict, block)))
    while block < size:
        pairs = _diagonal_blocks(inverse, 2 * block)
        below = _diagonal_blocks(strict, 2 * block)[..., block:, :block]
        first, second = pairs[..., :block, :block], pairs[..., block:, block:]
        pairs[..., block:, :block] = -(second @ (below @ first))
        block *= 2
    return inverse


def _diagonal_blocks(matrix: Tensor, block: int) -> Tensor:
    """A view `[n, count, block, block]` of the diagonal blocks."""
    count = matrix.shape[-1] // block
    tiles = matrix.unflatten(-1, (count, block)).unflatten(-3, (count, block))
    return tiles.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def _invert_rows(strict: Tensor) -> Tensor:
    """Forward substitution, one row of every matrix at a time."""
    size = strict.shape[-1]
    inverse = torch.eye(size, dtype=strict.dtype, device=strict.device).repeat(
        *strict.shape[:-2], 1, 1
    )
    for row in range(1, size):
        above = inverse[..., :row, :row]
        inverse[..., row, :row] = -(strict[..., row, :row, None] * above).sum(-2)
    return inverse
