"""The output gate of a student: a head's norm forgets how much it had to say, a gate can tell.

A linear mixer normalises what each head reads, so every head speaks equally loudly at every token.
The teacher's heads do not: many are silent on most tokens. A gate that follows the size of the
teacher's heads is found in closed form, by ridge regression of the gate's input on the mixer's.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lt2theory.linearize.starts import Start
from lt2theory.mixers import MLSTM, GatedDeltaNet, KimiDeltaAttention, LinearMixer
from lt2theory.mixers.retention import RetentionMixer

_OPEN_QUANTILE = 0.95
"""Share of tokens at which a sigmoid gate is to be at most `_OPEN`."""
_OPEN, _LEAST = 0.9, 0.02
"""How far a sigmoid gate opens at such a token, and how far it closes."""


def gate_form(mixer: LinearMixer) -> Literal["silu", "sigmoid"] | None:
    """What the output gate of a mixer passes through.

    Args:
        mixer: The mixer.

    Returns:
        Its activation, or None where there is no such gate (DeltaNet, linear attention).
    """
    if isinstance(mixer, GatedDeltaNet | RetentionMixer):
        return "silu"
    return "sigmoid" if isinstance(mixer, KimiDeltaAttention | MLSTM) else None


@torch.no_grad()
def set_gate(
    mixer: LinearMixer, start: Start, x: Float[Tensor, "n d"], heads: Float[Tensor, "n h v"]
) -> float | None:
    """Set the output gate of one mixer.

    Args:
        mixer: The mixer, changed in place.
        start: `gate` says how, `ridge` how hard to fit.
        x: What the mixer reads at n tokens.
        heads: What the teacher's heads give there, before the output projection.

    Returns:
        Share of the variance over tokens and heads that the fit explains; None where nothing was
        fitted.
    """
    form = gate_form(mixer)
    if form is None or start.gate == "own":
        return None
    if start.gate == "zero":
        if form == "silu":
            _set_rows(mixer, x.new_zeros(heads.shape[1], x.shape[1]), None)
        return None
    target = _target(form, heads, constant=start.gate == "open")
    if start.gate == "open" and form == "sigmoid":
        _set_rows(mixer, x.new_zeros(heads.shape[1], x.shape[1]), target.mean(0))
        return None
    biased = isinstance(mixer, KimiDeltaAttention)
    rows, offsets = ridge(x, target, start.ridge, biased=biased)
    _set_rows(mixer, rows, offsets)
    reached = x.double() @ rows.T + (0.0 if offsets is None else offsets)
    if start.gate == "open":
        return None
    left = (reached - target).square().mean()
    spread = (target - target.mean(0)).square().mean().clamp(min=1e-300)
    return float(1.0 - left / spread)


def ridge(
    x: Float[Tensor, "n d"], target: Float[Tensor, "n h"], weight: float, *, biased: bool
) -> tuple[Float[Tensor, "h d"], Float[Tensor, " h"] | None]:
    """Least squares with a penalty on the rows' size.

    Args:
        x: Inputs.
        target: What each row is to give.
        weight: Of the penalty, in units of the inputs' mean square times n.
        biased: Whether there is a bias, which is not penalised.

    Returns:
        Rows, and the bias where there is one; float64.
    """
    x, target = x.double(), target.double()
    mean_x, mean_y = x.mean(0), target.mean(0)
    if biased:
        x, target = x - mean_x, target - mean_y
    gram = x.T @ x
    gram.diagonal().add_(weight * gram.diagonal().mean().clamp(min=1e-12))
    rows = torch.linalg.solve(gram, x.T @ target).T
    return rows, (mean_y - rows @ mean_x if biased else None)


def silu_inverse(y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The z >= 0 with `silu(z) = y`, for y >= 0.

    Args:
        y: Values of a silu.

    Returns:
        z in float64, by Newton's iteration from above.
    """
    y = y.double()
    z = y + 0.2785  # z - silu(z) is nowhere larger
    for _ in range(12):
        s = torch.sigmoid(z)
        z = z - (z * s - y) / (s + z * s * (1.0 - s))
    return z.clamp(min=0.0)


def _target(form: str, heads: Tensor, *, constant: bool) -> Float[Tensor, "n h"]:
    """What the gate's input should be: the size of every head, in units of its usual one."""
    size = heads.double().square().mean(-1).sqrt()
    if form == "silu":
        relative = size / size.mean(0).clamp(min=1e-12)
        return silu_inverse(torch.ones_like(relative) if constant else relative)
    if constant:
        return torch.zeros_like(size)
    high = size.quantile(_OPEN_QUANTILE, dim=0).clamp(min=1e-12)
    return torch.logit((_OPEN * size / high).clamp(_LEAST, 1.0 - _LEAST))


def _set_rows(mixer: LinearMixer, rows: Tensor, offsets: Tensor | None) -> None:
    """Give every channel of a head the same row (and bias)."""
    values = mixer.options.value_dim
    if isinstance(mixer, KimiDeltaAttention):
        _set_low_rank(mixer, rows, rows.new_zeros(len(rows)) if offsets is None else offsets)
        return
    gate = mixer.ogate_preact if isinstance(mixer, MLSTM) else mixer.g_proj
    assert isinstance(gate, nn.Linear)
    gate.weight.copy_(rows.repeat_interleave(values, 0))


def _set_low_rank(mixer: KimiDeltaAttention, rows: Tensor, offsets: Tensor) -> None:
    """KDA's gate goes through a few channels: one for each head, or the best that there are."""
    first, second = mixer.g_proj
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    values = mixer.options.value_dim
    U, S, Vh = torch.linalg.svd(rows.double(), full_matrices=False)
    # A channel that is zero on both sides would get no gradient on either.
    kept = min(first.out_features, int((1e-12 * S.max() < S).sum()))
    root = S[:kept].sqrt()
    first.weight[:kept] = (root[:, None] * Vh[:kept]).to(first.weight)
    nn.init.zeros_(second.weight)
    mixing = (U[:, :kept] * root).repeat_interleave(values, 0)
    second.weight[:, :kept] = mixing.to(second.weight)
    assert second.bias is not None
    second.bias.copy_(offsets.repeat_interleave(values).to(second.bias))
