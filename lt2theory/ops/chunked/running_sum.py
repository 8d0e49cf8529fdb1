"""Running sums that add in one order, also on a GPU where torch has to be deterministic."""

import torch
from jaxtyping import Float
from torch import Tensor


def running_sum(x: Float[Tensor, "n t *rest"]) -> Float[Tensor, "n t *rest"]:
    """Sums of the entries up to each one, along the second axis.

    torch's own kernel for CUDA tensors adds in an order that depends on the timing of its threads
    and refuses to run under `torch.use_deterministic_algorithms`; there the sums are built by
    doubling.

    Args:
        x: Numbers.

    Returns:
        The sums.
    """
    if x.device.type == "cuda" and torch.are_deterministic_algorithms_enabled():
        return sum_by_doubling(x)
    return x.cumsum(1)


def sum_by_doubling(x: Float[Tensor, "n t *rest"]) -> Float[Tensor, "n t *rest"]:
    """The same in log2(t) passes, each adding what twice as many entries before have in sum.

    Source: Hillis and Steele 1986.

    Args:
        x: Numbers.

    Returns:
        The sums.
    """
    step = 1
    while step < x.shape[1]:
        x = torch.cat([x[:, :step], x[:, step:] + x[:, :-step]], 1)
        step *= 2
    return x
