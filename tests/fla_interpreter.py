"""FLA's real Triton kernels on a CPU, under Triton's interpreter.

FLA has no CPU path, and Triton's interpreter alone cannot run its autotuned kernels. A few patches
of the loaded modules change that, and leave what the kernels compute as it is. The interpreter has
to be switched on (`TRITON_INTERPRET=1`) before Triton is imported, so these tests run in a session
of their own:

    TRITON_INTERPRET=1 pytest -m interpreter

Use it through the fixture `fla` (tests/conftest.py) and the marker `interpreter`. What to expect:
float32 agrees with a float64 reference to about 1e-6 and float16 to 1e-3; bfloat16 is not emulated
by the interpreter (its results are noise). Keep to T <= 80, H <= 2, K = 16: a forward and
backward of the largest kernels takes seconds there.
"""

import builtins
import importlib
import os
import sys
import warnings
from types import ModuleType
from typing import Any

VARIABLE = "TRITON_INTERPRET"

# Packages of FLA that hold kernels; its naive references keep Python's own `range`.
_KERNELS = ("fla.ops", "fla.modules")


def is_on() -> bool:
    """Whether this process runs Triton kernels in the interpreter."""
    return os.environ.get(VARIABLE, "0") == "1"


def install() -> ModuleType:
    """Import FLA and make its kernels run on CPU tensors; calling it again changes nothing.

    Returns:
        The package `fla`.

    Raises:
        RuntimeError: The interpreter is off, or Triton was imported before it was switched on.
    """
    if not is_on():
        raise RuntimeError(f"FLA's kernels run on a CPU only with {VARIABLE}=1 in the environment")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # FLA warns that a CPU is no platform of Triton's
        fla = importlib.import_module("fla")
        for package in _KERNELS:
            importlib.import_module(package)
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction

    if not isinstance(tl.cdiv, InterpretedFunction):
        raise RuntimeError(f"{VARIABLE} was set after Triton had been imported")
    np.seterr(all="ignore")  # lanes that a kernel masks hold anything; NumPy would warn of them
    Autotuner.do_bench = property(_no_benchmark)
    vars(interpreter)["range"] = _range  # behind `tl.range`, whose limits are tensors as well
    for name, module in list(sys.modules.items()):
        if name.startswith(_KERNELS) and not name.endswith("naive"):
            _patch(module)
    return fla


class _Integer(int):
    """An integer that kernels may widen, as they do with the tensors of a compiled loop."""

    def to(self, dtype: Any) -> "_Integer":
        return self


def _range(*limits: Any) -> list[_Integer]:
    """`range` over plain integers or the interpreter's tensors of one element."""
    whole = [limit if isinstance(limit, int) else int(_scalar(limit)) for limit in limits]
    return [_Integer(i) for i in builtins.range(*whole)]


def _scalar(x: Any) -> Any:
    """The number in a constexpr, an array or a tensor of the interpreter."""
    if hasattr(x, "value"):
        return x.value
    handle = getattr(x, "handle", None)
    return x if handle is None else handle.data.item()


def _gather(src: Any, index: Any, axis: Any) -> Any:
    """`tl.gather` looked up when it is called, when the interpreter has replaced it."""
    import triton.language as tl

    return tl.gather(src, index, axis)


def _no_benchmark(autotuner: Any) -> Any:
    """Times of nothing: every configuration is as good as the first."""
    return lambda kernel_call, quantiles: [0.0] * len(quantiles)


def _patch(module: ModuleType) -> None:
    """Replace what a module of kernels holds that the interpreter cannot run."""
    import triton.language as tl

    names = vars(module)
    names["range"] = _range
    if "gather" in names:
        names["gather"] = _gather
    for name, value in list(names.items()):
        if isinstance(value, tl.constexpr) and value.value == "bf16x3":
            names[name] = tl.constexpr("ieee")  # three products of halves stand for one exact one
