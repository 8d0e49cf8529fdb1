"""A gradient self-test: whether a kernel that is wrong on some machines is right on this one.

A small problem of the workload's shape class (same kernel, dtype, heads and widths: what a compiler
and an autotuner specialise for) is run forwards and backwards on the same device, and every value
and gradient is compared with the token-by-token reference in float64. The verdict holds for the
process and is kept on disk for the same versions and device.

A pass is strong evidence and no proof: other lengths run the same compiled code, but another
process may autotune to another configuration where Triton's cache was cleared.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from lt2theory.ops.agreement import Computation, measure_agreement
from lt2theory.ops.autocast import own_precision
from lt2theory.ops.factors import Factors
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.selftest_verdicts import (
    ShapeClass,
    Tested,
    Verdict,
    read_verdict,
    write_verdict,
)

Runner = Callable[[Factors, Tensor | None], tuple[Tensor, Tensor]]

# Largest relative error of a tensor (Euclidean norms). FLA's own tests allow 0.02 in half
# precision; float32 is multiplied as TensorFloat-32 in places, as exactly as float16.
TOLERANCES = {torch.float32: 5e-3, torch.float16: 5e-3, torch.bfloat16: 2e-2}

LENGTH = 131  # two full chunks of 64 and a short one of odd length
BATCH = 2

_VERDICTS: dict[Tested, Verdict] = {}


def find_verdict(shape: ShapeClass, run: Runner) -> Verdict:
    """The verdict on a shape class: known in this process, read from disk, or measured now.

    Args:
        shape: The class.
        run: The kernel on factors and an initial state.

    Returns:
        The verdict.
    """
    return recall(shape, lambda: run_self_test(shape, run))


def recall(shape: Tested, measure: Callable[[], Verdict]) -> Verdict:
    """The verdict on any class: known in this process, read from disk, or measured now.

    Args:
        shape: The class.
        measure: Measures it.

    Returns:
        The verdict.
    """
    if shape not in _VERDICTS:
        verdict = read_verdict(shape)
        if verdict is None:
            verdict = measure()
            if verdict.error is not None:  # what did not finish may be a matter of the moment
                write_verdict(shape, verdict)
        _VERDICTS[shape] = verdict
    return _VERDICTS[shape]


def run_self_test(shape: ShapeClass, run: Runner) -> Verdict:
    """Compare a kernel's values and gradients with the float64 reference on the same device.

    Args:
        shape: The class.
        run: The kernel on factors and an initial state.

    Returns:
        The verdict; an exception in the kernel is a failure.
    """
    generator = torch.Generator().manual_seed(640)
    return judge(
        partial(_compute, run),
        partial(_compute, reference_recurrence),
        _make_problem(shape, generator),
        generator=generator,
    )


def judge(
    candidate: Computation,
    reference: Computation,
    inputs: Mapping[str, Tensor],
    *,
    generator: torch.Generator,
) -> Verdict:
    """Compare a kernel with its reference in float64, whatever the caller's contexts are.

    Args:
        candidate: The kernel.
        reference: What it is judged by.
        inputs: Floating tensors, among them `q`, whose dtype and device are those of the class.
        generator: Source of the weights of outputs, on the CPU.

    Returns:
        The verdict; an exception of the kernel is a failure.
    """
    tolerance = TOLERANCES[inputs["q"].dtype]
    with ExitStack() as own:
        # A call inside a checkpointed part must not add to what that part is seen to save.
        own.enter_context(saved_tensors_hooks(_itself, _itself))
        own.enter_context(torch.inference_mode(False))
        own.enter_context(torch.enable_grad())
        own.enter_context(own_precision(inputs["q"].device))
        try:
            agreement = measure_agreement(candidate, reference, inputs, generator=generator)
        except Exception as stop:  # noqa: BLE001 - whatever stops the kernel, it is not usable
            return Verdict(False, f"{type(stop).__name__}: {str(stop)[:200]}", None, tolerance)
    gradients = {f"gradient of {name}": e for name, e in agreement.gradients.items()}
    errors = {**agreement.values, **gradients}
    worst = max(errors, key=lambda name: errors[name])
    error = min(errors[worst], 1e30)  # JSON has no infinity
    return Verdict(agreement.within(tolerance), worst, error, tolerance)


def _itself(tensor: Tensor) -> Tensor:
    """Save and give back a tensor as it is."""
    return tensor


def _make_problem(shape: ShapeClass, generator: torch.Generator) -> dict[str, Tensor]:
    """Random inputs of the class, drawn on the CPU."""
    steps = (BATCH, LENGTH, 1, shape.num_heads)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    # Keys that resemble one another, as positive features do, make erasures matter.
    keys = torch.nn.functional.normalize(normal(*steps, shape.key_width) + 0.5, dim=-1)
    problem = {
        "q": normal(BATCH, LENGTH, shape.num_heads, shape.key_width),
        "k": keys,
        "v": normal(*steps, shape.value_width),
        "state": normal(BATCH, shape.num_heads, shape.key_width, shape.value_width),
    }
    if shape.decay != "none":
        size = (*steps, shape.key_width) if shape.decay == "vector" else steps
        problem["log_decay"] = -0.5 * torch.rand(*size, generator=generator, dtype=torch.float64)
    if shape.erases:
        problem["beta"] = torch.rand(*steps, generator=generator, dtype=torch.float64)
    if shape.own_write:
        problem["write"] = torch.rand(*steps, generator=generator, dtype=torch.float64)
    moved = {name: x.to(shape.device, shape.dtype) for name, x in problem.items()}
    return {**moved, "state": moved["state"].float()}


def _compute(run: Runner, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The output and the final state of named inputs."""
    given = {name: inputs.get(name) for name in ("log_decay", "beta", "write")}
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    factors = Factors(q, k, v, given["log_decay"], given["beta"], given["write"])
    output, state = run(factors, inputs["state"])
    return {"output": output, "state": state}
