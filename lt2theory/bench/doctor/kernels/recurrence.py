"""Checks of the kernels of the delta rule, and of what stands before it."""

import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.bench.doctor.kernels.check import Draw, KernelCheck, Problem, Tensors
from lt2theory.mixers.decay import mamba_decay, on_first_factor
from lt2theory.mixers.norm import unit
from lt2theory.mixers.short_conv import short_convolution
from lt2theory.mixers.stream import Stream
from lt2theory.ops.chunked.recurrence import chunked_recurrence
from lt2theory.ops.factors import Factors
from lt2theory.ops.fused.short_conv import delta_inputs, padding
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.selftest import TOLERANCES
from lt2theory.ops.triton_delta.recurrence import triton_recurrence

_CUT = {name: TOLERANCES[getattr(torch, name)] for name in ("float32", "bfloat16")}
_MODULES = tuple(
    f"triton_delta.triton_{name}" for name in ("forward", "backward", "chunk")
)  # fmt: skip

_AHEAD = tuple(f"triton_delta.triton_{name}" for name in ("chunk", "parts", "prepare", "walk"))


def _delta_inputs(draw: Draw) -> Problem:
    """Two heads, two factors a token, a stretch of tokens and a rest."""
    heads, factors, keys, values, taps = 2, 2, 24, 40, 4
    channels, gates = heads * (keys + factors * (keys + values)), heads * (factors + 1)
    columns = channels + gates
    inputs = {
        "z": draw.normal(1, 67, columns + padding(columns)),
        "taps": draw.normal(channels, taps),
        "log_rate": draw.normal(heads),
        "bias": draw.normal(heads),
    }
    names = ("q", "k", "v", "beta", "log_decay")

    def run(x: Tensors) -> Tensors:
        sizes = [heads, factors, keys, values, 2]
        found = delta_inputs(x["z"], x["taps"], x["log_rate"], x["bias"], sizes)
        return dict(zip(names, found, strict=True))

    def reference(x: Tensors) -> Tensors:
        z = x["z"]
        stream = Stream(torch.arange(z.shape[1], device=z.device).expand(z.shape[:2]))
        y = F.silu(short_convolution(z[..., :channels], x["taps"][:, None], stream))
        q, k, v = y.split([heads * keys, factors * heads * keys, factors * heads * values], -1)
        beta, decay = z[..., channels:columns].split([factors * heads, heads], -1)
        of_factors = (factors, heads, -1)
        return {
            "q": unit(q.unflatten(-1, (heads, keys))),
            "k": unit(k.unflatten(-1, of_factors)),
            "v": v.unflatten(-1, of_factors),
            "beta": 2.0 * torch.sigmoid(beta).unflatten(-1, (factors, heads)),
            "log_decay": on_first_factor(
                mamba_decay(decay, x["log_rate"], x["bias"], keys), factors
            ),
        }

    return Problem(inputs, run, reference)


def _named(found: tuple[Tensor, Tensor]) -> Tensors:
    return {"o": found[0], "state": found[1]}


def _delta_rule(draw: Draw, keys: int, values: int) -> Problem:
    """Decays and erasures of random keys, from a state."""
    steps, wide = (1, 35, 1, 2), torch.float32
    inputs = {
        "q": draw.normal(1, 35, 2, keys),
        "k": unit(draw.normal(*steps, keys)),
        "v": draw.normal(*steps, values),
        "log_decay": -0.3 * draw.normal(*steps).abs(),
        "beta": 2.0 * torch.sigmoid(draw.normal(*steps)),
        "state": draw.normal(1, 2, keys, values, dtype=wide),
    }

    def factors(x: Tensors) -> Factors:
        return Factors(x["q"], x["k"], x["v"], log_decay=x["log_decay"], beta=x["beta"])

    return Problem(
        inputs,
        lambda x: _named(triton_recurrence(factors(x), x["state"])),
        lambda x: _named(reference_recurrence(factors(x), x["state"])),
    )


def _narrow(draw: Draw) -> Problem:
    return _delta_rule(draw, 32, 32)


def _wide(draw: Draw) -> Problem:
    return _delta_rule(draw, 96, 40)


def _ahead(draw: Draw) -> Problem:
    """Values alone of a stream that is long enough for chunks that are prepared at once."""
    steps, wide = (1, 257, 1, 1), torch.float32
    inputs = {
        "q": draw.normal(1, 257, 1, 96),
        "k": unit(draw.normal(*steps, 96)),
        "v": draw.normal(*steps, 40),
        "log_decay": -0.1 * draw.normal(*steps).abs(),
        "beta": 2.0 * torch.sigmoid(draw.normal(*steps)),
        "state": draw.normal(1, 1, 96, 40, dtype=wide),
    }

    def factors(x: Tensors) -> Factors:
        return Factors(x["q"], x["k"], x["v"], log_decay=x["log_decay"], beta=x["beta"])

    return Problem(
        inputs,
        lambda x: _named(triton_recurrence(factors(x), x["state"])),
        lambda x: _named(chunked_recurrence(factors(x), x["state"])),
        differentiable=False,
    )


def _reflections(draw: Draw) -> Problem:
    """One key a head and beta 2: every error is kept to the end."""
    inputs = {
        "q": draw.normal(1, 67, 2, 32),
        "k": unit(draw.normal(1, 1, 1, 2, 32)),
        "v": draw.normal(1, 67, 1, 2, 32),
        "beta": torch.full_like(draw.normal(1, 67, 1, 2), 2.0),
    }

    def factors(x: Tensors) -> Factors:
        k = x["k"].expand(-1, 67, -1, -1, -1)
        return Factors(x["q"], k, x["v"], beta=x["beta"])

    return Problem(
        inputs,
        lambda x: _named(triton_recurrence(factors(x))),
        lambda x: _named(chunked_recurrence(factors(x), None)),
    )


CHECKS = (
    KernelCheck(
        "delta inputs",
        ("fused.triton_short_conv", "fused.triton_gates", "fused.triton_rows"),
        _delta_inputs,
    ),
    KernelCheck("delta rule", _MODULES, _narrow, _CUT),
    KernelCheck("delta rule, wide", _MODULES, _wide, _CUT),
    KernelCheck("delta rule, ahead", _AHEAD, _ahead, _CUT),
    KernelCheck("delta rule, reflect", _MODULES, _reflections, _CUT),
)
"""By name; the delta rule cuts operands to TensorFloat-32 in places."""
