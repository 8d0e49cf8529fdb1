"""The linear recurrence by the Triton kernels of flash-linear-attention (FLA).

Which kernel: `fla.route`. How factors become its inputs: `fla.steps`.

Precision: the state and every sum are float32. Half precision inputs are multiplied as they are;
float32 inputs stay float32, but a GPU multiplies them as TensorFloat-32 in places (10 bits), so
`auto` takes these kernels for them only where the caller allowed that. float32 is never rounded to
half precision. First derivatives only. Keys should have unit length at most where there is an
erasure (https://github.com/fla-org/flash-linear-attention/issues/537).

Axes: b batch, t time, h heads, k key width, v value width.
"""

from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.factors import Factors
from lt2theory.ops.fla.route import find_route, runs_by_steps
from lt2theory.ops.fla.steps import run_kernel
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.workload import RecurrenceWorkload


def fla_recurrence(
    factors: Factors, initial_state: Float[Tensor, "b h k v"] | None = None
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "b h k v"]]:
    """Run the recurrence by FLA's kernels; see `reference_recurrence` for its meaning.

    Log decays below -110 count as -110, which is a decay of 0 in float32.

    Args:
        factors: The inputs of the recurrence, in float32, float16 or bfloat16.
        initial_state: The state before the first token in float32, zero when None.

    Returns:
        The outputs, in the dtype of `factors.v`, and the state after the last token in float32.

    Raises:
        ValueError: If no kernel can do this, or a gradient of a gradient is asked for (raised by
            the backward pass).
    """
    if factors.v.numel() == 0:  # no tokens, rows, heads or values: there is nothing to launch
        return reference_recurrence(factors, initial_state)
    workload = RecurrenceWorkload.of(factors)
    route = find_route(workload)
    if isinstance(route, str):
        raise ValueError(f"backend 'fla' cannot run this linear_recurrence: {route}")
    return run_kernel(
        route.kernel,
        factors,
        initial_state,
        by_steps=runs_by_steps(workload, route.kernel),
        lift_guard=route.lifts_guard,
    )
