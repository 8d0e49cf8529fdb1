"""What the kernels of a training step share: when they serve, tiles of rows, second derivatives.

Around its products a block is many passes over memory in plain torch. These operators take one
forward and one backward, with the dtypes of the plain code. Sums have a fixed order. Axes: n rows
(all axes before the last), d width of a row.
"""

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

STEPS = 8
"""Tiles of rows that a program of a backward kernel adds up by itself."""
WIDEST = 8192
"""Widest row that a program holds in registers."""

_INSTALLED = importlib.util.find_spec("triton") is not None
_TILE = 2048  # numbers a tile: 16 a thread of four warps
_FEW = 1 << 16  # fewer numbers are not worth the host's time for an operator of ours


def can_fuse(x: Tensor) -> bool:
    """Whether kernels of first derivatives serve an input where it stands.

    Args:
        x: An input of theirs.

    Returns:
        Whether it is on a CUDA device, not float64, and under no transform of torch.func, and
        Triton is there.
    """
    if not x.is_cuda or x.dtype == torch.float64 or not _INSTALLED:
        return False
    # While torch compiles it cannot ask for transforms, and it refuses them itself.
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is None


def can_fuse_rows(x: Tensor) -> bool:
    """Whether the operators on rows serve: as `can_fuse`, where they gain something.

    Args:
        x: The rows.

    Returns:
        Whether they serve. While torch compiles, it fuses the plain code by itself.
    """
    if x.numel() < _FEW or x.shape[-1] > WIDEST or torch.compiler.is_compiling():
        return False
    return can_fuse(x)


def product_dtype(x: Tensor) -> torch.dtype:
    """The dtype in which rows are written that only matrix products read.

    Autocast rounds what it multiplies, so a kernel may as well write it so: no product sees
    another number.

    Args:
        x: The rows before.

    Returns:
        That of autocast where it is on and kernels serve the rows, that of the rows elsewhere.
    """
    if can_fuse_rows(x) and torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    return x.dtype


def tile_of(width: int) -> tuple[int, int]:
    """Columns and rows of a tile that holds whole rows.

    Args:
        width: Width d of a row.

    Returns:
        Powers of two.
    """
    columns = max(16, 1 << (width - 1).bit_length())
    return columns, max(1, _TILE // columns)


def num_rows(x: Tensor) -> int:
    """Rows n of a tensor.

    Args:
        x: Any tensor whose last axis is the width.

    Returns:
        The product of the axes before it.
    """
    return x.numel() // max(1, x.shape[-1])


def programs(rows: int, tile: int, steps: int = 1) -> int:
    """Programs that serve some rows.

    Args:
        rows: Rows n.
        tile: Rows of a tile.
        steps: Tiles a program.

    Returns:
        At least one.
    """
    return max(1, -(-rows // (tile * steps)))


def differentiate_again(
    plain: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Any],
    needed: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Gradients that have gradients themselves, by way of the plain twin of an operator.

    Args:
        plain: The twin, a function of `inputs`.
        inputs: Inputs of the operator, as they were saved.
        needed: Which of them want a gradient.
        grads: Gradients of the results.

    Returns:
        One gradient an input, None where none is wanted.
    """
    with torch.enable_grad():
        found = plain(*inputs)
    results = (found,) if isinstance(found, Tensor) else found
    pairs = [(y, g) for y, g in zip(results, grads, strict=True) if g is not None]
    asked = [x for x, wanted in zip(inputs, needed, strict=True) if wanted]
    outputs, weights = [y for y, _ in pairs], [g for _, g in pairs]
    answers = iter(
        torch.autograd.grad(outputs, asked, weights, create_graph=True, allow_unused=True)
    )
    return [next(answers) if wanted else None for wanted in needed]
