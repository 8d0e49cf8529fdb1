"""Refusals of what is of another kind than an argument must be, named before anything runs."""

from numbers import Integral

import torch
from torch import Tensor


def check_whole(name: str, value: object) -> None:
    """Refuse what is no whole number; its range is the caller's.

    Args:
        name: The argument.
        value: Its value.

    Raises:
        ValueError: It is a fraction, a truth value, or no number.
    """
    if type(value) is int:
        return
    # NumPy's integers, and a size that torch.export left open.
    if isinstance(value, bool) or not isinstance(value, Integral | torch.SymInt):
        raise ValueError(f"{name}: {value!r} is not allowed (must be a whole number)")


def check_integers(name: str, values: object) -> None:
    """Refuse what is no tensor of integers and would fail late or be rounded silently.

    Args:
        name: The argument.
        values: Its value.

    Raises:
        ValueError: It is no tensor, or one of another dtype.
    """
    check_tensor(name, values)
    assert isinstance(values, Tensor)
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise ValueError(f"{name}: got {values.dtype}; must be an integer dtype, such as int64")


def check_tensor(name: str, value: object) -> None:
    """Refuse what is no tensor.

    Args:
        name: The argument.
        value: Its value.

    Raises:
        ValueError: It is none.
    """
    if not isinstance(value, Tensor):
        raise ValueError(f"{name}: got a {type(value).__name__}; must be a tensor of integers")
