"""R13: where the paper's condition on the keys does not give rank T with one decay a channel."""

import itertools

import numpy as np
from flint import fmpq, fmpq_mat

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, identity
from proofs_checks.exact_vectors import dot
from proofs_checks.loops import ORDERS, Loops, loops
from proofs_checks.rank_gated_wy import after_and_before

STRENGTHS = ((1, 1, 1), (fmpq(1, 2), 2, fmpq(-3)), (fmpq(7, 5), fmpq(1, 9), 2))
"""The betas of the exact checks; by R13 the answer does not depend on them."""


@claim(
    "R13",
    "independent keys suffice",
    statement="Linearly independent keys give an erasure of rank T in KDA.",
    scope="search over d <= 2, T <= 2: entries of keys 0, 1, 2, beta = 1, decays 1, 1/2, both "
    "orders; none at d = 1 or T = 1",
    source="LT2, App. B.1 (orthogonal, or only non-collinear, loop keys)",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "no gates or scalar gates": {"scalar gates": {"scalar": True}},
        "orthogonal keys and T <= 2": {"orthogonal keys": {"orthogonal": True}},
        "a single loop": {"one loop": {"counts": (1,)}},
    },
    correction=(
        "true without gates or with scalar gates (R2, R6); with diagonal gates At and B need full "
        "column rank, and fail at T = 2 iff k_2 ~ D k_1 or k_1 ~ D k_2, D = D_2 decay first, D_1 "
        "erase first"
    ),
)
def independent_keys(
    *,
    fast: bool,
    scalar: bool = False,
    orthogonal: bool = False,
    counts: tuple[int, ...] = (1, 2),
) -> Finding:
    """The exception with the least entries; T > d has no independent keys."""
    exceptions: list[Loops] = []
    for size, count in itertools.product((1, 2), counts):
        pool = [column(k) for k in itertools.product(range(3), repeat=size) if any(k)]
        gates = [diagonal(g) for g in itertools.product((fmpq(1), fmpq(1, 2)), repeat=size)]
        if scalar:
            gates = [gate for gate in gates if gate == identity(size) * gate[0, 0]]
        chosen = itertools.product(
            itertools.product(pool, repeat=count), itertools.product(gates, repeat=count), ORDERS
        )
        for keys, decays, order in chosen:
            found = loops(keys, [1] * count, decays, order=order)
            if found.stacked.rank() < count or (orthogonal and dot(keys[0], keys[-1]) != 0):
                continue
            if found.correction().rank() < count:
                exceptions.append(found)
    if not exceptions:
        return Finding(False)
    for found in exceptions:
        if found.size < 2 or found.count < 2 or not _fails_for_every_beta(found):
            return Finding(False)
    smallest = min(exceptions, key=_largeness)
    rows = smallest.correction().tolist()
    said = f"{smallest.written()} (keys not normalised): D_2 D_1 - A_2 A_1 = {rows}, rank 1"
    both = {found.order for found in exceptions} == set(ORDERS)
    return Finding(both, counterexample=said)


def _largeness(found: Loops) -> tuple[int, int]:
    plain = sum(int(d == identity(found.size)) for d in found.decays)
    return -plain, sum(abs(int(x.p)) for k in found.keys for x in k.entries())


def _fails_for_every_beta(found: Loops) -> bool:
    others = (
        loops(found.keys, betas[: found.count], found.decays, order=found.order)
        for betas in STRENGTHS
    )
    return all(other.correction().rank() < found.count for other in others)


@claim(
    "R13",
    "orthogonal keys suffice",
    statement="Orthogonal keys give an erasure of rank T in KDA.",
    scope="search at d = T = 3 (T <= 2 never fails): orthogonal integer keys with entries up to 4, "
    "decays 1/1 to 1/10 with largest 1; none before 1/10",
    source="LT2, App. B.1",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "no gates or scalar gates": {"scalar gates": {"scalar": True}},
        "T <= 2": {"two loops": {"count": 2}},
    },
    correction=(
        "true without gates, with scalar gates (R3, R6), and with positive diagonal gates for "
        "T <= 2; from T = 3 on At and B need full column rank"
    ),
    mutants={"decays of 1/9 in place of 1/10": {"smallest": 9}},
)
def orthogonal_keys_suffice(
    *, fast: bool, scalar: bool = False, count: int = 3, smallest: int = 10
) -> Finding:
    """At decides: B of the keys and decays in reverse is the At of some other instance.

    The search is exact, on integers; the fast run leaves it out below the smallest decay it needs.
    """
    least = fmpq(1, smallest)
    decays = [identity(3), diagonal([1, least, least]), diagonal([1, 1, least])]
    if scalar:
        decays = [identity(3), identity(3) * least, identity(3) * least]
    keys = [column(k) for k in ((1, -2, -2), (2, -1, 2), (2, 2, -1))]
    witness = loops(keys[:count], [fmpq(1, 9)] * count, decays[:count])
    mirrored = loops(keys[:count][::-1], [1] * count, decays[:count][::-1], order="erase_first")
    for found in (witness, mirrored):
        if not _fails_for_every_beta(found) or found.correction().rank() != count - 1:
            return Finding(False)
    late, _ = after_and_before(witness)
    orthogonal = all(dot(a, b) == 0 for a, b in itertools.combinations(keys, 2))
    combination = late * column([10, -4, -1]) == fmpq_mat(3, 1)
    most = 4 if fast else smallest
    first = _first_failure(most)
    said = (
        "d = T = 3, decay first: k = (1,-2,-2)/3, (2,-1,2)/3, (2,2,-1)/3, D_1 = I, "
        "D_2 = diag(1, 1/10, 1/10), D_3 = diag(1, 1, 1/10): 10 D_3 D_2 k_1 = 4 D_3 k_2 + k_3, "
        "rank 2 for every beta; erase first: the same keys and decays in reverse"
    )
    return Finding(
        orthogonal and combination and first == (None if fast else smallest) and _first_witness(),
        counterexample=said,
        scope=f"search at d = T = 3: orthogonal integer keys with entries up to 4, decays 1/1 to "
        f"1/{most} with largest 1 in each loop; none below 10",
    )


def _first_witness() -> bool:
    """The instance with powers of two, found before the search."""
    keys = [column(k) for k in ((1, 2, 2), (-2, -1, 2), (2, -2, 1))]
    gates: list[fmpq_mat] = [
        identity(3),
        diagonal([1, (1, 16), (1, 8)]),
        diagonal([1, 1, (1, 8)]),
    ]
    return loops(keys, [fmpq(1, 9)] * 3, gates).correction().rank() == 2


def _first_failure(most: int) -> int | None:
    """The least n such that decays down to 1/n let three orthogonal keys fail.

    A permutation or a change of sign of the coordinates moves every key alike, so the first key is
    taken sorted and without signs.
    """
    scale = int(np.lcm.reduce(range(1, most + 1)))
    gates = [g for g in itertools.product(range(1, most + 1), repeat=3) if min(g) == 1]
    decays = np.array([[scale // x for x in g] for g in gates], dtype=np.int64)
    lowest = np.array([max(g) for g in gates])
    pool = [v for v in itertools.product(range(-4, 5), repeat=3) if np.gcd.reduce(v) == 1]
    best: int | None = None
    for first in (v for v in pool if list(v) == sorted(v) and v[0] >= 0):
        for second in (v for v in pool if np.dot(first, v) == 0 and v > (0, 0, 0)):
            third = np.cross(first, second)
            third //= np.gcd.reduce(third)
            if np.abs(third).max() > 4:
                continue
            # D_3 D_2 k_1 . (D_3 k_2 x k_3), D_3 along the first axis.
            normal = np.cross(decays * np.array(second), third)
            weights = decays * normal * np.array(first)
            zero = weights @ decays.T == 0
            if zero.any():
                found = int(np.maximum(lowest[:, None], lowest[None, :])[zero].min())
                best = found if best is None else min(best, found)
    return best


CLAIMS: tuple[Claim, ...] = (independent_keys, orthogonal_keys_suffice)
