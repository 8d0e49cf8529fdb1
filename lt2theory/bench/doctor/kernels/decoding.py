"""Checks of the kernels of a decoding step that every model takes."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.bench.doctor.kernels.check import Draw, KernelCheck, Problem, Tensors
from lt2theory.mixers.norm import unit
from lt2theory.ops.fused.decode_attention import reference_buffer_attention

_EPS = 1e-5


def _few_rows(draw: Draw) -> Problem:
    """A normalised SwiGLU of few outputs, and a residual of more than a tile can be."""
    inputs = {
        "x": draw.normal(3, 140),
        "gated": 0.1 * draw.normal(2 * 26, 140),
        "weight": 0.1 * draw.normal(4097, 140),
        "residual": draw.normal(3, 4097),
    }

    def run(x: Tensors) -> Tensors:
        from lt2theory.ops.fused.triton_linear import few_rows_linear

        narrow, wide = x["x"].new_empty(3, 26), torch.empty_like(x["residual"])
        product = partial(few_rows_linear, settled=True)
        row = x["x"].clone()  # launched the usual way, after the matrices
        return {
            "swiglu": product(row, x["gated"], narrow, eps=_EPS, swiglu=True),
            "residual": product(row, x["weight"], wide, residual=x["residual"]),
        }

    def reference(x: Tensors) -> Tensors:
        y = F.rms_norm(x["x"], (140,), eps=_EPS) @ x["gated"].T
        return {
            "swiglu": F.silu(y[:, :26]) * y[:, 26:],
            "residual": x["x"] @ x["weight"].T + x["residual"],
        }

    return Problem(inputs, run, reference, differentiable=False)


def _delta_step(draw: Draw) -> Problem:
    """A token of GDN; values are more than one program's."""
    heads, keys, values, taps = 2, 160, 140, 4
    channels = heads * (2 * keys + values)
    inputs = {
        "projected": draw.normal(3, channels + heads * (values + 2)),
        "history": draw.normal(3, taps - 1, channels),
        "taps": draw.normal(taps, channels),
        "state": draw.normal(3, heads, keys, values, dtype=torch.float32),
        "norm": draw.normal(values),
        "rate": draw.normal(heads),
        "bias": draw.normal(heads),
    }
    arrived = draw.counters(3, heads)

    def run(x: Tensors) -> Tensors:
        from lt2theory.ops.fused.triton_delta_step import delta_step

        history, state = x["history"].clone(), x["state"].clone()
        out = x["projected"].new_empty(3, heads * values)
        delta_step(
            x["projected"], history, x["taps"], state, x["norm"],
            torch.empty_like(out, dtype=torch.float32), arrived, out,
            decay=(x["rate"], x["bias"]), gated=True, negative_eigenvalues=True, eps=_EPS,
        )  # fmt: skip
        return {"out": out, "history": history, "state": state}

    def reference(x: Tensors) -> Tensors:
        z, gate, beta, decay = x["projected"].split([channels, heads * values, heads, heads], -1)
        seen = torch.cat([x["history"], z[:, None]], 1)
        mixed = F.silu(torch.einsum("btc,tc->bc", seen, x["taps"]))
        parts = mixed.split([heads * keys, heads * keys, heads * values], -1)
        q, k, v = (part.unflatten(-1, (heads, -1)) for part in parts)
        q, k = unit(q) * keys**-0.5, unit(k)
        kept = torch.exp(-x["rate"].exp() * F.softplus(decay + x["bias"]))
        state = kept[..., None, None] * x["state"]
        new = 2.0 * beta.sigmoid()[..., None] * (v - torch.einsum("bhkv,bhk->bhv", state, k))
        state = state + k[..., None] * new[..., None, :]
        read = F.rms_norm(torch.einsum("bhkv,bhk->bhv", state, q), (values,), x["norm"], _EPS)
        return {"out": read.flatten(1) * F.silu(gate), "history": seen[:, 1:], "state": state}

    return Problem(inputs, run, reference, differentiable=False)


def _decode_attention(draw: Draw) -> Problem:
    """A growing cache, a ring, and lists with gaps."""
    inputs = {
        "q": draw.normal(2, 6, 40),
        "keys": draw.normal(2, 200, 2, 40),
        "values": draw.normal(2, 200, 2, 24),
    }
    first = draw.position(0, 5)
    lists = draw.order(2, 200)[:, None, :70].int()
    lists[:, :, 30:40] = -1
    newest, later, whole = (draw.position(n) for n in (131, 331, 200))

    def read(attend: Callable[..., Tensor], x: Tensors) -> Tensors:
        one = partial(attend, x["q"], x["keys"], x["values"], first=first)
        return {
            "cache": one(length=newest),
            "ring": one(length=later, ring=True),
            "lists": one(length=whole, lists=lists),
        }

    def run(x: Tensors) -> Tensors:
        from lt2theory.ops.fused.triton_decode_attention import decode_attention

        return read(decode_attention, x)

    def reference(x: Tensors) -> Tensors:
        return read(reference_buffer_attention, x)

    return Problem(inputs, run, reference, differentiable=False)


CHECKS = (
    KernelCheck("few rows linear", ("fused.triton_linear", "fused.triton_overlap"), _few_rows),
    KernelCheck("delta step", ("fused.triton_delta_step",), _delta_step),
    KernelCheck(
        "decode attention",
        ("fused.triton_decode_attention", "fused.triton_head_tiles", "fused.triton_shares"),
        _decode_attention,
    ),
)
"""By name."""
