"""How far one computation is from another, in values and in gradients.

The measure of the self-test of kernels and of `lt2 doctor`: a candidate and a reference receive the
same numbers, the reference in float64, and every tensor that comes out is compared by norm.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Computation = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
"""Named inputs to named outputs."""


@dataclass(frozen=True)
class Agreement:
    """Relative errors by tensor, `|found - wanted| / |wanted|` in the Euclidean norm.

    Infinite where something found is not finite, or where zero was wanted and something else found.
    A missing gradient counts as zero, so its error is 1.

    Attributes:
        values: Error of every output.
        gradients: Error of the gradient of every input that the reference or the candidate has a
            gradient for.
    """

    values: Mapping[str, float]
    gradients: Mapping[str, float]

    def worst_value(self) -> tuple[str, float]:
        """The output with the largest error.

        Returns:
            Its name and error; an empty name and 0 without outputs.
        """
        return _worst(self.values)

    def worst_gradient(self) -> tuple[str, float]:
        """The input whose gradient has the largest error.

        Returns:
            Its name and error; an empty name and 0 without gradients.
        """
        return _worst(self.gradients)

    def within(self, tolerance: float) -> bool:
        """Whether every error is at most `tolerance`.

        Args:
            tolerance: The largest relative error allowed.

        Returns:
            True where values and gradients agree.
        """
        return max(self.worst_value()[1], self.worst_gradient()[1]) <= tolerance


def measure_agreement(
    candidate: Computation,
    reference: Computation,
    inputs: Mapping[str, Tensor],
    *,
    generator: torch.Generator,
) -> Agreement:
    """Compare a computation with its reference on the same numbers.

    The reference gets the inputs widened to float64: rounded numbers, not the rounding of them, are
    what both start from. Gradients are those of one random weighting of all outputs.

    Args:
        candidate: What is judged; it runs in the dtypes of `inputs`.
        reference: What it is judged by.
        inputs: Floating tensors on one device.
        generator: Source of the weights, on the CPU, so that they do not depend on the device.

    Returns:
        The errors by name.
    """
    leaves = {name: x.detach().clone().requires_grad_() for name, x in inputs.items()}
    found = candidate(leaves)
    weights = {
        name: torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x)
        for name, x in found.items()
    }
    found_gradients = _gradients(found, leaves, weights)
    wide = {name: x.detach().double().requires_grad_() for name, x in inputs.items()}
    wanted = reference(wide)
    wanted_gradients = _gradients(wanted, wide, {n: w.double() for n, w in weights.items()})
    return Agreement(
        {name: relative_error(found[name], wanted[name]) for name in wanted},
        {
            name: relative_error(found_gradients[name], wanted_gradients[name])
            for name in inputs
            if found_gradients[name] is not None or wanted_gradients[name] is not None
        },
    )


def relative_error(found: Tensor | None, wanted: Tensor | None) -> float:
    """`|found - wanted| / |wanted|` in float64, as `Agreement` defines it.

    Args:
        found: A tensor of any floating dtype, or None for zero.
        wanted: A tensor of the same shape, or None for zero.

    Returns:
        The error.
    """
    given = found if found is not None else wanted
    if given is None:
        return 0.0
    zero = torch.zeros_like(given, dtype=torch.float64)
    found = zero if found is None else found.detach().double()
    wanted = zero if wanted is None else wanted.detach().double()
    size, difference = float(wanted.norm()), float((found - wanted).norm())
    if difference == 0.0:
        return 0.0
    # A comparison with NaN is false, so that NaN ends up as infinite too.
    return difference / size if size > 0.0 and difference < torch.inf else torch.inf


def _gradients(
    outputs: Mapping[str, Tensor], inputs: Mapping[str, Tensor], weights: Mapping[str, Tensor]
) -> dict[str, Tensor | None]:
    """Gradients of the weighted outputs; None where an input has none."""
    names = [name for name, x in outputs.items() if x.requires_grad]
    if not names:
        return dict.fromkeys(inputs)
    gradients = torch.autograd.grad(
        [outputs[name] for name in names],
        list(inputs.values()),
        [weights[name] for name in names],
        allow_unused=True,
    )
    return dict(zip(inputs, gradients, strict=True))


def _worst(errors: Mapping[str, float]) -> tuple[str, float]:
    """The entry with the largest error."""
    return max(errors.items(), key=lambda item: item[1], default=("", 0.0))
