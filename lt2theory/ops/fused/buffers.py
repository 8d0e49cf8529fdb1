"""How the buffers of a decoder lie in memory: their axes are `[b n g d]`, whatever the order."""

from torch import Tensor


def with_heads_ahead(x: Tensor) -> Tensor:
    """Lay what a head holds in one piece.

    Args:
        x: `[b n g d]`.

    Returns:
        The same `[b n g d]`, stored as `[b g n d]`.
    """
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def row_strides(*buffers: Tensor) -> tuple[int, int, int]:
    """Steps to the next of a batch, place and head, in rows of d numbers.

    Args:
        buffers: `[b n g d]`, which may differ in d.

    Returns:
        The steps, the same for all.

    Raises:
        ValueError: They differ, or a row of d numbers is not in one piece.
    """
    found = {tuple(step / x.shape[-1] for step in x.stride()[:-1]) for x in buffers}
    if len(found) > 1 or any(step % 1 for step in min(found)):
        steps = [x.stride() for x in buffers]
        raise ValueError(f"buffers: got steps {steps}, must be the same in whole rows")
    if any(x.stride(-1) != 1 for x in buffers):
        raise ValueError("buffers: got rows with gaps, must be in one piece")
    b, n, g = (int(step) for step in min(found))
    return b, n, g
