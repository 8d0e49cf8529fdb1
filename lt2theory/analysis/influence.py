"""The receptive field of a real model, measured by vector-Jacobian products.

Axes: b batch, t tokens up to the measured position, d model width, o output coordinates.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from lt2theory.analysis._checks import check_at_least
from lt2theory.analysis.influence_law import distance_quantile
from lt2theory.models import LoopedModel

ReadOut = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Influence:
    """Influence of every earlier token on one position, by distance into the past.

    Attributes:
        norm: Frobenius norms `[b t]` of the Jacobian block of the output at the position with
            respect to the embedding at distance 0, 1, ... (an unbiased estimate of the squared
            norm where probes were used).
        support: Where the influence is not exactly zero `[b t]`; random probes miss a non-zero
            influence with probability 0.
        position: The measured position, counted from 0.
        num_cotangents: Vector-Jacobian products behind each number.
        is_exact: Whether every output coordinate was taken, rather than random probes.
    """

    norm: Float[np.ndarray, "b t"]
    support: Bool[np.ndarray, "b t"]
    position: int
    num_cotangents: int
    is_exact: bool

    @property
    def reach(self) -> Int[np.ndarray, "b"]:
        """Tokens from the position back to the furthest one with any influence, both included."""
        length = self.norm.shape[-1]
        furthest = length - self.support[:, ::-1].argmax(-1)
        return np.where(self.support.any(-1), furthest, 0)

    @property
    def share(self) -> Float[np.ndarray, "t"]:
        """Mean over the batch of each row's norms divided by their sum."""
        total = self.norm.sum(-1, keepdims=True)
        share: NDArray[np.float64] = (self.norm / np.where(total > 0, total, 1)).mean(0)
        return share

    def quantile(self, q: float | int) -> int:
        """The least distance within which at least the share q of the mean influence lies.

        Args:
            q: Share, in [0, 1].

        Returns:
            A distance in tokens.
        """
        return int(distance_quantile(self.share, q))


def measured_influence(
    model: LoopedModel,
    tokens: Int[Tensor, "b t"],
    position: int,
    *,
    read_out: ReadOut | None = None,
    num_probes: int | None = None,
    generator: torch.Generator | None = None,
    chunk: int = 16,
) -> Influence:
    """Norm of the derivative of one position's output with respect to each input embedding.

    Only the tokens up to `position` are run. Each output coordinate (or probe) is one
    vector-Jacobian product; `chunk` of them run at a time as copies in the batch, so memory does
    not grow with the width. Run a float64 model to compare the support with theory W7.

    Args:
        model: Looped model, in the mode and dtype to be measured.
        tokens: Token ids.
        position: Which output to differentiate, counted from 0.
        read_out: Map from the hidden state `[n 1 d]` at the position to outputs `[n 1 o]`, such as
            `model.read_out` for logits; None differentiates the residual stream after the last
            loop.
        num_probes: None for the exact norm over all output coordinates; otherwise how many
            standard normal probes g to average, since `E |J^T g|^2 = |J|_F^2`.
        generator: Source of the probes, on the CPU; needed with `num_probes` only.
        chunk: Vector-Jacobian products at a time.

    Returns:
        The influence by distance.

    Raises:
        ValueError: If an argument is out of range or probes come without a generator.
    """
    check_at_least("chunk", chunk, 1)
    if not 0 <= position < tokens.shape[1]:
        length = tokens.shape[1]
        raise ValueError(f"position: {position} is not allowed (must be in [0, {length - 1}])")
    if num_probes is not None:
        check_at_least("num_probes", num_probes, 1)
        if generator is None:
            raise ValueError("generator: None is not allowed (must be given with num_probes)")
    embedded = model.embed(tokens[:, : position + 1]).detach()
    width = _output_width(model, embedded, read_out)
    square = torch.zeros(embedded.shape[:2], dtype=torch.float64)
    # Squares underflow long before the derivatives do, so the support is kept apart.
    touched = torch.zeros(embedded.shape[:2], dtype=torch.bool)
    for cotangents in _cotangents(width, num_probes, generator, chunk):
        vjp = _pull_back(model, embedded, cotangents.to(embedded), read_out)
        square += vjp.double().square().sum((0, -1)).cpu()
        touched |= (vjp != 0).any(-1).any(0).cpu()
    count = width if num_probes is None else num_probes
    if num_probes is not None:
        square /= num_probes
    norm, support = square.sqrt().flip(-1).numpy(), touched.flip(-1).numpy()
    return Influence(norm, support, position, count, num_probes is None)


def _output_width(model: LoopedModel, embedded: Tensor, read_out: ReadOut | None) -> int:
    """Return the number of output coordinates at one position."""
    with torch.no_grad():
        first = model.run_embedded(embedded[:1, :1])
        return int((first if read_out is None else read_out(first)).shape[-1])


def _cotangents(
    width: int, num_probes: int | None, generator: torch.Generator | None, chunk: int
) -> Iterator[Tensor]:
    """Yield cotangents `[m o]`, at most `chunk` at a time: unit vectors, or random probes."""
    count = width if num_probes is None else num_probes
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        if num_probes is None:
            yield torch.eye(width, dtype=torch.float64)[start : start + size]
        else:
            yield torch.randn(size, width, dtype=torch.float64, generator=generator)


def _pull_back(
    model: LoopedModel, embedded: Tensor, cotangents: Tensor, read_out: ReadOut | None
) -> Tensor:
    """Return `[m b t d]`, each cotangent pulled back to the embeddings of each batch row."""
    copies, batch = cotangents.shape[0], embedded.shape[0]
    with torch.inference_mode(False), torch.enable_grad():
        x = embedded.repeat(copies, 1, 1).requires_grad_()
        hidden = model.run_embedded(x)[:, -1:]
        output = hidden if read_out is None else read_out(hidden)
        weights = cotangents.repeat_interleave(batch, 0)[:, None]
        (gradient,) = torch.autograd.grad(output, x, weights)
    pulled: Tensor = gradient.unflatten(0, (copies, batch))
    return pulled
