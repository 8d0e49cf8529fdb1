"""M5 and M6: the rank of a state, and that factors which do not expand do not bound it."""

import itertools
import random

import numpy as np
import torch
from flint import fmpq, fmpq_mat

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import Rational as Number
from proofs_checks.exact import (
    column,
    diagonal,
    factor,
    matrix,
    random_column,
    random_rational,
    rational,
)


@claim(
    "M5",
    "rank of the state",
    statement="rank(S_t) <= min(F t, d_k, d_v) with F writes a token.",
    scope=(
        "600 random rational runs with d_k, d_v <= 4, F <= 3, t <= 4, both factor orders with "
        "diagonal gates; whole-numbered runs by the op; generic runs attain the bound"
    ),
    source="derivation: every write adds one column; lt2theory.ops.linear_recurrence",
    evidence="exact",
    hypotheses={"S_0 = 0": {"a state to start from": {"empty_start": False}}},
    where="any keys, values, erasures and gates",
    mutants={"one write a token": {"writes": 1}},
)
def state_rank(*, fast: bool, empty_start: bool = True, writes: int | None = None) -> Finding:
    """Rank after every token, of the recursion in fractions and of the op's state."""
    rng = random.Random(5)
    attained = runs = 0
    for _ in range(60 if fast else 600):
        height, width, factors = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 3)
        state = fmpq_mat(height, width)
        if not empty_start:
            state[0, 0] = fmpq(1)
            state[height - 1, width - 1] = fmpq(1)
        for t in range(1, rng.randint(1, 4) + 1):
            for _ in range(factors):
                decays = diagonal([random_rational(rng, 0, 1) for _ in range(height)])
                order = rng.choice(("decay_first", "erase_first"))
                key, beta = random_column(rng, height), random_rational(rng, 0, 2)
                write = key * random_column(rng, width).transpose()
                state = factor(key, beta, decays, order=order) * state + write
            bound = min((writes or factors) * t, height, width)
            runs += 1
            attained += state.rank() == bound
            if state.rank() > bound:
                said = f"d_k = {height}, d_v = {width}, F = {factors}, t = {t}: {state.rank()}"
                return Finding(False, counterexample=said)
    by_op = all(_op_rank(seed, writes) for seed in range(3 if fast else 12))
    # Decays of 0 and coinciding keys are drawn at times; the others reach the bound.
    return Finding(2 * attained > runs and by_op, scope="60 random runs" if fast else None)


def _op_rank(seed: int, writes: int | None) -> bool:
    """Whole numbers stay whole, and far below 2^53, so the op's state has an exact rank."""
    rng = np.random.default_rng(seed)
    length, factors, width = 2, 2, 6
    drawn = rng.integers(-2, 3, (2, 1, length, factors, 1, width)).astype(float)
    k, v = torch.from_numpy(drawn)
    beta = torch.ones(1, length, factors, 1, dtype=torch.float64)
    q = torch.zeros(1, length, 1, width, dtype=torch.float64)
    _, state = linear_recurrence(q, k, v, beta=beta, backend="reference", return_state=True)
    whole = matrix([[int(x) for x in row] for row in state[0, 0].tolist()])
    return bool(whole.rank() <= min((writes or factors) * length, width))


_BELOW_TWO: tuple[Number, ...] = ((1, 2), 1, (3, 2))


@claim(
    "M6",
    "factors that do not expand do not bound the state",
    statement="Since |A| <= 1 for every factor (S1), the state of the delta rule stays bounded.",
    correction=(
        "|S_t| <= |S_0| + sum beta |k||v| is all that S1 gives. At beta = 2 one key is enough to "
        "reach it; with beta < 2 one key is not (|S| <= beta/(1 - |1 - beta|) |v|), but keys with "
        "k^T S = 0 are, at beta = 1 and d_k = 2 already, since then A S = S. The bounded mean "
        "is one over random keys"
    ),
    scope=(
        "d_k = d_v = 1: every sequence of t <= 8 values +-1 for beta = 1/2, 1, 3/2, 2, and the op; "
        "d_k = 2: 24 tokens in fractions"
    ),
    source="derivation",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "one key and beta < 2": {"beta = 3/2": {"greatest": (3, 2)}},
        "keys that see the state": {"keys along the state": {"avoids": False}},
    },
)
def unbounded(*, fast: bool, greatest: Number = 2, avoids: bool = True) -> Finding:
    """One channel by search over all signs; then a plane, where each key avoids the state."""
    longest = 6 if fast else 8
    for beta in map(rational, (*_BELOW_TWO, greatest)):
        for t in range(1, longest + 1):
            reached = max(abs(_scalar(beta, v)) for v in itertools.product((1, -1), repeat=t))
            if beta == rational(greatest):
                if reached != 2 * t:
                    return Finding(False)
            elif reached > beta / (1 - abs(1 - beta)):
                return Finding(False)
    signs = torch.tensor([1.0, -1.0] * 10, dtype=torch.float64).view(1, -1, 1, 1)
    ones = torch.ones_like(signs)
    states = linear_recurrence(ones, ones, signs, beta=2 * ones[..., 0], backend="reference")
    told = 2 * torch.arange(1, 21, dtype=torch.float64).view(1, -1, 1, 1) * signs
    grows = _plane(avoids) >= 24 * fmpq(1, 4)
    said = "d_k = d_v = 1, k = 1, beta = 2, v = 1, -1, 1, ...: S' = -S + 2v gives 2, -4, 6, -8, ..."
    return Finding(bool(grows and torch.equal(states, told)), counterexample=said)


def _scalar(beta: fmpq, values: tuple[int, ...]) -> fmpq:
    state = fmpq(0)
    for value in values:
        state = (1 - beta) * state + beta * value
    return state


def _plane(avoids: bool) -> fmpq:
    """|S|^2 after 24 tokens at beta = 1, |k| = 1 and |v| <= 1, each k orthogonal to the state.

    A right triangle with legs r = |S| and 2 m r / (m^2 - 1) has a rational third side, so that the
    next length is a fraction as well.
    """
    state, length = column((1, 0)), fmpq(1)
    for _ in range(24):
        m = 2
        while 2 * m * length > m * m - 1:
            m += 1
        value = 2 * m * length / (m * m - 1)
        x, y = state[0, 0] / length, state[1, 0] / length
        key = column((-y, x) if avoids else (x, y))
        state = factor(key, 1, None, order="decay_first") * state + key * value
        length = length * fmpq(m * m + 1, m * m - 1) if avoids else value
    return (state.transpose() * state)[0, 0]


CLAIMS: tuple[Claim, ...] = (state_rank, unbounded)
