"""R10: a rank means nothing without its baseline."""

import random

from flint import fmpq
from sympy import Interval, Symbol, solveset
from sympy.core.relational import Relational

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, identity, random_column
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import ORDERS, Loops, loops, norm2, random_decay, random_strength


@claim(
    "R10",
    "against the identity the gates count too",
    statement=(
        "rank(A_T...A_1 - I) <= min(d_k, T + m), m the channels whose product of decays is not 1, "
        "with equality in general."
    ),
    conditions=(
        "for equality: keys, beta and the decays of the m channels in general position (the minors "
        "are polynomials that do not vanish at the instances found)"
    ),
    scope="every d <= 5, T <= 4, m <= d, both orders: an instance that attains the bound, and "
    "10 others each, many degenerate, below it",
    source="derivation: A - I = (prod(D) - I) - U V^T",
    evidence="exact",
    mutants={
        "for any keys": {"generic": False},
        "channels of the first loop only": {"all_loops": False},
        "the gates not counted": {"count_gates": False},
        "beta may be zero": {"zero_beta": True},
    },
)
def against_identity(
    *,
    fast: bool,
    generic: bool = True,
    all_loops: bool = True,
    count_gates: bool = True,
    zero_beta: bool = False,
) -> Finding:
    """One instance that attains the bound shows that the set where it fails is thin."""
    rng = random.Random(10)
    widths = (1, 2, 3) if fast else (1, 2, 3, 4, 5)
    for size in widths:
        for count in (1, 2, 3, 4):
            for gated in range(size + 1):
                for order in ORDERS:
                    found = _gated_channels(rng, size, count, gated, order, zero_beta=zero_beta)
                    m = _moved(found, all_loops=all_loops) if count_gates else 0
                    if _rank_to_identity(found) != min(size, count + m):
                        return Finding(False, counterexample=found.written())
                    if not _degenerate_bound(rng, found, equal=not generic):
                        return Finding(False, counterexample="a degenerate instance")
    scope = f"every d <= {widths[-1]}, T <= 4, m <= d, both orders; 10 degenerate ones each"
    return Finding(True, scope=scope)


def _gated_channels(
    rng: random.Random, size: int, count: int, gated: int, order: str, *, zero_beta: bool = False
) -> Loops:
    keys = [column([rng.randint(1, 50) for _ in range(size)]) for _ in range(count)]
    betas = [fmpq(0) if zero_beta else fmpq(1, rng.randint(2, 60)) for _ in range(count)]
    # The last loop has the gates; the first one none, where there are several.
    plain = diagonal([1] * size)
    gate = diagonal([fmpq(1, i + 2) if i < gated else fmpq(1) for i in range(size)])
    return loops(keys, betas, [plain] * (count - 1) + [gate], order=order)


def _moved(found: Loops, *, all_loops: bool = True) -> int:
    product = found.baseline() if all_loops else found.decays[0]
    return sum(product[i, i] != 1 for i in range(found.size))


def _rank_to_identity(found: Loops) -> int:
    return int((found.effective() - identity(found.size)).rank())


def _degenerate_bound(rng: random.Random, like: Loops, *, equal: bool) -> bool:
    """Equal keys, reflections and few decays: below the bound, and at times strictly."""
    for _ in range(10):
        pool = [random_column(rng, like.size) for _ in range(2)]
        keys = [rng.choice(pool) for _ in range(like.count)]
        betas = [rng.choice([fmpq(2), fmpq(1), random_strength(rng)]) / norm2(k) for k in keys]
        found = loops(keys, betas, like.decays, order=like.order)
        rank, most = _rank_to_identity(found), min(found.size, found.count + _moved(found))
        if rank > most or (equal and rank < most):
            return False
    return True


@claim(
    "R10",
    "one scalar gate fills the rank: the norm",
    statement=(
        "|F x|^2 = |x|^2 - beta (2 - beta |k|^2) (k^T x)^2 <= |x|^2 for beta |k|^2 in [0, 2]; so "
        "with one scalar gate alpha < 1 |A_T...A_1 x| <= alpha |x| < |x|, no vector is fixed, and "
        "rank(A_T...A_1 - I) = d_k always."
    ),
    conditions="beta |k|^2 in [0, 2]; one gate in [0, 1) for all channels; all others in [0, 1]",
    scope="all",
    source="derivation",
    evidence="symbolic",
    mutants={
        "beta |k|^2 above 2": {"erasures": (0, 3)},
        "beta |k|^2 below 0": {"erasures": (-1, 2)},
        "the gate may be 1": {"below_one": False},
        "other gates above 1": {"others": (0, 2)},
        "the gate of one channel": {"scalar": False},
    },
)
def no_fixed_vector(
    *,
    fast: bool,
    erasures: tuple[int, int] = (0, 2),
    below_one: bool = True,
    others: tuple[int, int] = (0, 1),
    scalar: bool = True,
) -> Finding:
    """Three factors, three inequalities, each on the whole of its interval."""
    k, kt, x, xt, D = letters("k kt x xt D")
    b, n, a = scalars("b n a")
    rules = {(kt, k): n}
    F = 1 - b * k * kt
    loss = vanishes(1 - F * F - b * (2 - b * n) * k * kt, rules)
    gate = a if scalar else D
    scaled = vanishes(xt * gate * gate * x - a**2 * xt * x)
    w = Symbol("w", real=True)

    def everywhere(inequality: Relational, interval: Interval) -> bool:
        return bool(solveset(inequality, w, interval) == interval)

    erasing = everywhere(w * (2 - w) >= 0, Interval(*erasures))
    shrinking = everywhere(w**2 < 1, Interval(0, 1, False, below_one))
    other = everywhere(w**2 <= 1, Interval(*others))
    return Finding(loss and scaled and erasing and shrinking and other)


_EXCEPTIONS = {
    "beta |k|^2 above 2": loops(
        [column([1])] * 2, [3, 3], [diagonal([(1, 4)]), diagonal([1])]
    ),  # (1 - 3)(1 - 3)/4 = 1
    "beta |k|^2 below 0": loops([column([1])], [-1], [diagonal([(1, 2)])]),
    "the gate may be 1": loops([column([1])], [0], [diagonal([1])]),
    "other gates above 1": loops([column([1])] * 2, [0, 0], [diagonal([(1, 2)]), diagonal([2])]),
    "the gate of one channel": loops([column([1, 0])], [1], [diagonal([(1, 2), 1])]),
}
"""For each hypothesis a smallest instance that breaks it alone, and the conclusion."""


@claim(
    "R10",
    "one scalar gate fills the rank: instances",
    statement="One scalar gate < 1 makes rank(A_T...A_1 - I) = d_k, whatever T and the keys.",
    conditions="beta |k|^2 in [0, 2]; one gate in [0, 1) for all channels; all others in [0, 1]",
    scope="2,000 random rational instances, d <= 5, T <= 4, both orders",
    source="derivation",
    evidence="exact",
    mutants={name: {"allowed": name} for name in _EXCEPTIONS},
)
def scalar_gate_fills(*, fast: bool, allowed: str | None = None) -> Finding:
    """A single loop with one scalar gate: rank d_k against I, rank 1 against its own baseline."""
    rng = random.Random(101)
    number = 200 if fast else 2000
    instances = [_with_a_scalar_gate(rng) for _ in range(number)]
    if allowed is not None:
        instances.append(_EXCEPTIONS[allowed])
    for found in instances:
        if _rank_to_identity(found) != found.size:
            return Finding(False, counterexample=found.written())
    single = loops([column([1, 0, 0, 0])], [1], [identity(4) * fmpq(1, 2)])
    trap = _rank_to_identity(single) == 4 and single.correction().rank() == 1
    return Finding(
        trap,
        counterexample="T = 1, k = (1,0,0,0), beta = 1, alpha = 1/2: rank(A - I) = 4, "
        "rank(alpha I - A) = 1",
        scope=f"{number} random rational instances, d <= 5, T <= 4, both orders",
    )


def _with_a_scalar_gate(rng: random.Random) -> Loops:
    """Erasures from 0 to 2, ends included; decays of all loops but one by channel, zeros too."""
    size, count = rng.randint(1, 5), rng.randint(1, 4)
    keys = [random_column(rng, size) for _ in range(count)]
    betas = [fmpq(rng.randint(0, 8), 4) / norm2(k) for k in keys]
    decays = [
        diagonal([rng.choice([fmpq(0), fmpq(1), random_decay(rng)]) for _ in range(size)])
        for _ in keys
    ]
    decays[rng.randrange(count)] = identity(size) * fmpq(rng.randint(0, 7), 8)
    return loops(keys, betas, decays, order=rng.choice(ORDERS))


CLAIMS: tuple[Claim, ...] = (against_identity, no_fixed_vector, scalar_gate_fills)
