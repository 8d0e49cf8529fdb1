"""M1: how far stored pairs disturb each other in linear attention."""

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from flint import fmpq, fmpq_mat
from scipy import stats
from sympy import (
    Expr,
    Integer,
    Max,
    Symbol,
    diff,
    simplify,
    sqrt,
    symbols,
)

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.drawn_keys import DrawnKeys, draw_keys
from proofs_checks.exact import column

LEVEL = 1e-3
"""Level of the statistical tests, over all comparisons of one claim together."""

Fraction = int | tuple[int, int]
Points = tuple[tuple[Fraction, ...], ...]
_CROSS: Points = ((1, 0), (-1, 0), (0, 1), (0, -1))
# Skew, and not along axes: six unit vectors of mean zero and covariance I / 2.
_TILTED: Points = (
    ((3, 5), (4, 5)), ((-3, 5), (-4, 5)), ((4, 5), (-3, 5)), ((-4, 5), (3, 5)),
)  # fmt: skip
_SOLID: Points = ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))
_DESIGNS: dict[str, tuple[Points, ...]] = {
    "good": (_CROSS, _TILTED, _SOLID),
    "uneven": (((1, 0), (-1, 0), (1, 0), (-1, 0), (0, 1), (0, -1)),),
    "lopsided": (((1, 0), (0, 1)),),
    "double": (((2, 0), (-2, 0), (0, 2), (0, -2)),),
}


@claim(
    "M1",
    "recall is unbiased, with interference sum |v_i|^2 / d_k",
    statement=(
        "Linear attention reads S^T k_j = v_j on average, and the mean energy of the rest is "
        "sum_{i != j} |v_i|^2 / d_k."
    ),
    scope=(
        "every assignment of n <= 4 keys from two designs of four unit vectors (d_k = 2) and one "
        "of six (d_k = 3); only first and second moments of the keys enter"
    ),
    source="derivation; arXiv 2504.14366 for the question",
    evidence="exact",
    hypotheses={
        "keys independent": {"the same key for all": {"independent": False}},
        "isotropic": {"anisotropic keys": {"keys": "uneven"}},
        "of mean zero": {"keys of mean other than zero": {"keys": "lopsided"}},
        "of length one": {"keys of length two": {"keys": "double"}},
        "values independent of them": {"values that are the keys": {"values_are_keys": True}},
        "S_0 = 0": {"a state to start from": {"start": 1}},
    },
    mutants={"the pair itself counted as interference": {"own": True}},
)
def interference(
    *,
    fast: bool,
    independent: bool = True,
    keys: Literal["good", "uneven", "lopsided", "double"] = "good",
    values_are_keys: bool = False,
    start: int = 0,
    own: bool = False,
) -> Finding:
    """Exact means over all assignments of keys, with the pairs written and read one by one."""
    values = [column(v) for v in ((1, 2), (3, -1), (2, 2), (-1, 1))]
    for points in _DESIGNS[keys]:
        each_key = [column(point) for point in points]
        width = each_key[0].nrows()
        for count in (2, 3) if fast or width > 2 else (2, 3, 4):
            same = [(key,) * count for key in each_key]
            drawn = list(itertools.product(each_key, repeat=count)) if independent else same
            mean, energy, told = column((0, 0)), fmpq(0), fmpq(0)
            for chosen in drawn:
                written = _pairs(chosen, chosen if values_are_keys else values)
                begun = fmpq_mat(width, 2, [start] * (2 * width))
                state = sum((k * v.transpose() for k, v in written), begun)
                noise = state.transpose() * chosen[0] - written[0][1]
                mean += noise * fmpq(1, len(drawn))
                energy += (noise.transpose() * noise)[0, 0] / len(drawn)
                others = [v for _, v in written[0 if own else 1 :]]
                told += sum(((v.transpose() * v)[0, 0] for v in others), fmpq(0)) / width
            told /= len(drawn)
            if mean != column((0, 0)) or energy != told:
                said = f"{count} keys of {points}: bias {mean}, energy {energy}, told {told}"
                return Finding(False, counterexample=said.replace("\n", " "))
    return Finding(True, scope="n <= 3 keys from the three designs" if fast else None)


def _pairs(keys: Sequence[fmpq_mat], values: Sequence[fmpq_mat]) -> list[tuple[fmpq_mat, fmpq_mat]]:
    return list(zip(keys, values, strict=False))


@claim(
    "M1",
    "the same on random keys",
    statement="On uniform unit keys the op's recall is v_j, and its noise sum |v_i|^2 / d_k.",
    scope="2,000 draws of 24 pairs, d_k = 16, d_v = 4, seed 6",
    source="lt2theory.ops.linear_recurrence",
    evidence="statistical",
    hypotheses={
        "keys independent": {"each key twice": {"drawn": "twice"}},
        "isotropic": {"a channel three times as large": {"drawn": "uneven"}},
        "of mean zero": {"keys of a half space": {"drawn": "half_space"}},
        "of length one": {"keys of squared length 2": {"drawn": "long"}},
        "values independent of them": {"channels of the keys as values": {"follow": True}},
        "S_0 = 0": {"a state to start from": {"start": 1.0}},
    },
    mutants={"the energy without 1 / d_k": {"told_width": 1}},
)
def random_keys(
    *,
    fast: bool,
    seed: int = 6,
    drawn: DrawnKeys = "uniform",
    follow: bool = False,
    start: float = 0.0,
    told_width: int = 16,
) -> Finding:
    """Two-sided one-sample t-tests of the mean overlap and of the mean noise, Bonferroni over both.

    The margin is the smaller p-value less its level.
    """
    draws, pairs, width = 500 if fast else 2000, 24, 16
    rng = np.random.default_rng(seed)
    keys = torch.from_numpy(draw_keys(rng, draws, pairs, width, drawn))
    values = torch.from_numpy(rng.standard_normal((1, pairs, 1, 4))).expand(draws, -1, -1, -1)
    values = keys[..., :4] if follow else values
    begun = torch.full((draws, 1, width, 4), start, dtype=torch.float64)
    _, state = linear_recurrence(
        keys, keys, values, initial_state=begun, backend="chunked", return_state=True
    )
    target = values[:, 0, 0]
    noise = torch.einsum("bhkv,bhk->bv", state, keys[:, 0]) - target
    told = float(values[:, 1:].square().sum()) / draws / told_width
    # Along the sum of the others: keys of a half space lean that way.
    along = (noise * values[:, 1:, 0].sum(1)).sum(-1)
    tests = ((along, 0.0), (noise.square().sum(-1), told))
    least = min(float(stats.ttest_1samp(x.numpy(), mean).pvalue) for x, mean in tests)
    margin = least - LEVEL / len(tests)
    return Finding(margin > 0, margin=margin, scope=f"{draws} draws of {pairs} pairs, seed {seed}")


@claim(
    "M1",
    "silu and relu keys are biased",
    statement=(
        "Keys silu(z) or relu(z), normalised or not, have a positive mean in every channel; so "
        "recall leans towards each other value by E k_i^T k_j = |E k|^2 > 0."
    ),
    scope="all",
    source="derivation; the toolkit's delta mixers have normalised silu keys, as FLA's",
    evidence="symbolic",
    expected="holds_with_conditions",
    hypotheses={
        "each channel of z is symmetric about 0 given the others": {
            "z is not symmetric": {"mirrored": -2}
        },
        "it is not always zero": {"z is zero": {"above_one": 0}},
        "normalised silu keys: d_k >= 2": {"one channel": {"others": 0}},
        "for |E k|^2 the keys of different tokens are independent": {
            "the same key for all": {"independent": False}
        },
    },
    where="of a single channel normalising keeps only the sign",
    mutants={"an odd activation": {"odd": True}},
)
def activated_keys(
    *,
    fast: bool,
    mirrored: int = -1,
    above_one: int | None = None,
    others: int | None = None,
    independent: bool = True,
    odd: bool = False,
) -> Finding:
    """A value z > 0 of a channel against its mirror image, the other channels fixed.

    Their mean is half of f(z) + f(-z) > 0, where e^z = 1 + x with x > 0. Normalised, the channel is
    g(f) = f / sqrt(f^2 + r), odd, and strictly growing where r, the energy of the others, is
    positive; so f(z) > -f(-z) gives g(f(z)) + g(f(-z)) > 0.
    """
    positive, real = symbols("z r x", positive=True), Symbol("f", real=True)
    z, r, x = positive
    r = r if others is None else Integer(others)
    x = x if above_one is None else Integer(above_one)

    def silu(times: int) -> Expr:
        raised = (1 + x) ** times
        return times * z if odd else times * z * raised / (1 + raised)

    leans = simplify(silu(1) + silu(mirrored)).is_positive
    rectified = (Max(z, 0) + Max(mirrored * z, 0)).is_positive
    normalised = real / sqrt(real**2 + r)
    grows = simplify(diff(normalised, real)).is_positive
    mirrors = simplify(normalised + normalised.subs(real, -real)) == 0
    # The overlap of two keys of one channel, each one of two values alike.
    two = symbols("p n", real=True)
    drawn = list(itertools.product(two, repeat=2) if independent else zip(two, two, strict=True))
    overlap = sum(x * y for x, y in drawn) / len(drawn)
    leans = leans and simplify(overlap - (sum(two) / 2) ** 2) == 0
    return Finding(bool(leans and rectified and grows and mirrors))


CLAIMS: tuple[Claim, ...] = (interference, random_keys, activated_keys)
