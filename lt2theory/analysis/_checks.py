"""Argument checks shared by the analysers: one line, naming the argument and what is allowed."""

from typing import get_args

import torch
from torch import Tensor

from lt2theory.ops.factors import FactorOrder
from tasks.names import unknown_name


def check_floating(name: str, value: Tensor) -> None:
    """Refuse dtypes without a QR factorisation.

    Raises:
        ValueError: If `value` is neither float32 nor float64.
    """
    if value.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name}: {value.dtype} is not allowed (must be float32 or float64)")


def check_like(reference_name: str, reference: Tensor, name: str, value: Tensor) -> None:
    """Refuse mixed dtypes and devices.

    Raises:
        ValueError: If `value` has another dtype or device than `reference`.
    """
    if value.dtype != reference.dtype:
        expected = f"{reference.dtype}, as {reference_name}"
        raise ValueError(f"{name}: {value.dtype} is not allowed (must be {expected})")
    if value.device != reference.device:
        expected = f"{reference.device}, as {reference_name}"
        raise ValueError(f"{name}: device {value.device} is not allowed (must be {expected})")


def check_shape(name: str, value: Tensor, *allowed: tuple[int, ...]) -> None:
    """Refuse a tensor of any other than the allowed shapes.

    Raises:
        ValueError: If the shape of `value` is not among `allowed`.
    """
    if tuple(value.shape) not in allowed:
        expected = " or ".join(str(list(shape)) for shape in allowed)
        raise ValueError(f"{name}: shape {list(value.shape)} is not allowed (must be {expected})")


def check_order(order: str) -> None:
    """Refuse an unknown factor order.

    Raises:
        ValueError: If `order` is not a `FactorOrder`.
    """
    if order not in get_args(FactorOrder):
        raise ValueError(unknown_name("order", order, get_args(FactorOrder)))


def check_at_least(name: str, value: int, least: int) -> None:
    """Refuse an integer below its least value.

    Raises:
        ValueError: If `value < least`.
    """
    if value < least:
        raise ValueError(f"{name}: {value} is not allowed (must be >= {least})")


def check_interval(name: str, value: float | int, low: float | int, high: float | int) -> None:
    """Refuse a number outside a closed interval.

    Raises:
        ValueError: If `value` is NaN or not in `[low, high]`.
    """
    if not low <= value <= high:
        raise ValueError(f"{name}: {value} is not allowed (must be in [{low}, {high}])")
