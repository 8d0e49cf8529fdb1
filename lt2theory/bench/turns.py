"""Times of runs that take turns."""

import itertools
import time
from collections.abc import Callable

import torch
from torch import Tensor


def both_ways(forward: Callable[[], Tensor], inputs: list[Tensor]) -> Callable[[], object]:
    """A run of `forward` and of its backward pass from one fixed gradient.

    Args:
        forward: What to run.
        inputs: What to take gradients of.

    Returns:
        The run.
    """
    gradient = torch.ones_like(forward())
    return lambda: torch.autograd.grad(forward(), inputs, gradient)


def take_turns(
    runs: dict[str, Callable[[], object]], repeats: int
) -> dict[str, tuple[float, float]]:
    """Time runs that take turns, so that a busy moment of the machine meets all.

    Args:
        runs: The runs by name.
        repeats: Turns, after one to warm up.

    Returns:
        The fastest and the median milliseconds of every run.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _, (name, run) in itertools.product(range(repeats + 1), runs.items()):
        begin = time.perf_counter()
        run()
        times[name].append(1e3 * (time.perf_counter() - begin))
    kept = {name: sorted(values[1:]) for name, values in times.items()}
    return {name: (values[0], values[len(values) // 2]) for name, values in kept.items()}
