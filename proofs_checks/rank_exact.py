"""R14: the rank of the correction between two bounds, and exactly inside (0, 2)."""

import random

from flint import fmpq, fmpq_mat
from sympy import Interval, Matrix, Symbol, solveset

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, identity, random_column
from proofs_checks.exact_vectors import norm2
from proofs_checks.letters import letters, reduced, scalars, vanishes
from proofs_checks.loops import Loops, loops, random_strength

Ends = tuple[int, int, bool, bool]
INSIDE: Ends = (0, 2, True, True)
"""Ends of the interval of beta |k|^2, and whether each is left out."""


@claim(
    "R14",
    "all erasures in (0, 2): the kernel",
    statement=(
        "|x|^2 - |F x|^2 = beta (2 - beta |k|^2) (k^T x)^2 for F = I - beta k k^T. So if all "
        "beta |k|^2 lie in (0, 2), A_T...A_1 x = x if and only if K^T x = 0, and "
        "rank(I - A_T...A_1) = rank(K)."
    ),
    scope="all",
    source="derivation: a vector whose length survives every factor is left unchanged by each",
    evidence="symbolic",
    hypotheses={
        "no gates": {"a gate": {"gated": True}},
        "all beta |k|^2 in the open interval (0, 2)": {
            "beta |k|^2 = 2 as well": {"ends": (0, 2, True, False)},
            "beta |k|^2 = 0 as well": {"ends": (0, 2, False, True)},
            "above 2": {"ends": (0, 3, True, True)},
            "below 0": {"ends": (-1, 2, True, True)},
        },
    },
)
def kernel(*, fast: bool, ends: Ends = INSIDE, gated: bool = False) -> Finding:
    """The loss of each factor in letters, and the sign of its weight on the whole interval.

    A fixed vector x loses nothing in sum, each loss is not negative, so k_1^T x = 0 and x is
    unchanged by the first factor; then k_2^T x = 0, and so on: the induction step is that F x = x
    where k^T x = 0.
    """
    k, kt, x = letters("k kt x")
    b, n = scalars("b n")
    gate = scalars("g")[0] if gated else 1
    rules = {(kt, k): n}
    F = (1 - b * k * kt) * gate
    loss = vanishes(1 - F * F - b * (2 - b * n) * k * kt, rules)
    unchanged = vanishes(F * x - x, {**rules, (kt, x): 0})
    # With w = beta |k|^2 the weight is w (2 - w) / |k|^2.
    w = Symbol("w", real=True)
    claimed = Interval(*ends)
    positive = solveset(w * (2 - w) > 0, w, claimed) == claimed
    return Finding(loss and unchanged and bool(positive))


@claim(
    "R14",
    "all erasures in (0, 2): the rank",
    statement="If all beta |k|^2 lie in (0, 2), rank(I - A_T...A_1) = rank(K).",
    scope="3,000 random rational instances, d <= 4, T <= 6, many of them dependent",
    source="derivation",
    evidence="exact",
    hypotheses={
        "no gates": {"a diagonal gate": {"gated": True}},
        "all beta |k|^2 in the open interval (0, 2)": {
            "beta |k|^2 = 2 as well": {"extra": 2},
            "beta |k|^2 = 0 as well": {"extra": 0},
            "above 2": {"extra": 3},
            "below 0": {"extra": -1},
        },
    },
)
def rank_inside(*, fast: bool, extra: int | None = None, gated: bool = False) -> Finding:
    """Keys from a small set, so that they often agree."""
    rng = random.Random(14)
    number = 150 if fast else 3000
    allowed = [fmpq(x, 3) for x in (1, 2, 3, 4, 5)] + ([fmpq(extra)] * 5 if extra else [])
    allowed += [fmpq(0)] if extra == 0 else []
    if extra == -1:
        allowed.append(fmpq(1, 2))  # (1 + 1)(1 - 1/2) = 1
    if extra == 3:
        allowed.append(fmpq(3, 2))  # (1 - 3)(1 - 3/2) = 1
    for _ in range(number):
        found = _dependent(rng, allowed, gated=gated)
        if found.correction().rank() != found.stacked.rank():
            return Finding(False, counterexample=found.written())
    return Finding(True, scope=f"{number} random rational instances, d <= 4, T <= 6")


def _dependent(rng: random.Random, erasures: list[fmpq] | None, *, gated: bool = False) -> Loops:
    size = rng.randint(1, 4)
    pool = [random_column(rng, size) for _ in range(rng.randint(1, 4))]
    keys = [rng.choice(pool) for _ in range(rng.randint(1, 6))]
    betas = [random_strength(rng) for _ in keys]
    if erasures is not None:
        betas = [rng.choice(erasures) / norm2(k) for k in keys]
    decays = [diagonal([(1, i + 1) for i in range(size)])] * len(keys) if gated else None
    return loops(keys, betas, decays)


@claim(
    "R14",
    "between 2 rank(K) - T and rank(K): the proof",
    statement="2 rank(K) - T <= rank(I - A_T...A_1) <= rank(K).",
    scope="all",
    source="derivation: R1 and Sylvester's rank inequality with X = K M, Y = K^T",
    evidence="symbolic",
    hypotheses={
        "no gates": {"a gate": {"gated": True}},
        "all beta non-zero (for the lower bound)": {"M not invertible": {"invertible": False}},
    },
    where="any keys, dependent or zero",
    mutants={"factors in the other corner": {"corner": False}},
)
def sylvester(
    *, fast: bool, invertible: bool = True, gated: bool = False, corner: bool = True
) -> Finding:
    """`diag(X Y, I_T)` and `[[0, X], [-Y, I]]` differ by invertible factors.

    The rank of the first is rank(X Y) + T; of the second, whose corner is zero, it is at least
    rank X + rank Y. M = (I + diag(beta) L)^{-1} diag(beta) has determinant prod(beta).
    """
    X, Y, K, Kt, M, N = letters("X Y K Kt M N")
    left = Matrix([[1, X], [0, 1]])
    right = Matrix([[1, 0], [-Y if corner else Y, 1]])
    moved = left * Matrix([[X * Y, 0], [0, 1]]) * right
    wanted = Matrix([[0, X], [-Y, 1]])
    same = all(vanishes(entry) for entry in moved - wanted)
    undone = left * Matrix([[1, -X], [0, 1]]) - Matrix([[1, 0], [0, 1]])
    # rank(K M) = rank(K): K M determines K.
    kept = vanishes(K * M * N - K, {(M, N): 1} if invertible else None)
    # I - A is (K M) K^T, by R1; with a gate g it is 1 - g (1 - K M K^T).
    gate = scalars("g")[0] if gated else 1
    product_form = reduced(1 - gate * (1 - K * M * Kt) - (K * M) * Kt) == 0
    return Finding(bool(same and undone.is_zero_matrix and kept and product_form))


@claim(
    "R14",
    "between 2 rank(K) - T and rank(K): tight",
    statement="2 rank(K) - T <= rank(I - A_T...A_1) <= rank(K), and the lower bound is attained.",
    scope="3,000 random rational instances, d <= 4, T <= 6; attained for every rank(K) <= 4",
    source="derivation: T - rank(K) pairs of equal reflections on orthogonal lines",
    evidence="exact",
    hypotheses={
        "no gates": {"a diagonal gate": {"gated": True}},
        "all beta non-zero (for the lower bound)": {"beta may be zero": {"zero_beta": True}},
        "T <= 2 rank(K) (for attaining it)": {"attained also beyond": {"beyond": 1}},
    },
    where="any keys, dependent or not",
    mutants={"a lower bound larger by one": {"more": 1}},
)
def between(
    *, fast: bool, zero_beta: bool = False, more: int = 0, gated: bool = False, beyond: int = 0
) -> Finding:
    """Random dependent instances with cancelling strengths, then the extreme ones."""
    rng = random.Random(15)
    number = 150 if fast else 3000
    for _ in range(number):
        # 2 with 2, and 3 with 3/2, cancel on one line.
        strengths = [fmpq(2), fmpq(2), fmpq(3), fmpq(3, 2)] if rng.random() < 0.7 else None
        found = _dependent(rng, strengths, gated=gated)
        if zero_beta:
            found = loops(found.keys, [0, *found.betas[1:]])
        rank, of_keys = found.correction().rank(), found.stacked.rank()
        if not 2 * of_keys - found.count + more <= rank <= of_keys:
            return Finding(False, counterexample=found.written())
    for of_keys in range(1, 5):
        for pairs in range(of_keys + 1 + beyond):
            keys = [_axis(i, of_keys) for i in range(of_keys)]
            keys += [_axis(i % of_keys, of_keys) for i in range(pairs)]
            # A reflection and its repetition meet, since the lines are orthogonal.
            found = loops(keys, [2] * len(keys))
            if found.correction().rank() != 2 * of_keys - found.count:
                return Finding(False, counterexample=found.written())
    return Finding(True, scope=f"{number} random instances, d <= 4, T <= 6; attained to rank 4")


def _axis(place: int, size: int) -> fmpq_mat:
    return column([identity(size)[i, place] for i in range(size)])


CLAIMS: tuple[Claim, ...] = (kernel, rank_inside, sylvester, between)
