"""Loops of our Triton kernels in Triton's interpreter, which runs them as Python."""

import builtins
from typing import Any


def whole_range(*limits: Any) -> range:
    """`range` whose limits may be the interpreter's scalars, arrays of one element.

    A compiled kernel has Python's `range` in its place: only a `for` loop is pipelined.

    Args:
        limits: As for `range`.

    Returns:
        The range.
    """
    return builtins.range(*(_whole(limit) for limit in limits))


def _whole(limit: Any) -> int:
    handle = getattr(limit, "handle", None)
    return int(limit if handle is None else handle.data.item())
