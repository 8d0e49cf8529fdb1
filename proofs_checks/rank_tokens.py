"""R11: what n tokens of T loops each can erase."""

import itertools
import random

from flint import fmpq_mat
from sympy import Mul

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, identity, product, random_column
from proofs_checks.letters import letters, vanishes
from proofs_checks.loops import ORDERS, Gates, loops, random_decays, random_strength


@claim(
    "R11",
    "corrections of successive spans add columns",
    statement=(
        "With A = P_A - C_A and B = P_B - C_B, P_B P_A - B A = B C_A + C_B P_A: the columns of two "
        "spans add up, and n tokens of T loops have rank at most min(nT, d_k)."
    ),
    scope="all",
    source="derivation, with R7 for one token",
    evidence="symbolic",
    hypotheses={
        "the baseline is the product of the baselines": {"baseline I": {"named_baseline": False}},
        "later spans on the left": {"later spans on the right": {"later_on_the_left": False}},
        "one erasure a factor": {"a second one in the later span": {"erasures": 2}},
    },
    where="C = U V^T has one column an erasure (R7), whatever keys, strengths and gates are",
    mutants={"the later span does not act on the earlier correction": {"carried": False}},
)
def spans_add(
    *,
    fast: bool,
    named_baseline: bool = True,
    later_on_the_left: bool = True,
    erasures: int = 1,
    carried: bool = True,
) -> Finding:
    """Induction on n: `[B U_A, U_B] [V_A, P_A^T V_B]^T` has the columns of both."""
    PA, PB, UA, UB, VA, VB = letters("PA PB UA UB VA VB")
    A, B = PA - UA * VA, PB - UB * VB
    for other in range(1, erasures):
        B -= Mul(*letters(f"U{other} V{other}"))
    baseline = PB * PA if named_baseline else 1
    total = B * A if later_on_the_left else A * B
    claimed = (B if carried else PB) * UA * VA + UB * (VB * PA)
    return Finding(vanishes(baseline - total - claimed))


@claim(
    "R11",
    "rank over tokens and loops",
    statement=(
        "Over n tokens the accumulated correction has rank at most min(nT, d_k), attained for "
        "independent keys without gates and in general with them."
    ),
    scope="every n <= 3, T <= 3, d_k <= 7: an instance that attains it, and 20 degenerate ones",
    source="derivation",
    evidence="exact",
    hypotheses={
        "the baseline is prod(D) over all n tokens": {"baseline I": {"named_baseline": False}},
        "one erasure a factor": {"two erasures a factor": {"erasures": 2}},
        "keys in general position (for attaining it)": {"for any keys": {"generic": False}},
        "all beta non-zero (for attaining it)": {"a beta of 0": {"zero_beta": True}},
        "no decay is zero (for attaining it)": {"decays of 0": {"zero_decay": True}},
    },
    mutants={"T alone bounds it": {"tokens_count": False}},
)
def tokens_times_loops(
    *,
    fast: bool,
    named_baseline: bool = True,
    erasures: int = 1,
    generic: bool = True,
    zero_beta: bool = False,
    zero_decay: bool = False,
    tokens_count: bool = True,
) -> Finding:
    """Both orders, all three kinds of gates; token by token, and loop by loop within a token."""
    rng = random.Random(11)
    widths = range(1, 5 if fast else 8)
    kinds: tuple[Gates, ...] = ("none", "scalar", "diagonal")
    for size, tokens, count in itertools.product(widths, (1, 2, 3), (1, 2, 3)):
        shape = (tokens, count)
        most = min(size, (tokens if tokens_count else 1) * count)
        for gates, order in itertools.product(kinds, ORDERS):
            spans = _keys(rng, size, shape, erasures)
            base, total = _span(rng, spans, gates, order, zero_beta, zero_decay)
            rank = ((base if named_baseline else identity(size)) - total).rank()
            if rank != most:
                said = f"n = {tokens}, T = {count}, d = {size}, {gates}, {order}: {rank}"
                return Finding(False, counterexample=said)
        for _ in range(4 if fast else 20):
            gates, order = rng.choice(kinds), rng.choice(ORDERS)
            base, total = _span(rng, _keys(rng, size, shape, 1, pool=2), gates, order)
            rank = (base - total).rank()
            if rank > most or (not generic and rank < most):
                return Finding(False, counterexample=f"two keys only: rank {rank}")
    said = f"every n <= 3, T <= 3, d_k <= {widths[-1]}, all gates, both orders"
    return Finding(True, scope=said)


Spans = list[list[fmpq_mat]]


def _keys(
    rng: random.Random, size: int, shape: tuple[int, int], erasures: int, *, pool: int = 0
) -> Spans:
    """Keys of n tokens of T loops, from a pool of some, or all different."""
    some = [random_column(rng, size) for _ in range(pool)]
    tokens, count = shape
    return [
        [
            rng.choice(some) if some else column([rng.randint(-60, 60) for _ in range(size)])
            for _ in range(count * erasures)
        ]
        for _ in range(tokens)
    ]


def _span(
    rng: random.Random,
    spans: Spans,
    gates: Gates,
    order: str,
    zero_beta: bool = False,
    zero_decay: bool = False,
) -> tuple[fmpq_mat, fmpq_mat]:
    """Baseline and effective transition of all tokens together."""
    found = []
    for keys in spans:
        size = keys[0].nrows()
        betas = [random_strength(rng) * int(not zero_beta or t > 0) for t in range(len(keys))]
        decays = random_decays(rng, size, len(keys), gates)
        if zero_decay and gates != "none":
            decays[0] = decays[0] * 0
        found.append(loops(keys, betas, decays, order=order))
    return product([f.baseline() for f in found]), product([f.effective() for f in found])


CLAIMS: tuple[Claim, ...] = (spans_add, tokens_times_loops)
