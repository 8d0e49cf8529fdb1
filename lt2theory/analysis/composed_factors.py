"""The factors of a trained model's loops, joined in the order in which they act on a state."""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from lt2theory.analysis._checks import check_at_least
from lt2theory.analysis.composition import correction_spectrum
from lt2theory.models import LoopTrace
from lt2theory.ops.factors import FactorOrder, Factors


@dataclass(frozen=True)
class ComposedFactors:
    """The factors of loops 1..num_loops of one layer, in the order in which they act.

    Axes: b batch, n spans of tokens, h heads, f factors of a span, k key width; float64.

    Attributes:
        layer: Layer, counted from 0.
        num_loops: Loops T that are composed.
        keys: `[b n h f k]`.
        betas: `[b n h f]`, or None for a mixer that erases nothing.
        log_decays: `[b n h f]`, `[b n h f k]` or None.
        order: Factor order of the mixer.
    """

    layer: int
    num_loops: int
    keys: Float[Tensor, "b n h f k"]
    betas: Float[Tensor, "b n h f"] | None
    log_decays: Float[Tensor, "b n h f"] | Float[Tensor, "b n h f k"] | None
    order: FactorOrder

    def spectrum(self) -> Float[Tensor, "b n h m"]:
        """Return the correction's singular values `[b n h m]`, m = min(f, k)."""
        return correction_spectrum(self.keys, self.betas, self.log_decays, self.order)

    def orthogonal_ideal(self) -> Float[Tensor, "b n h m"]:
        """Return the singular values `[b n h m]` that orthogonal keys would give.

        They are `|beta_tau| |k_tau|^2`, scaled by the product of the decays where they are scalar
        (theory R3, R6). With one decay a channel no such law holds (R13); the ideal is then the
        ungated one.
        """
        if self.betas is None:
            return self.keys.new_zeros(*self.keys.shape[:3], 0)
        strengths = self.betas.abs() * self.keys.square().sum(-1)
        if self.log_decays is not None and self.log_decays.ndim == self.betas.ndim:
            strengths = strengths * self.log_decays.sum(-1, keepdim=True).exp()
        ordered = strengths.sort(-1, descending=True).values
        return ordered[..., : min(self.keys.shape[-2:])]


def composed_factors(trace: LoopTrace, *, span: int = 1) -> Iterator[ComposedFactors]:
    """The factors that `loop_transitions` composes, layer by layer and for T = 1, 2, ...

    Args:
        trace: What `LoopedModel.trace(tokens)` returns. Attention layers are skipped.
        span: Tokens a span; spans follow one another from token 0 and an incomplete last one is
            dropped. Within a span each token applies its loops in turn, then the next token.

    Yields:
        One `ComposedFactors` for each layer with a recurrence and each T.

    Raises:
        ValueError: If `span` is below 1 or longer than the sequence.
    """
    check_at_least("span", span, 1)
    for layer in sorted({layer for layer, _ in trace.factors}):
        loops = [
            factors
            for loop in range(trace.config.num_loops)
            if isinstance(factors := trace.factors.get((layer, loop)), Factors)
        ]
        joined: Factors | None = None
        for num_loops, own in enumerate(loops, start=1):
            joined = own.after(joined)
            if span > own.k.shape[1]:
                length = own.k.shape[1]
                raise ValueError(f"span: {span} is not allowed (must be in [1, {length}])")
            yield ComposedFactors(
                layer=layer,
                num_loops=num_loops,
                keys=_by_span(joined.k, span),
                betas=None if joined.beta is None else _by_span(joined.beta, span),
                log_decays=None if joined.log_decay is None else _by_span(joined.log_decay, span),
                order=joined.order,
            )


def _by_span(x: Tensor, span: int) -> Tensor:
    """Turn `[b t f h ...]` into `[b n h (span f) ...]` in float64, later factors last."""
    count = x.shape[1] // span
    x = x.detach()[:, : count * span].double()
    spans: Tensor = x.unflatten(1, (count, span))
    return spans.flatten(2, 3).transpose(2, 3)
