"""R10: a rank means nothing without its baseline."""

import random
from typing import Literal

from flint import fmpq
from sympy import Interval, Symbol, solveset
from sympy.core.relational import Relational

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, identity, random_column
from proofs_checks.exact_vectors import multiplied, norm2
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import ORDERS, Loops, loops, random_decay, random_strength

_ERASURES = "all beta |k|^2 in [0, 2]"
_ONE_GATE = "in one loop a gate alpha for all channels"
_BELOW_ONE = "|alpha| < 1"
_OTHERS = "all other gates in [-1, 1]"
_BELOW_ONE_IN_SIZE = Interval.open(-1, 1)


@claim(
    "R10",
    "against the identity the gates count too",
    statement=(
        "rank(A_T...A_1 - I) <= min(d_k, T + m), m the channels whose product of decays is not 1, "
        "with equality in general."
    ),
    scope="every d <= 5, T <= 4, m <= d, both orders: an instance with few decays that attains "
    "the bound, and 10 others each, many degenerate, below it",
    source="derivation: A - I = (prod(D) - I) - U V^T",
    evidence="exact",
    hypotheses={
        "keys in general position (for equality)": {"one key for all": {"equal_keys": True}},
        "beta in general position (for equality)": {"beta may be zero": {"zero_beta": True}},
    },
    where=(
        "any decays, as keys that are zero on the m channels attain it; the minors are polynomials "
        "that do not vanish at the instances found"
    ),
    mutants={
        "channels of the first loop only": {"all_loops": False},
        "the gates not counted": {"count_gates": False},
    },
)
def against_identity(
    *,
    fast: bool,
    equal_keys: bool = False,
    zero_beta: bool = False,
    all_loops: bool = True,
    count_gates: bool = True,
) -> Finding:
    """One instance that attains the bound shows that the set where it fails is thin.

    For every decays there is one: on the other channels their product is 1, none is zero, and keys
    that live there have min(T, d - m) independent columns beside the m that the gates move (R13).
    """
    rng = random.Random(10)
    widths = (1, 2, 3) if fast else (1, 2, 3, 4, 5)
    for size in widths:
        for count in (1, 2, 3, 4):
            for gated in range(size + 1):
                for order in ORDERS:
                    found = _gated_channels(rng, size, count, gated, order)
                    keys = [found.keys[0]] * count if equal_keys else found.keys
                    betas = [fmpq(0)] * count if zero_beta else found.betas
                    found = loops(keys, betas, found.decays, order=order)
                    m = _moved(found, all_loops=all_loops) if count_gates else 0
                    if _rank_to_identity(found) != min(size, count + m):
                        return Finding(False, counterexample=found.written())
                    if not _degenerate_bound(rng, found):
                        return Finding(False, counterexample="a degenerate instance")
    scope = f"every d <= {widths[-1]}, T <= 4, m <= d, both orders; 10 degenerate ones each"
    return Finding(True, scope=scope)


def _gated_channels(rng: random.Random, size: int, count: int, gated: int, order: str) -> Loops:
    """Decays of few values, often equal; those of the last loop make the product 1 or not."""
    keys = [column([rng.randint(1, 50) for _ in range(size)]) for _ in range(count)]
    betas = [fmpq(1, rng.randint(2, 60)) for _ in range(count)]
    few = [fmpq(1), fmpq(1, 2), fmpq(2)]
    decays = [[rng.choice(few) for _ in range(size)] for _ in range(count - 1)]
    wanted = [rng.choice([fmpq(0), fmpq(1, 2)]) if i < gated else fmpq(1) for i in range(size)]
    so_far = [multiplied([row[i] for row in decays]) for i in range(size)]
    decays.append([w / p for w, p in zip(wanted, so_far, strict=True)])
    return loops(keys, betas, [diagonal(row) for row in decays], order=order)


def _moved(found: Loops, *, all_loops: bool = True) -> int:
    product = found.baseline() if all_loops else found.decays[0]
    return sum(product[i, i] != 1 for i in range(found.size))


def _rank_to_identity(found: Loops) -> int:
    return int((found.effective() - identity(found.size)).rank())


def _degenerate_bound(rng: random.Random, like: Loops) -> bool:
    """Whether equal keys, reflections and few decays stay below the bound."""
    for _ in range(10):
        pool = [random_column(rng, like.size) for _ in range(2)]
        keys = [rng.choice(pool) for _ in range(like.count)]
        betas = [rng.choice([fmpq(2), fmpq(1), random_strength(rng)]) / norm2(k) for k in keys]
        found = loops(keys, betas, like.decays, order=like.order)
        if _rank_to_identity(found) > min(found.size, found.count + _moved(found)):
            return False
    return True


@claim(
    "R10",
    "one scalar gate fills the rank: the norm",
    statement=(
        "|F x|^2 = |x|^2 - beta (2 - beta |k|^2) (k^T x)^2 <= |x|^2 for beta |k|^2 in [0, 2]; so "
        "with one scalar gate |alpha| < 1 |A_T...A_1 x| <= |alpha| |x| < |x|, no vector but 0 is "
        "fixed, and rank(A_T...A_1 - I) = d_k always."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        _ERASURES: {
            "beta |k|^2 above 2": {"erasures": (0, 3)},
            "beta |k|^2 below 0": {"erasures": (-1, 2)},
        },
        _ONE_GATE: {"the gate of one channel": {"scalar": False}},
        _BELOW_ONE: {
            "the gate may be 1": {"gates": Interval(-1, 1, True, False)},
            "the gate may be -1": {"gates": Interval(-1, 1, False, True)},
        },
        _OTHERS: {
            "other gates above 1": {"others": (-1, 2)},
            "other gates below -1": {"others": (-2, 1)},
        },
    },
    where="all other gates by channel or scalar",
)
def no_fixed_vector(
    *,
    fast: bool,
    erasures: tuple[int, int] = (0, 2),
    scalar: bool = True,
    gates: Interval = _BELOW_ONE_IN_SIZE,
    others: tuple[int, int] = (-1, 1),
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
    shrinking = everywhere(w**2 < 1, gates)
    other = everywhere(w**2 <= 1, Interval(*others))
    return Finding(loss and scaled and erasing and shrinking and other)


Allowed = Literal[
    "nothing", "above 2", "below 0", "one channel", "alpha 1", "alpha -1", "above 1", "below -1"
]
_ONE = column([1])
_EXCEPTIONS: dict[Allowed, Loops] = {
    "above 2": loops([_ONE] * 2, [3, 3], [diagonal([(1, 4)]), diagonal([1])]),  # (1-3)(1-3)/4 = 1
    "below 0": loops([_ONE], [-1], [diagonal([(1, 2)])]),
    "one channel": loops([column([1, 0])], [1], [diagonal([(1, 2), 1])]),
    "alpha 1": loops([_ONE], [0], [diagonal([1])]),
    "alpha -1": loops([_ONE], [2], [diagonal([-1])]),
    "above 1": loops([_ONE] * 2, [0, 0], [diagonal([(1, 2)]), diagonal([2])]),
    "below -1": loops([_ONE] * 2, [2, 0], [diagonal([(1, 2)]), diagonal([-2])]),
}
"""For each hypothesis smallest instances that break it alone, and the conclusion."""


@claim(
    "R10",
    "one scalar gate fills the rank: instances",
    statement="One scalar gate |alpha| < 1 makes rank(A_T...A_1 - I) = d_k, for any T and keys.",
    scope="2,000 random rational instances, d <= 5, T <= 4, both orders",
    source="derivation",
    evidence="exact",
    hypotheses={
        _ERASURES: {
            "beta |k|^2 above 2": {"allowed": "above 2"},
            "beta |k|^2 below 0": {"allowed": "below 0"},
        },
        _ONE_GATE: {"the gate of one channel": {"allowed": "one channel"}},
        _BELOW_ONE: {
            "the gate may be 1": {"allowed": "alpha 1"},
            "the gate may be -1": {"allowed": "alpha -1"},
        },
        _OTHERS: {
            "other gates above 1": {"allowed": "above 1"},
            "other gates below -1": {"allowed": "below -1"},
        },
    },
    where="all other gates by channel or scalar",
)
def scalar_gate_fills(*, fast: bool, allowed: Allowed = "nothing") -> Finding:
    """A single loop with one scalar gate: rank d_k against I, rank 1 against its own baseline."""
    rng = random.Random(101)
    number = 200 if fast else 2000
    instances = [_with_a_scalar_gate(rng) for _ in range(number)]
    if allowed != "nothing":
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
    """Erasures from 0 to 2, ends included; gates of all loops but one by channel, of any sign."""
    size, count = rng.randint(1, 5), rng.randint(1, 4)
    keys = [random_column(rng, size) for _ in range(count)]
    betas = [fmpq(rng.randint(0, 8), 4) / norm2(k) for k in keys]
    decays = []
    for _ in keys:
        some = [fmpq(0), fmpq(1), fmpq(-1), random_decay(rng), -random_decay(rng)]
        decays.append(diagonal([rng.choice(some) for _ in range(size)]))
    decays[rng.randrange(count)] = identity(size) * fmpq(rng.randint(-7, 7), 8)
    return loops(keys, betas, decays, order=rng.choice(ORDERS))


CLAIMS: tuple[Claim, ...] = (against_identity, no_fixed_vector, scalar_gate_fills)
