"""Launches of the kernels of a training step, and how they are all compiled at once.

Compiling a kernel takes some tenths of a second, mostly in programs outside Python, and a step has
two dozen of them. In order of use they would be compiled one after another; a rehearsal of the step
only collects them, so that a pool of threads can compile them side by side.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from torch import Tensor

_WORKERS = 8


class _Rehearsal:
    """Kernels that are being compiled, each signature once."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._compiled: dict[tuple[object, ...], Future[None]] = {}

    def add(self, kernel: Any, arguments: Sequence[Any], constants: dict[str, Any]) -> None:
        """Have a kernel compiled for the types of these arguments."""
        types = tuple(x.dtype if isinstance(x, Tensor) else type(x) for x in arguments)
        key = (id(kernel), types, tuple(sorted(constants.items())))
        if key not in self._compiled:
            self._compiled[key] = self._pool.submit(_compile, kernel, arguments, constants)


_rehearsal: _Rehearsal | None = None


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    *arguments: Any,
    writes: Sequence[Tensor],
    **constants: Any,
) -> None:
    """Run a kernel, or in a rehearsal have it compiled and write zeros.

    Args:
        kernel: A kernel of Triton.
        grid: Its programs.
        arguments: Buffers and numbers.
        writes: The buffers that it fills.
        constants: What it is compiled for.
    """
    if _rehearsal is None:
        kernel[grid](*arguments, **constants)
        return
    for buffer in writes:
        buffer.zero_()
    _rehearsal.add(kernel, arguments, constants)


@contextmanager
def rehearsal() -> Iterator[None]:
    """Inside the block operators compute nothing; at its end their kernels are compiled.

    It holds for all threads, those of autograd among them: nothing else may compute on the device
    meanwhile. A kernel that does not compile says so when it is launched.

    Yields:
        Nothing.
    """
    global _rehearsal
    with ThreadPoolExecutor(min(_WORKERS, os.cpu_count() or 1)) as pool:
        _rehearsal = _Rehearsal(pool)
        try:
            yield
        finally:
            _rehearsal = None


def _compile(kernel: Any, arguments: Sequence[Any], constants: dict[str, Any]) -> None:
    """Compile, and load what was compiled."""
    compiled = kernel.warmup(*arguments, grid=(1,), **constants)
    assert compiled.run is not None  # made when it is first asked for
