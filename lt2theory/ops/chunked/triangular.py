"""Batches of small lower triangular matrices, as the chunked recurrence needs them.

`torch.linalg.solve_triangular` walks a batch of small matrices one by one on a CPU. Here the
diagonal blocks are inverted first and then merged pairwise with batched products: with P and Q
the inverses of two blocks and X what lies below the first, `[[P, 0], [Q X P, Q]]` is the inverse
of `I - strict`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

# Blocks up to this size are inverted by their power series, whose terms are still small there.
_BASE = 4


def unit_lower_inverse(strict: Float[Tensor, "n c c"]) -> Float[Tensor, "n c c"]:
    """Invert `I - strict`, reading only the part of `strict` below its diagonal.

    Args:
        strict: A batch of square matrices; the diagonal and what lies above it are ignored.

    Returns:
        The inverses: lower triangular with a unit diagonal.
    """
    inverse: Tensor = _UnitLowerInverse.apply(strict)  # type: ignore[no-untyped-call]
    return inverse


class _UnitLowerInverse(torch.autograd.Function):
    """The inverse T with `dT = T dA T`, differentiable any number of times.

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
        gradient: Tensor = (inverse.mT @ grad @ inverse.mT).tril(-1)
        return gradient

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        product: Tensor = inverse @ tangent.tril(-1) @ inverse
        return product


def _merge_blocks(strict: Tensor) -> Tensor:
    """The inverse, by doubling the size of inverted diagonal blocks until one is left."""
    size = strict.shape[-1]
    block = size
    while block % 2 == 0 and block > _BASE:
        block //= 2
    inverse = torch.zeros_like(strict, memory_format=torch.contiguous_format)
    _diagonal_blocks(inverse, block, block).copy_(
        _power_series(_diagonal_blocks(strict, block, block))
    )
    while block < size:
        pairs = _diagonal_blocks(inverse, 2 * block, 2 * block)
        below = _diagonal_blocks(strict, 2 * block, 2 * block)[..., block:, :block]
        first, second = pairs[..., :block, :block], pairs[..., block:, block:]
        pairs[..., block:, :block] = second @ (below @ first)
        block *= 2
    return inverse


def _diagonal_blocks(matrix: Tensor, rows: int, columns: int) -> Tensor:
    """A view `[n, count, rows, columns]` of the diagonal blocks."""
    count = matrix.shape[-1] // columns
    tiles = matrix.view(*matrix.shape[:-2], count, rows, count, columns)
    return tiles.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def _power_series(strict: Tensor) -> Tensor:
    """`I + A + A^2 + ...` of blocks whose powers vanish from the block size on."""
    size = strict.shape[-1]
    lower = strict.tril(-1).flatten(0, -3)
    inverse = lower + torch.eye(size, dtype=strict.dtype, device=strict.device)
    power = lower
    for _ in range(2, size):
        power = power @ lower
        inverse += power
    return inverse.view(strict.shape)


def block_lower(parts: Sequence[Float[Tensor, "_ _ _"]]) -> Float[Tensor, "n r c"]:
    """Lower block triangular matrices from their blocks, finest first.

    Args:
        parts: The diagonal blocks `[n s, r, c]` for s a power of two, and then, for blocks of
            twice the size each time, the lower left quarters: `[n s / 2, r, c]`,
            `[n s / 4, 2 r, 2 c]` and so on to `[n, ., .]`. One part is returned as it is.

    Returns:
        The matrices, zero above the diagonal blocks.
    """
    if len(parts) == 1:
        return parts[0]
    matrix: Tensor = _BlockLower.apply(*parts)  # type: ignore[no-untyped-call]
    return matrix


class _BlockLower(torch.autograd.Function):
    """Copies blocks to their places: linear, so its derivative picks them out again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*parts: Tensor) -> Tensor:
        return _place(parts)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.shapes = [part.shape for part in inputs]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        picked = [_diagonal_blocks(grad, *ctx.shapes[0][1:])]
        for _, rows, columns in ctx.shapes[1:]:
            picked.append(_diagonal_blocks(grad, 2 * rows, 2 * columns)[..., rows:, :columns])
        return tuple(block.flatten(0, 1) for block in picked)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        return _place(tangents)


def _place(parts: Sequence[Tensor]) -> Tensor:
    """The matrices of `block_lower`."""
    scale = 2 ** (len(parts) - 1)
    count, rows, columns = parts[0].shape
    matrix = parts[0].new_zeros(count // scale, rows * scale, columns * scale)
    _diagonal_blocks(matrix, rows, columns).copy_(parts[0].unflatten(0, (-1, scale)))
    for part in parts[1:]:
        _, rows, columns = part.shape
        corners = _diagonal_blocks(matrix, 2 * rows, 2 * columns)[..., rows:, :columns]
        corners.copy_(part.unflatten(0, (len(matrix), -1)))
    return matrix
