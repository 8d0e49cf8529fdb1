"""FLA's kernels of the linear recurrence behind one call: plain q, k, v, log decay and beta.

None of the kernels' own switches is used: normalisation, gates and beta are computed before, in
torch and in float32, so that every backend gets the same numbers. Names and argument conventions
are those of fla-core 0.6.0 (https://github.com/fla-org/flash-linear-attention).

Axes: b batch, s steps (tokens times factors), h heads, k key width, v value width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.workload import RecurrenceWorkload


@dataclass(frozen=True)
class Steps:
    """Inputs of a kernel, one factor a step.

    Attributes:
        q: Queries `[b s h k]`.
        k: Keys `[b s h k]`.
        v: Values `[b s h v]`, write strengths included where nothing is erased.
        log_decay: Natural log of the decay in float32, `[b s h]` or `[b s h k]` as the kernel
            takes it, or None for a kernel without one.
        beta: Erase strength `[b s h]`, or None for a kernel without one.
        scale: Factor on the read-out.
        state: State before the first step `[b h k v]` in float32, or None for zero.
    """

    q: Float[Tensor, "b s h k"]
    k: Float[Tensor, "b s h k"]
    v: Float[Tensor, "b s h v"]
    log_decay: Float[Tensor, "b s h"] | Float[Tensor, "b s h k"] | None
    beta: Float[Tensor, "b s h"] | None
    scale: float
    state: Float[Tensor, "b h k v"] | None


Call = Callable[[Steps], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Kernel:
    """A function of FLA that runs a sequence, and the one that runs a few steps.

    Attributes:
        name: Name of the function for sequences, `chunk_*`.
        step_name: Name of the function for a few steps, `fused_recurrent_*`.
        decay: The decay that both take: `none`, `scalar` or `vector`.
        erases: Whether they erase.
        half_only: Whether the first refuses float32.
        chunk: The call of the first.
        step: The call of the second.
        least_steps: Steps to which a shorter sequence is filled up for the first.
    """

    name: str
    step_name: str
    decay: str
    erases: bool
    chunk: Call
    step: Call
    half_only: bool = False
    least_steps: int = 1


def _call(package: str, function: str, decay: str = "", beta: bool = False) -> Call:
    """A call of `fla.ops.<package>.<function>`, whose decay has the name `decay`."""

    def call(x: Steps) -> tuple[Tensor, Tensor]:
        import importlib

        arguments: dict[str, Any] = {"q": x.q, "k": x.k, "v": x.v, "scale": x.scale}
        if decay:
            arguments[decay] = x.log_decay
        if beta:
            arguments["beta"] = x.beta
        if package == "linear_attn":  # one of the two functions divides by the sum of the weights
            arguments["normalize"] = False
        run = getattr(importlib.import_module(f"fla.ops.{package}"), function)
        output, state = run(**arguments, initial_state=x.state, output_final_state=True)
        return output, state

    return call


def _kernel(package: str, decay: str, erases: bool, **names: Any) -> Kernel:
    """The pair of functions that FLA's package holds."""
    chunk_decay = "" if decay == "none" else "g"
    step_decay = names.pop("step_decay", chunk_decay)
    chunk, step = f"chunk_{package}", f"fused_recurrent_{package}"
    return Kernel(
        name=chunk,
        step_name=step,
        decay=decay,
        erases=erases,
        chunk=_call(package, chunk, chunk_decay, erases),
        step=_call(package, step, step_decay, erases),
        **names,
    )


LINEAR_ATTENTION = _kernel("linear_attn", "none", False)
SIMPLE_GLA = _kernel("simple_gla", "scalar", False)
# Its chunks are 64 steps, but as short as the sequence of a shorter one. With 32 a choice of its
# autotuner (chunk_gla_fwd_kernel_o, tiles of 64 by 64, 8 warps, 2 stages, float32) ended a process
# with "misaligned address" (H200, Triton 3.6.0, FLA 0.6.0); with 64 no test of heads of 32 to 128
# met that.
GLA = _kernel("gla", "vector", False, step_decay="gk", least_steps=64)
DELTA_RULE = _kernel("delta_rule", "none", True, half_only=True)
GATED_DELTA_RULE = _kernel("gated_delta_rule", "scalar", True)
KDA = _kernel("kda", "vector", True)

KERNELS = (LINEAR_ATTENTION, SIMPLE_GLA, GLA, DELTA_RULE, GATED_DELTA_RULE, KDA)
"""Every kernel, cheapest first; one with a richer decay does the work of a poorer one too."""

_DECAYS = ("none", "scalar", "vector")


def candidates(workload: RecurrenceWorkload) -> list[Kernel]:
    """The kernels that compute a workload, the one made for it first.

    A decay a head is a decay a channel with equal channels, and no decay is one of 0. float32 is
    never rounded to half precision, so a kernel that refuses float32 is no candidate for it.

    Args:
        workload: What is to be computed.

    Returns:
        At least one kernel.
    """
    wanted = _DECAYS.index(workload.decay)
    return [
        kernel
        for kernel in KERNELS
        if kernel.erases == workload.erases
        and _DECAYS.index(kernel.decay) >= wanted
        and not (kernel.half_only and workload.dtype == torch.float32)
    ]
