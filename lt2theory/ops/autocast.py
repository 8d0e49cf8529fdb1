"""Keeps an op's own precision where its caller runs under autocast."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def own_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context in which products have the dtype of their operands, whatever the caller's autocast.

    Autocast rounds the operands of every matrix product, the matrix states and decays of a
    recurrence among them; an op has widened exactly what has to stay wide, and is left alone.

    Args:
        device: Where the op runs.

    Returns:
        A context with autocast off; one that does nothing where it is off already.
    """
    kind = device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()


@contextmanager
def weights_rounded_anew() -> Iterator[None]:
    """Inside the block an autocast that is on around it rounds weights anew, to forget them after.

    Autocast keeps what it has rounded until the outermost one ends. A CUDA graph that is recorded
    inside one would read what was kept before it, which is of that moment and will be freed; and
    what is rounded while it is recorded exists only when it runs.

    Yields:
        Nothing.
    """
    torch.clear_autocast_cache()
    try:
        yield
    finally:
        torch.clear_autocast_cache()
