"""The output projection of a student, fitted to its teacher in closed form."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.linearize.starts import Start


@dataclass(frozen=True)
class Alignment:
    """How near one mixer of a student is to its teacher's, on the calibration text.

    Attributes:
        layer: Layer, counted from 0.
        cosine: Cosine of what both give, over all tokens, channels and loops at once.
        error: Mean squared error, in units of the teacher's mean square.
        gate_fit: Share of the size of the heads that the gate follows; None without such a fit.
    """

    layer: int
    cosine: float
    error: float
    gate_fit: float | None


def head_scales(
    student: Float[Tensor, "n h v"], teacher: Float[Tensor, "n h v"]
) -> Float[Tensor, " h"]:
    """The factor on every head that brings it nearest to the teacher's head.

    Least squares a head: `c_h = <u_h, a_h> / <u_h, u_h>` over all tokens and channels.

    Args:
        student: What the student's heads give at n tokens, before the output projection.
        teacher: What the teacher's heads give.

    Returns:
        Factors, float64; 1 where the student's head is silent. A head that points the other way
        gets a negative one.
    """
    u, a = student.double(), teacher.double()
    size = u.square().sum((0, 2))
    product = (u * a).sum((0, 2))
    return torch.where(size > 0, product / size.clamp(min=1e-300), torch.ones_like(size))


def solved_output(
    heads: Float[Tensor, "n m"],
    target: Float[Tensor, "n d"],
    weight: Float[Tensor, "d m"],
    penalty: float,
) -> Float[Tensor, "d m"]:
    """The output projection that brings what a mixer gives nearest to its target.

    `min |heads W^T - target|^2 + penalty * s * |W - weight|^2` with s the heads' mean square, times
    n: directions that the calibration text does not show stay as they are.

    Args:
        heads: What the output projection reads at n tokens.
        target: What the teacher's mixer gives.
        weight: Projection to stay near to.
        penalty: Weight of the ridge.

    Returns:
        The projection, float64.
    """
    u, old = heads.double(), weight.double()
    gram = u.T @ u
    gram.diagonal().add_(penalty * gram.diagonal().mean().clamp(min=1e-12))
    left = target.double() - u @ old.T
    new: Tensor = old + torch.linalg.solve(gram, u.T @ left).T
    return new


@torch.no_grad()
def fit_output(
    out: torch.nn.Linear,
    start: Start,
    heads: Float[Tensor, "n h v"],
    teacher_heads: Float[Tensor, "n h v"],
    target: Float[Tensor, "n d"],
) -> None:
    """Fit an output projection.

    Args:
        out: The projection, changed in place.
        start: `output` says how.
        heads: What the student's heads give.
        teacher_heads: What the teacher's heads give.
        target: What the teacher's mixer gives.
    """
    if start.output == "copied":
        return
    scales = head_scales(heads, teacher_heads)
    weight = out.weight.double() * scales.repeat_interleave(heads.shape[2])
    if start.output == "solved":
        weight = solved_output(heads.flatten(1), target, weight, start.ridge)
    out.weight.copy_(weight.to(out.weight))


def alignment(
    layer: int,
    given: Float[Tensor, "n d"],
    target: Float[Tensor, "n d"],
    gate_fit: float | None = None,
) -> Alignment:
    """Compare what two mixers give.

    Args:
        layer: Layer, counted from 0.
        given: What the student's mixer gives.
        target: What the teacher's gives.
        gate_fit: To be kept beside it.

    Returns:
        The comparison.
    """
    y, z = given.double(), target.double()
    sizes = (y.norm() * z.norm()).clamp(min=1e-300)
    error = (y - z).square().sum() / z.square().sum().clamp(min=1e-300)
    return Alignment(layer, float((y * z).sum() / sizes), float(error), gate_fit)
