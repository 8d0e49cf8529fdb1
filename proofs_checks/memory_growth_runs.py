"""M6: the means of `memory_growth` over all sequences of a few keys, and over random ones."""

import itertools
from typing import Literal, TypeVar

import numpy as np
import torch
from flint import fmpq
from scipy import stats

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.drawn_keys import draw_keys
from proofs_checks.exact import Rational as Number
from proofs_checks.exact import column, factor, rational

LEVEL = 1e-3
"""Level of the statistical test, over all its comparisons together."""

Item = TypeVar("Item")
Key = tuple[Number, Number]
_BETAS: tuple[Number, ...] = ((1, 2), 1, (3, 2), 2)
_DESIGNS: dict[str, tuple[tuple[Key, ...], ...]] = {
    "axes": (((1, 0), (0, 1)), (((3, 5), (4, 5)), ((4, 5), (-3, 5)))),
    "uneven": (((1, 0), (1, 0), (0, 1)),),
    "long": (((2, 0), (0, 2)),),
}


@claim(
    "M6",
    "the same, sequence by sequence",
    statement=(
        "The means over all sequences are beta (1 - beta/d_k)^s and "
        "d_k d_v beta/(2 - beta) (1 - (1 - beta(2 - beta)/d_k)^t), or 4 d_v t at beta = 2."
    ),
    scope=(
        "all sequences of t <= 4 pairs, keys from two pairs of axes of the plane (d_k = 2), values "
        "+-1 (d_v = 1), beta = 1/2, 1, 3/2, 2"
    ),
    source="derivation",
    evidence="exact",
    hypotheses={
        "keys independent": {"the same key again": {"same_key": True}},
        "isotropic": {"anisotropic keys": {"drawn_from": "uneven"}},
        "of length one": {"keys of length 2": {"drawn_from": "long"}},
        "values independent of them": {"values that follow the keys": {"follow": True}},
        "and of each other": {"the same value again": {"same_value": True}},
        "of mean zero": {"values that are all 1": {"signs": (1, 1)}},
        "and unit variance": {"values +-2": {"size": 2}},
        "one beta at all tokens": {"half of it at the first": {"first_share": (1, 2)}},
        "no gate": {"a decay": {"decay": (1, 2)}},
        "S_0 = 0": {"a state to start from": {"start": 1}},
    },
    mutants={"recall told for one token more": {"older": 1}},
)
def enumerated(
    *,
    fast: bool,
    same_key: bool = False,
    drawn_from: Literal["axes", "uneven", "long"] = "axes",
    follow: bool = False,
    same_value: bool = False,
    signs: tuple[int, ...] = (1, -1),
    size: int = 1,
    first_share: Number = 1,
    decay: Number = 1,
    start: int = 0,
    older: int = 0,
) -> Finding:
    """Exact means; the age-s recall of the first pair is the mean of v_1 k_1^T S_{s + 1}."""
    longest = 3 if fast else 4
    for points, beta in itertools.product(_DESIGNS[drawn_from], _BETAS):
        for t in range(1, longest + 1):
            drawn = [
                (keys, tuple(1 if key == points[0] else -1 for key in keys) if follow else values)
                for keys in _sequences(points, t, same=same_key)
                for values in _sequences(tuple(size * x for x in signs), t, same=same_value)
            ]
            energy = recall = fmpq(0)
            for keys, values in drawn:
                state = column((start, start))
                betas = [rational(beta) * rational(first_share)] + [rational(beta)] * (t - 1)
                for key, value, b in zip(map(column, keys), values, betas, strict=True):
                    state = factor(key, b, None, order="decay_first") * state * rational(decay)
                    state += key * (b * value)
                energy += (state.transpose() * state)[0, 0] / len(drawn)
                recall += (column(keys[0]).transpose() * state)[0, 0] * values[0] / len(drawn)
            told_energy, told_recall = _told(rational(beta), t, older)
            if energy != told_energy or recall != told_recall:
                said = f"keys {points}, beta = {rational(beta)}, t = {t}: {energy}, {recall}"
                return Finding(False, counterexample=said)
    return Finding(True, scope=f"all sequences of t <= {longest} pairs, d_k = 2, d_v = 1")


def _sequences(items: tuple[Item, ...], length: int, *, same: bool) -> list[tuple[Item, ...]]:
    if same:
        return [(item,) * length for item in items]
    return list(itertools.product(items, repeat=length))


def _told(beta: fmpq, t: int, older: int) -> tuple[fmpq, fmpq]:
    """Energy and recall of the first of t pairs, at d_k = 2 and d_v = 1."""
    recall = beta * (1 - beta / 2) ** (t - 1 + older)
    if beta == 2:
        return fmpq(4 * t), recall
    return 2 * beta / (2 - beta) * (1 - (1 - beta * (2 - beta) / 2) ** t), recall


@claim(
    "M6",
    "the same on random keys",
    statement=(
        "On unit keys from a half space, whose mean is not 0, and normal values the op's means are "
        "the closed forms."
    ),
    scope="4,000 runs of 24 tokens, d_k = 8, d_v = 4, beta = 1/2, 1, 3/2, 2, seed 6",
    source="lt2theory.ops.linear_recurrence",
    evidence="statistical",
    hypotheses={
        "keys independent": {"each key twice": {"drawn": "twice"}},
        "isotropic": {"a channel three times as large": {"drawn": "uneven"}},
        "of length one": {"keys of squared length 2": {"drawn": "long"}},
        "values independent of them": {"channels of the keys as values": {"values": "keys"}},
        "and of each other": {"one value a run": {"values": "same"}},
        "of mean zero": {"values of mean 0.6, and second moment 1": {"mean": 0.6}},
        "and unit variance": {"values of variance 4": {"deviation": 2.0}},
        "one beta at all tokens": {"half of it at the last": {"last_share": 0.5}},
        "no gate": {"a decay": {"decay": 0.9}},
        "S_0 = 0": {"a state to start from": {"start": 1.0}},
    },
    mutants={"the limit of another beta": {"told_beta": 1.0}},
)
def simulated(
    *,
    fast: bool,
    seed: int = 6,
    drawn: Literal["half_space", "twice", "uneven", "long"] = "half_space",
    values: Literal["normal", "keys", "same"] = "normal",
    mean: float = 0.0,
    deviation: float = 1.0,
    last_share: float = 1.0,
    decay: float | None = None,
    start: float = 0.0,
    told_beta: float | None = None,
) -> Finding:
    """Two-sided one-sample t-tests, Bonferroni over all: energy, and recall at ages 0, 3 and 10.

    The margin is the smallest p-value less its level.
    """
    runs, length, width, values_width = 1000 if fast else 4000, 24, 8, 4
    rng = np.random.default_rng(seed)
    pvalues = []
    for beta in (0.5, 1.0, 1.5, 2.0):
        k = torch.from_numpy(draw_keys(rng, runs, length, width, drawn))
        v = torch.from_numpy(rng.standard_normal((runs, length, 1, values_width)))
        by_name = {"normal": v, "keys": width**0.5 * k[..., :values_width], "same": v[:, :1]}
        v = deviation * (1 - mean**2) ** 0.5 * by_name[values] + mean
        v = v.expand(-1, length, -1, -1)
        erase = torch.full((runs, length, 1), beta, dtype=torch.float64)
        erase[:, -1] *= last_share
        _, state = linear_recurrence(
            k,
            k,
            v,
            beta=erase,
            log_decay=None if decay is None else torch.full_like(erase, decay).log(),
            initial_state=torch.full((runs, 1, width, values_width), start, dtype=torch.float64),
            backend="chunked",
            return_state=True,
        )
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


CLAIMS: tuple[Claim, ...] = (enumerated, simulated)
