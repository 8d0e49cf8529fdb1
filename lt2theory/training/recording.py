"""Recording what a training step launches as a CUDA graph."""

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator

import torch

from lt2theory.ops.autocast import weights_rounded_anew
from lt2theory.ops.fused.launching import rehearsal


def record(
    run: Callable[[], None],
    *,
    warm_up: bool = True,
    known: bool = False,
    lender: torch.cuda.CUDAGraph | None = None,
) -> torch.cuda.CUDAGraph:
    """Record what a function launches on the current device; nothing of it has run afterwards.

    Args:
        run: Launches work on buffers that stay where they are, and never waits for the device.
        warm_up: Whether it is first rehearsed, which compiles its kernels side by side, and run
            twice, which measures what has to be and finds everything chosen. The caller sees to it
            that these runs have no effect.
        known: Whether this process has recorded the like before, other buffers apart: then all is
            compiled and chosen, and one run makes what belongs to these buffers.
        lender: A graph recorded on the same stream, whose memory is used: the two never run at the
            same time, and what one leaves is read before the other runs.

    Returns:
        The graph.
    """
    # A stream of the caller's own is recorded from itself: what cuBLAS keeps for a stream is then
    # not shared with the graphs of other threads.
    current = torch.cuda.current_stream()
    aside = torch.cuda.Stream() if current == torch.cuda.default_stream() else current
    aside.wait_stream(current)
    if warm_up:
        with torch.cuda.stream(aside), warnings.catch_warnings():
            # Steps before a capture are what it warns of, and what is meant here.
            warnings.filterwarnings("ignore", "This instance was constructed with capturable=True")
            if not known:
                with rehearsal():
                    run()
                run()
            run()
        current.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with (
        without_collection(),
        weights_rounded_anew(),
        torch.cuda.graph(
            graph,
            pool=None if lender is None else lender.pool(),
            stream=aside,
            capture_error_mode="thread_local",
        ),
    ):
        run()
    return graph


@contextlib.contextmanager
def without_collection() -> Iterator[None]:
    """Keep Python from collecting garbage, such as another graph, in the middle of a recording.

    Yields:
        Nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
