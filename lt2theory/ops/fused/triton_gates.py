# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Kernels of `lt2theory.ops.fused.short_conv`: the gates of the delta rule.

They stand behind the channels of the convolution in every row of the projections: f h numbers for
beta, h for the decay where there is one, and padding.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.fused.triton_rows import load_wide


@triton.jit
@no_type_check
def _softplus(x):
    """`log(1 + exp(x))`, exact to float32's last digits on both sides."""
    e = tl.exp(-tl.abs(x))
    # A logarithm near one loses the digits of what was added to it, so a series stands there.
    series = e * (1.0 + e * (-0.5 + e * (1.0 / 3.0 + e * (-0.25 + e * 0.2))))
    return tl.maximum(x, 0.0) + tl.where(e < 0.03125, series, tl.log(1.0 + e))


@triton.jit(do_not_specialize=["rows", "beta_range"])
@no_type_check
def gates_kernel(
    Z, RATE, BIAS, BETA, DECAY, rows, beta_range,
    BETAS: tl.constexpr, DECAYS: tl.constexpr, FIRST: tl.constexpr, STRIDE: tl.constexpr,
    BC: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """`beta = range * sigmoid(z)`, `log alpha = -exp(rate) softplus(z + bias)` of some tokens.

    The first factor of a token decays, and the others not.
    """
    r = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    c = tl.arange(0, BC)
    real = (r < rows)[:, None]
    raw = load_wide(
        Z, r[:, None] * STRIDE + FIRST + c[None, :], real & (c < BETAS + DECAYS)[None, :]
    )
    beta = beta_range * tl.sigmoid(raw)
    tl.store(BETA + r[:, None] * BETAS + c[None, :], beta, mask=real & (c < BETAS)[None, :])
    if DECAYS > 0:
        d = c - BETAS
        decays = (d >= 0) & (d < DECAYS)
        rate = tl.exp(load_wide(RATE, d, decays))
        step = _softplus(raw + load_wide(BIAS, d, decays)[None, :])
        log_decay = tl.where(decays[None, :], -rate[None, :] * step, 0.0)
        here = real & ((d >= 0) & (d < BETAS))[None, :]
        tl.store(DECAY + r[:, None] * BETAS + d[None, :], log_decay, mask=here)


@triton.jit(do_not_specialize=["rows", "beta_range"])
@no_type_check
def gates_backward_kernel(
    D_BETA, D_DECAY, Z, RATE, BIAS, D_Z, PARTS, rows, beta_range,
    BETAS: tl.constexpr, DECAYS: tl.constexpr, FIRST: tl.constexpr, STRIDE: tl.constexpr,
    BC: tl.constexpr, BR: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Gradients of the projections behind the channels, zero for padding; parts of the others."""
    c = tl.arange(0, BC)
    d = c - BETAS
    decays = (d >= 0) & (d < DECAYS)
    rate = tl.exp(load_wide(RATE, d, decays))
    bias = load_wide(BIAS, d, decays)
    of_rate = tl.zeros([BR, BC], tl.float32)
    of_bias = tl.zeros([BR, BC], tl.float32)
    for step in range(STEPS):
        r = (tl.program_id(0).to(tl.int64) * STEPS + step) * BR + tl.arange(0, BR)
        real = (r < rows)[:, None]
        at = r[:, None] * STRIDE + FIRST + c[None, :]
        raw = load_wide(Z, at, real & (c < BETAS + DECAYS)[None, :])
        g = load_wide(D_BETA, r[:, None] * BETAS + c[None, :], real & (c < BETAS)[None, :])
        share = tl.sigmoid(raw)
        d_z = g * beta_range * share * (1.0 - share)
        if DECAYS > 0:
            g = load_wide(D_DECAY, r[:, None] * BETAS + d[None, :], real & decays[None, :])
            g *= -rate[None, :]
            inner = raw + bias[None, :]
            of_rate += g * _softplus(inner)
            g *= tl.sigmoid(inner)
            of_bias += g
            d_z += g
        tl.store(D_Z + at, d_z.to(D_Z.dtype.element_ty), mask=real & (FIRST + c < STRIDE)[None, :])
    if DECAYS > 0:
        at = tl.program_id(0) * (2 * DECAYS) + d
        tl.store(PARTS + at, tl.sum(of_rate, 0), mask=decays)
        tl.store(PARTS + at + DECAYS, tl.sum(of_bias, 0), mask=decays)
