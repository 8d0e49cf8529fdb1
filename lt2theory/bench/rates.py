"""Times on a GPU between two events, and the rates of a product and of a copy, as floors."""

import statistics
from collections.abc import Callable

import torch


def require_cuda(verb: str) -> None:
    """Refuse to time on a CPU what is of a GPU.

    Args:
        verb: The verb of `lt2 bench`.

    Raises:
        ValueError: There is no CUDA device.
    """
    if not torch.cuda.is_available():
        raise ValueError(f"device: lt2 bench {verb} needs a CUDA device; a CPU's time says nothing")


def median_ms(run: Callable[[], object], repeats: int) -> float:
    """Median time of a run, the first one included.

    Args:
        run: What is timed.
        repeats: Runs.

    Returns:
        Milliseconds between two events around it.
    """
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(float(start.elapsed_time(end)))
    return statistics.median(times)


def mean_ms(run: Callable[[], object], times: int) -> float:
    """Mean time of runs one after the other.

    Args:
        run: What is timed.
        times: Runs.

    Returns:
        Milliseconds a run, between two events around them all.
    """
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(times):
        run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / times


def warm_ms(run: Callable[[], object], repeats: int) -> float:
    """Median time of a run after one to warm up.

    Args:
        run: What is timed.
        repeats: Runs that count.

    Returns:
        Milliseconds, as `median_ms`.
    """
    run()
    return median_ms(run, repeats)


def copy_rate() -> float:
    """Bytes a second that a large copy reads and writes.

    Returns:
        The rate, the median of ten copies of 4 GiB.
    """
    source = torch.randint(0, 255, (2**32,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / (warm_ms(lambda: target.copy_(source), 10) / 1e3)


def product_rate() -> float:
    """FLOPs a second of a large product in bfloat16.

    Returns:
        The rate, the median of ten products of 8192 by 8192.
    """
    size = 8192
    a, b = (torch.ones(size, size, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    return 2.0 * size**3 / (warm_ms(lambda: a @ b, 10) / 1e3)
