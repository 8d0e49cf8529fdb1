"""M6: what the delta rule remembers, and how large it lets the state grow."""

import itertools
from typing import TypeVar

import numpy as np
import torch
from flint import fmpq, fmpq_mat
from scipy import stats
from sympy import (
    Expr,
    Integer,
    Interval,
    Rational,
    Symbol,
    expand,
    maximum,
    minimum,
    simplify,
    symbols,
)

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import Rational as Number
from proofs_checks.exact import column, factor, rational

LEVEL = 1e-3
"""Level of the statistical test, over all its comparisons together."""


@claim(
    "M6",
    "mean recall and mean energy of the delta rule",
    statement=(
        "Without gates a pair is read back s tokens later as beta (1 - beta/d_k)^s v on average; "
        "E|S_t|_F^2 = d_k d_v beta/(2 - beta) (1 - (1 - beta(2 - beta)/d_k)^t), which tends to "
        "d_k d_v beta/(2 - beta) for beta < 2, and is 4 d_v t at beta = 2."
    ),
    conditions=(
        "keys independent, isotropic and of length one; values independent of them and of each "
        "other, of mean zero and unit variance; one beta in (0, 2]; no gate; S_0 = 0"
    ),
    scope="all",
    source="derivation; LT2, App. B for the bound on a factor only",
    evidence="symbolic",
    mutants={
        "keys of squared length 2": {"squared_length": 2},
        "anisotropic keys": {"second_moment": Symbol("C", commutative=False)},
        "values of variance 2": {"variance": 2},
        "values of mean other than zero": {"mean": Symbol("mean", commutative=False)},
        "a gate": {"decay": Rational(1, 2)},
        "beta beyond 2": {"greatest_beta": Rational(9, 4)},
        "a state to start from": {"start": 1},
    },
)
def growth(
    *,
    fast: bool,
    squared_length: int = 1,
    second_moment: Expr | None = None,
    variance: int = 1,
    mean: Expr | int = 0,
    decay: Expr = Integer(1),  # noqa: B008 - a number
    greatest_beta: Expr = Integer(2),  # noqa: B008 - a number
    start: int = 0,
) -> Finding:
    """One step in letters, averaged over its own pair; then the recursion and its limit.

    `S'^T S'` is expanded, k^T k put in, and k k^T, which then stands alone between earlier states,
    is replaced by its mean I / d_k; the terms with one v by its mean, v v^T by its own (trace d_v).
    """
    letters = ("S", "St", "k", "kt", "v", "vt", "jt")
    S, St, k, kt, v, vt, jt = (Symbol(letter, commutative=False) for letter in letters)
    b, d, dv = symbols("b d dv", positive=True)
    t = Symbol("t", integer=True, nonnegative=True)
    spread = 1 / d if second_moment is None else second_moment
    step = decay * (S - b * k * kt * S) + b * k * vt
    turned = decay * (St - b * St * k * kt) + b * v * kt
    square = expand(turned * step)
    for _ in range(2):
        square = expand(square.subs(kt * k, squared_length))
    square = expand(square.subs(v * vt, variance * dv))
    square = expand(square.subs({k * vt: k * mean, v * kt: mean * kt}).subs(k * kt, spread))
    energy = Symbol("E", positive=True)
    stepped = square.subs(St * S, energy)
    ratio = 1 - b * (2 - b) / d
    follows = expand(stepped - (ratio * energy + b**2 * dv)) == 0
    closed = d * dv * b / (2 - b) * (1 - ratio**t)
    begins = closed.subs(t, 0) == start
    goes_on = simplify(ratio * closed + b**2 * dv - closed.subs(t, t + 1)) == 0
    # At beta = 2 the ratio is 1, so every token adds b^2 d_v.
    linear = (b**2 * dv).subs(b, 2) == 4 * dv and ratio.subs(b, 2) == 1
    # In [0, 1) for every d >= 1, so that the closed form tends to its first factor.
    least = minimum(1 - b * (2 - b), b, Interval(0, greatest_beta)) >= 0
    most = maximum(1 - b * (2 - b), b, Interval(0, greatest_beta)) <= 1
    # A pair's own key j reads what is left of it: on average (1 - b/d) of it a token.
    recall = expand(expand(jt * decay * (S - b * k * kt * S)).subs(k * kt, spread))
    one_on = expand(recall - (1 - b / d) * jt * S) == 0
    stored = expand(b * kt * k * vt).subs(kt * k, squared_length) == b * vt
    found = (follows, begins, goes_on, linear, least, most, one_on, stored)
    return Finding(all(bool(x) for x in found))


Item = TypeVar("Item")
Key = tuple[Number, Number]
_BETAS: tuple[Number, ...] = ((1, 2), 1, (3, 2), 2)
_AXES: tuple[Key, ...] = ((1, 0), (0, 1))
_TILTED: tuple[Key, ...] = (((3, 5), (4, 5)), ((4, 5), (-3, 5)))
_UNEVEN: tuple[Key, ...] = ((1, 0), (1, 0), (0, 1))


@claim(
    "M6",
    "the same, sequence by sequence",
    statement=(
        "The means over all sequences are beta (1 - beta/d_k)^s and "
        "d_k d_v beta/(2 - beta) (1 - (1 - beta(2 - beta)/d_k)^t), or 4 d_v t at beta = 2."
    ),
    conditions=(
        "keys independent, isotropic and of length one; values independent of them and of each "
        "other, of mean zero and unit variance; no gate; S_0 = 0"
    ),
    scope=(
        "all sequences of t <= 4 pairs, keys from two pairs of axes of the plane (d_k = 2), values "
        "+-1 (d_v = 1), beta = 1/2, 1, 3/2, 2"
    ),
    source="derivation",
    evidence="exact",
    mutants={
        "the same key again": {"same_key": True},
        "anisotropic keys": {"designs": (_UNEVEN,)},
        "the same value again": {"same_value": True},
        "values that follow the keys": {"follow": True},
        "values of mean other than zero": {"signs": (1, 1)},
        "a decay": {"decay": (1, 2)},
    },
)
def enumerated(
    *,
    fast: bool,
    same_key: bool = False,
    same_value: bool = False,
    follow: bool = False,
    designs: tuple[tuple[Key, ...], ...] = (_AXES, _TILTED),
    signs: tuple[int, ...] = (1, -1),
    decay: Number = 1,
) -> Finding:
    """Exact means; the age-s recall of the first pair is the mean of v_1 k_1^T S_{s + 1}."""
    longest = 3 if fast else 4
    for points, beta in itertools.product(designs, _BETAS):
        for t in range(1, longest + 1):
            drawn = [
                (keys, tuple(1 if key == points[0] else -1 for key in keys) if follow else values)
                for keys in _sequences(points, t, same=same_key)
                for values in _sequences(signs, t, same=same_value)
            ]
            energy = recall = fmpq(0)
            for keys, values in drawn:
                state = fmpq_mat(2, 1)
                for key, value in zip(map(column, keys), values, strict=True):
                    state = factor(key, beta, None, order="decay_first") * state * rational(decay)
                    state += key * (rational(beta) * value)
                energy += (state.transpose() * state)[0, 0] / len(drawn)
                recall += (column(keys[0]).transpose() * state)[0, 0] * values[0] / len(drawn)
            told_energy, told_recall = _told(rational(beta), t)
            if energy != told_energy or recall != told_recall:
                said = f"keys {points}, beta = {rational(beta)}, t = {t}: {energy}, {recall}"
                return Finding(False, counterexample=said)
    return Finding(True, scope=f"all sequences of t <= {longest} pairs, d_k = 2, d_v = 1")


def _sequences(items: tuple[Item, ...], length: int, *, same: bool) -> list[tuple[Item, ...]]:
    if same:
        return [(item,) * length for item in items]
    return list(itertools.product(items, repeat=length))


def _told(beta: fmpq, t: int) -> tuple[fmpq, fmpq]:
    """Energy and recall of the first of t pairs, at d_k = 2 and d_v = 1."""
    recall = beta * (1 - beta / 2) ** (t - 1)
    if beta == 2:
        return fmpq(4 * t), recall
    return 2 * beta / (2 - beta) * (1 - (1 - beta * (2 - beta) / 2) ** t), recall


@claim(
    "M6",
    "the same on random keys",
    statement="On uniform unit keys and normal values the op's means are the closed forms.",
    conditions="keys independent and isotropic, values independent, of mean zero and unit variance",
    scope="4,000 runs of 24 tokens, d_k = 8, d_v = 4, beta = 1/2, 1, 3/2, 2, seed 6",
    source="lt2theory.ops.linear_recurrence",
    evidence="statistical",
    mutants={
        "rectified keys": {"rectify": True},
        "values of mean other than zero": {"mean": 0.3},
        "the limit of another beta": {"told_beta": 1.0},
    },
)
def simulated(
    *,
    fast: bool,
    seed: int = 6,
    rectify: bool = False,
    mean: float = 0.0,
    told_beta: float | None = None,
) -> Finding:
    """Two-sided one-sample t-tests, Bonferroni over all: energy, and recall at ages 0, 3 and 10.

    The margin is the smallest p-value less its level.
    """
    runs, length, width, values_width = 1000 if fast else 4000, 24, 8, 4
    rng = np.random.default_rng(seed)
    pvalues = []
    for beta in (0.5, 1.0, 1.5, 2.0):
        drawn = rng.standard_normal((runs, length, 1, width))
        drawn = np.maximum(drawn, 1e-9) if rectify else drawn
        k = torch.from_numpy(drawn / np.linalg.norm(drawn, axis=-1, keepdims=True))
        v = torch.from_numpy(rng.standard_normal((runs, length, 1, values_width)) + mean)
        erase = torch.full((runs, length, 1), beta, dtype=torch.float64)
        _, state = linear_recurrence(k, k, v, beta=erase, backend="chunked", return_state=True)
        b = told_beta or beta
        ratio = 1 - b * (2 - b) / width
        limit = width * values_width * b / (2 - b) if b < 2 else 0.0
        closed = limit * (1 - ratio**length) if b < 2 else 4.0 * values_width * length
        pvalues.append(stats.ttest_1samp(state.square().sum((1, 2, 3)).numpy(), closed).pvalue)
        for age in (0, 3, 10):
            at = length - 1 - age
            read = torch.einsum("bhkv,bhk->bhv", state, k[:, at])
            overlap = (read * v[:, at]).sum((1, 2)) / values_width
            told = b * (1 - b / width) ** age
            pvalues.append(stats.ttest_1samp(overlap.numpy(), told).pvalue)
    margin = float(min(pvalues)) - LEVEL / len(pvalues)
    return Finding(margin > 0, margin=margin, scope=f"{runs} runs of {length} tokens, seed {seed}")


CLAIMS: tuple[Claim, ...] = (growth, enumerated, simulated)
