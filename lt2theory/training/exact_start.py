"""A model of the S3 word problem that starts from an exact `rescan` solution (theory L6).

Loop 1 keeps a parity c that every rotation flips; loop 2 applies the one reflection
`F^{c_t} g_t F^{c_{t-1}}` to its own state, so that it holds `F^{c_t} P_t` for the product P_t of
the word so far. The architecture leaves two things to be worked round, and neither costs exactness:

- There is no first token that could write the starting state C. With `v = -k^T C` and beta = 2 the
  state is `P_t C - C` from zero on, since `A (S + C) - C = A S + beta k v^T`.
- Keys, values and queries pass a silu, and what a state reads out is normalised. So the keys are
  laid over many channels, where no entry needs to be below silu's least value, and the query has a
  generic orbit, by which the read-out's direction alone tells the six states apart. The empty state
  is among them, and the normalisation magnifies whatever is wrong with it by up to `eps^-1/2`: from
  `norm_eps` = 1e-3 on, weights may be off by 3e-5 (at 16 tokens); at 1e-5 that ruins a third of the
  answers.

All that the blocks compute from token and state takes finitely many values, so every matrix is the
solution of a linear system over those cases.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers.delta import DeltaMixer
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.block import Block, SwiGLU
from tasks.groups import group

_SHUT, _OPEN = -20.0, 20.0
"""Inputs of the sigmoid that give beta = 0 to 4e-9, and exactly 2 in float32 (theory E5)."""
_LONG, _SHORT = 1.8, 0.2
"""Lengths after the silu: of keys and queries, which are normalised then, and of values."""
_PARITY = 5.0
"""The parity's value, which is never negative: the larger, the less its state's error counts."""
_LONGER = 30.0
"""Length of the parity's key, which has no negative entries: `unit` leaves it shorter by 1e-9."""
_QUERY = torch.tensor([math.cos(math.pi / 12), math.sin(math.pi / 12)], dtype=torch.float64)
"""At 15 degrees to the nearest mirror, as far as can be from all of them."""


def check_fits(config: LoopedConfig) -> None:
    """Whether the solution has a place in a model.

    Args:
        config: The model's.

    Raises:
        ValueError: It is not one DeltaNet block without convolution, two loops under `rescan`, beta
            in (0, 2), at least two heads and 128 channels, `norm_eps` of at least 1e-3, for the
            vocabulary of S3.
    """
    needed: dict[str, object] = {
        "pattern": "deltanet",
        "num_layers": 1,
        "num_loops": 2,
        "loop_state": "rescan",
        "conv_width": 0,
        "negative_eigenvalues": True,
        "vocab_size": 6,
        "positions": "none",
    }
    for name, value in needed.items():
        if getattr(config, name) != value:
            raise ValueError(f"{name}: got {getattr(config, name)!r}, allowed is {value!r}")
    if config.norm_eps < 1e-3:
        raise ValueError(f"norm_eps: got {config.norm_eps}, allowed are numbers >= 0.001")
    if config.width < 128 or config.num_heads < 2 or config.key_dim < 16:
        raise ValueError(
            f"width: got {config.width} with {config.num_heads} heads of {config.key_dim}, allowed "
            "are at least 128 with two heads of 16"
        )


def solve(model: LoopedModel) -> None:
    """Set a model's weights to the solution; heads 3 and up keep theirs, but are not read.

    Args:
        model: The model.

    Raises:
        ValueError: As in `check_fits`.
    """
    check_fits(model.config)
    block = model.blocks[0]
    assert isinstance(block, Block)
    with torch.no_grad():
        _solve(model, block, _cases())


@dataclass(frozen=True)
class _Cases:
    """The finite functions behind the solution, over (token, parity after it).

    Attributes:
        flips: Whether the token flips the parity, `[6]`.
        key: Normal of the reflection of loop 2 in the plane, `[6 2 2]`.
        product: The product P by (parity, state of loop 2), `[2 6]`.
        states: The six states of loop 2 as matrices, `[6 2 2]`.
    """

    flips: Tensor
    key: Tensor
    product: Tensor
    states: Tensor


def _cases() -> _Cases:
    matrices = _representation()
    flips = torch.linalg.det(matrices) > 0
    mirror = matrices[int(torch.nonzero(~flips)[0])]
    power = torch.stack([torch.eye(2, dtype=torch.float64), mirror])
    keys = torch.zeros(6, 2, 2, dtype=torch.float64)
    for token in range(6):
        for parity in range(2):
            before = parity ^ int(flips[token])
            factor = power[parity] @ matrices[token] @ power[before]
            # A reflection I - 2 k k^T; its normal is pointed into the upper half plane.
            values, vectors = torch.linalg.eigh(factor)
            normal = vectors[:, int(values.argmin())]
            upper = normal[1] if normal[1].abs() > 1e-9 else normal[0]
            keys[token, parity] = normal * upper.sign()
    products = torch.empty(2, 6, dtype=torch.long)
    for parity in range(2):
        for state in range(6):
            product = power[parity] @ matrices[state]
            products[parity, state] = int((matrices - product).abs().sum((1, 2)).argmin())
    return _Cases(flips, keys, products, matrices)


def _representation() -> Float[Tensor, "6 2 2"]:
    """S3 as the symmetries of a triangle, in the order of the task's tokens."""
    plane = np.array([[1, -1, 0], [1, 1, -2]]).T / np.sqrt([2.0, 6.0])
    matrices = []
    for name in group("S3").names:
        images = list(range(3))
        for cycle in name.strip("()").split(")("):
            moved = [int(point) - 1 for point in cycle.split()]
            for here, there in zip(moved, moved[1:] + moved[:1], strict=True):
                images[here] = there
        matrices.append(plane.T @ np.eye(3)[:, images] @ plane)
    return torch.from_numpy(np.stack(matrices))


def _solve(model: LoopedModel, block: Block, cases: _Cases) -> None:
    config, free = model.config, torch.Generator().manual_seed(0)
    width, eps = config.width, config.norm_eps
    values, scale = config.mixer_options(config.layers[0]).value_dim, config.key_dim**-0.5

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=free, dtype=torch.float64)

    # What the heads write where: the parity's one channel, and both coordinates of the state.
    out = torch.zeros(width, config.num_heads * values, dtype=torch.float64)
    out[:, 0] = 0.25 * drawn(width)
    out[:, values : 2 * values] = _halves(drawn(2, width).T, values) * 2 / values
    parity = torch.zeros(2, values, dtype=torch.float64)
    parity[1, 0] = 2 * _PARITY * scale
    states = _halves(_SHORT * scale * (cases.states.mT @ _QUERY - _QUERY), values)

    # The residual stream: token, after loop 1's mixer (token, parity), after loop 1, and so on.
    start = model.embedding.weight.double()
    middle = start[:, None] + _normed(parity, eps) @ out[:, :values].T
    codes = drawn(6, 2, width)
    looped = (middle + codes).flatten(0, 1)
    late = looped[:, None] + _normed(states, eps) @ out[:, values : 2 * values].T
    product = cases.product[torch.arange(12) % 2]
    answers = drawn(6, width)[product]

    assert isinstance(block.mixer, DeltaMixer)
    assert block.ffn is not None
    block.mixer.o_proj.weight.copy_(out)
    _set_mixer(block.mixer, _normed(torch.cat([start, looped]), eps), cases, values)
    read = torch.cat([middle.flatten(0, 1), late.flatten(0, 1)])
    change = torch.cat([codes.flatten(0, 1), answers.flatten(0, 1)])
    _set_ffn(block.ffn, _normed(read, eps), change, drawn)
    final = _normed((late + answers).flatten(0, 1), eps)
    model.head.weight.copy_(_fitted(final, 10.0 * F.one_hot(product.flatten(), 6).double()))


def _set_mixer(mixer: DeltaMixer, x: Tensor, cases: _Cases, values: int) -> None:
    """Heads 0 and 1, by what they do in loop 1 (6 rows of x) and loop 2 (12 rows)."""
    width = mixer.options.head_dim
    axis = torch.zeros(18, width, dtype=torch.float64)
    axis[:, 0] = 1.0
    plane = torch.zeros(18, 2, dtype=torch.float64)
    plane[:6, 0], plane[6:] = 1.0, cases.key.flatten(0, 1)
    written = torch.zeros(2, 18, values, dtype=torch.float64)
    written[0, :, 0] = _PARITY
    written[1, 6:] = _halves(-_SHORT * plane[6:], values)
    strength = torch.full((18, 2), _SHUT, dtype=torch.float64)
    strength[:6, 0][cases.flips] = _OPEN
    strength[6:, 1] = _OPEN
    query = _lifted(_QUERY.expand(18, 2), width)
    targets = {
        mixer.q_proj: torch.cat([_LONG * axis, _LONG * query], 1),
        mixer.k_proj: torch.cat([_LONGER * axis, _LONG * _lifted(plane, width)], 1),
        mixer.v_proj: torch.cat([*written], 1),
    }
    for layer, target in targets.items():
        layer.weight[: target.shape[1]] = _fitted(x, _before_silu(target)).float()
    mixer.b_proj.weight[:2] = _fitted(x, strength).float()


def _set_ffn(ffn: SwiGLU, x: Tensor, change: Tensor, drawn: Callable[..., Tensor]) -> None:
    """Hidden units at random, and the output by which they make the wanted change."""
    hidden, width = ffn.w1.weight.shape
    ffn.w1.weight.copy_(4.0 * width**-0.5 * drawn(hidden, width))
    ffn.w3.weight.copy_(4.0 * width**-0.5 * drawn(hidden, width))
    units = F.silu(x @ ffn.w1.weight.double().T) * (x @ ffn.w3.weight.double().T)
    ffn.w2.weight.copy_(_fitted(units, change))


def _lifted(points: Float[Tensor, "n 2"], width: int) -> Float[Tensor, "n width"]:
    """Points of the plane, its first axis spread over all channels but the last."""
    spread = points[:, :1].expand(-1, width - 1) * (width - 1) ** -0.5
    return torch.cat([spread, points[:, 1:]], 1)


def _halves(points: Float[Tensor, "n 2"], values: int) -> Float[Tensor, "n values"]:
    """Both coordinates, each in half of the value channels; an odd one stays empty."""
    both = points.repeat_interleave(values // 2, 1)
    return F.pad(both, (0, values % 2))


def _normed(x: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], eps=eps)


def _before_silu(y: Tensor) -> Tensor:
    """Inverse of silu on the branch right of its minimum, by bisection."""
    low, high = torch.full_like(y, -1.27), torch.full_like(y, 50.0)
    for _ in range(80):
        middle = (low + high) / 2
        above = F.silu(middle) > y
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return torch.where(y == 0, 0.0, (low + high) / 2)


def _fitted(x: Float[Tensor, "n d"], y: Float[Tensor, "n m"]) -> Float[Tensor, "m d"]:
    """The least matrix that sends every row of x to that of y."""
    least: Tensor = torch.linalg.pinv(x) @ y
    return least.T
