"""Checks of what a training step computes row by row."""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from lt2theory.bench.doctor.kernels.check import Draw, KernelCheck, Problem, Tensors
from lt2theory.ops.fused.add_norm import fused_add_rms_norm, plain_add_rms_norm
from lt2theory.ops.fused.gated_norm import fused_gated_rms_norm, plain_gated_rms_norm
from lt2theory.ops.fused.loop_residual import fused_loop_residual, plain_loop_residual
from lt2theory.ops.fused.norm import fused_rms_norm, plain_rms_norm
from lt2theory.ops.fused.swiglu import fused_swiglu, plain_swiglu

_EPS = 1e-5
_NORMS = ("fused.triton_norm", "fused.triton_rows")
_POINTWISE = ("fused.triton_pointwise", "fused.triton_rows")


def _rms_norm(draw: Draw) -> Problem:
    return Problem(
        {"x": draw.normal(3, 67, 100), "weight": draw.normal(100)},
        lambda x: {"y": fused_rms_norm(x["x"], x["weight"], _EPS, x["x"].dtype)},
        lambda x: {"y": plain_rms_norm(x["x"], x["weight"], _EPS, x["x"].dtype)},
    )


def _add_rms_norm(draw: Draw) -> Problem:
    inputs = {
        "h": draw.normal(3, 67, 100),
        "change": draw.normal(3, 67, 100),
        "weight": draw.normal(100),
    }

    def read(norm: Callable[..., tuple[Tensor, Tensor]], x: Tensors) -> Tensors:
        total, y = norm(x["h"], x["change"], x["weight"], _EPS, x["h"].dtype)
        return {"sum": total, "y": y}

    return Problem(inputs, partial(read, fused_add_rms_norm), partial(read, plain_add_rms_norm))


def _gated_rms_norm(draw: Draw) -> Problem:
    inputs = {
        "o": draw.normal(2, 67, 3, 40),
        "gate": draw.normal(2, 67, 120),
        "weight": draw.normal(40),
    }

    def read(norm: Callable[..., Tensor], x: Tensors) -> Tensors:
        both = partial(norm, x["o"], x["gate"], x["weight"], _EPS, x["o"].dtype)
        return {"silu": both(True), "sigmoid": both(False)}

    return Problem(inputs, partial(read, fused_gated_rms_norm), partial(read, plain_gated_rms_norm))


def _swiglu(draw: Draw) -> Problem:
    return Problem(
        {"z": draw.normal(2, 67, 300)},
        lambda x: {"y": fused_swiglu(x["z"])},
        lambda x: {"y": plain_swiglu(x["z"])},
    )


def _loop_residual(draw: Draw) -> Problem:
    inputs = {
        "h": draw.normal(2, 67, 150),
        "start": draw.normal(2, 67, 150),
        "rho": draw.normal(150),
    }
    return Problem(
        inputs,
        lambda x: {"y": fused_loop_residual(*x.values())},
        lambda x: {"y": plain_loop_residual(*x.values())},
    )


CHECKS = (
    KernelCheck("RMS norm", _NORMS, _rms_norm),
    KernelCheck("RMS norm of a sum", _NORMS, _add_rms_norm),
    KernelCheck("gated RMS norm", _NORMS, _gated_rms_norm),
    KernelCheck("SwiGLU", _POINTWISE, _swiglu),
    KernelCheck("loop residual", _POINTWISE, _loop_residual),
)
"""By name."""
