"""R7: one decay a channel, in both orders of decay and erasure."""

import itertools
import random
from functools import reduce
from typing import Any

from flint import fmpq
from sympy import Expr, ring
from sympy.polys.domains import QQ

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, factor, identity, random_column
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import ORDERS, Loops, loops, random_decay, random_decays, random_strength


@claim(
    "R7",
    "T columns in both orders",
    statement=(
        "prod(D) - A_T...A_1 = U V^T with T columns each, and so rank at most T: the earlier "
        "columns of U go through the new factor, the new column of V through the earlier decays."
    ),
    conditions="the baseline is prod(D); later loops on the left",
    scope="all",
    source="derivation; LT2, App. B.1 for the product (Eq. 4 and Table 1 for the two orders)",
    evidence="symbolic",
    mutants={
        "later loops on the right": {"later_on_the_left": False},
        "baseline I": {"named_baseline": False},
        "the other order's columns": {"right_columns": False},
    },
)
def columns_in_both_orders(
    *,
    fast: bool,
    later_on_the_left: bool = True,
    named_baseline: bool = True,
    right_columns: bool = True,
) -> Finding:
    """Induction on T: P is the product of the earlier decays, U V^T the earlier correction."""
    k, kt, D, P, U, Vt = letters("k kt D P U Vt")
    b = scalars("b")[0]
    for order in ORDERS:
        first = order == "decay_first"
        new = (1 - b * k * kt) * D if first else D * (1 - b * k * kt)
        old = P - U * Vt
        column_u: Expr = b * k if first == right_columns else b * D * k
        row_v: Expr = kt * D * P if first == right_columns else kt * P
        baseline = D * P if named_baseline else 1
        step = new * old if later_on_the_left else old * new
        if not vanishes(baseline - (new * U * Vt + column_u * row_v) - step):
            return Finding(False, counterexample=order)
    return Finding(True)


@claim(
    "R7",
    "identical keys and gates: the determinant",
    statement=(
        "For T = d identical factors, det(D^T - A^T) = (-1)^(T(T-1)/2) beta^T prod(k_i^2 d_i) "
        "prod_{i<j} (d_i - d_j)^2 in both orders: non-zero iff all d decays differ, k has no zero "
        "and beta and the decays are not zero."
    ),
    conditions="identical keys; identical gates; baseline D^T",
    scope="closed identity in beta, k and D for T = d = 1 to 4",
    source="derivation: U and V are Krylov matrices of D, and so Vandermonde",
    evidence="symbolic",
    mutants={
        "keys differ": {"same_key": False},
        "gates differ": {"same_gate": False},
        "baseline I": {"named_baseline": False},
        "no square on the differences": {"power": 1},
    },
)
def determinant_of_identical(
    *,
    fast: bool,
    same_key: bool = True,
    same_gate: bool = True,
    named_baseline: bool = True,
    power: int = 2,
) -> Finding:
    """Polynomials in all entries; T > 2 is left to the full run."""
    sizes = (1, 2) if fast else (1, 2, 3, 4)
    for size, order in itertools.product(sizes, ORDERS):
        _, b, *rest = ring(["b", *(f"x{i}" for i in range(4 * size))], QQ)
        k, d, other_k, other_d = (rest[i * size : (i + 1) * size] for i in range(4))
        total, base = _eye(size, b), _eye(size, b)
        for step in range(size):
            key = k if same_key or step == 0 else other_k
            gate = d if same_gate or step == 0 else other_d
            erase = [[(i == j) - b * key[i] * key[j] for j in range(size)] for i in range(size)]
            decay = [[gate[i] if i == j else 0 * b for j in range(size)] for i in range(size)]
            parts = (erase, decay) if order == "decay_first" else (decay, erase)
            total = _times(parts[0], _times(parts[1], total))
            base = _times(decay, base) if named_baseline else base
        found = _det([[base[i][j] - total[i][j] for j in range(size)] for i in range(size)])
        pairs = itertools.combinations(d, 2)
        gaps = reduce(lambda a, c: a * (c[0] - c[1]) ** power, pairs, b**size)
        sign = (-1) ** (size * (size - 1) // 2)
        claimed = reduce(lambda a, c: a * c[0] ** 2 * c[1], zip(k, d, strict=True), sign * gaps)
        if found != claimed:
            return Finding(False, counterexample=f"T = d = {size}, {order}")
    return Finding(True, scope=f"closed identity in beta, k and D for T = d in {sizes}")


def _eye(size: int, like: Any) -> list[list[Any]]:
    return [[(i == j) + 0 * like for j in range(size)] for i in range(size)]


def _times(a: Any, b: Any) -> list[list[Any]]:
    size = range(len(a))
    return [[sum(a[i][m] * b[m][j] for m in size) for j in size] for i in size]


def _det(a: list[list[Any]]) -> Any:
    if len(a) == 1:
        return a[0][0]
    minors = ([row[:j] + row[j + 1 :] for row in a[1:]] for j in range(len(a)))
    return sum((-1) ** j * a[0][j] * _det(minor) for j, minor in enumerate(minors))


@claim(
    "R7",
    "identical keys and gates: the rank",
    statement=(
        "T identical factors have rank(D^T - A^T) = T if and only if D has at least T different "
        "decays on the support of k."
    ),
    conditions="identical keys; identical gates; both orders; beta non-zero; no decay is zero",
    scope="3,000 random rational instances, d <= 5, T <= 5, decays from a small set",
    source="derivation: Krylov spaces of D on k",
    evidence="exact",
    mutants={
        "a decay may be zero": {"zero_decay": True},
        "beta may be zero": {"zero_beta": True},
        "keys differ": {"same_key": False},
        "gates differ": {"same_gate": False},
        "decays anywhere count": {"on_support": False},
    },
)
def rank_of_identical(
    *,
    fast: bool,
    zero_decay: bool = False,
    zero_beta: bool = False,
    same_key: bool = True,
    same_gate: bool = True,
    on_support: bool = True,
) -> Finding:
    """Decays from few values, and keys with zeros, so that both answers occur."""
    rng = random.Random(7)
    number = 200 if fast else 3000
    decays = [fmpq(1, i) for i in (1, 2, 3, 4, 5)] + ([fmpq(0)] * 3 if zero_decay else [])
    seen = set()
    for _ in range(number):
        size, count = rng.randint(1, 5), rng.randint(1, 5)
        key = column([rng.choice([0, 1, 2, -1]) for _ in range(size)])
        gate = [rng.choice(decays) for _ in range(size)]
        keys = [key] + [key if same_key else random_column(rng, size) for _ in range(count - 1)]
        gates = [diagonal(gate)] * count
        if not same_gate:
            gates = gates[:1] + random_decays(rng, size, count - 1, "diagonal")
        betas = [random_strength(rng)] * count
        if zero_beta:
            betas = [fmpq(0)] * count
        found = loops(keys, betas, gates, order=rng.choice(ORDERS))
        support = [d for d, x in zip(gate, key.entries(), strict=True) if x != 0 or not on_support]
        different = len({str(d) for d in support})
        full = found.correction().rank() == count
        seen.add((full, count > 1))
        if full != (different >= count):
            return Finding(False, counterexample=found.written())
    return Finding(
        len(seen) == 4, scope=f"{number} random rational instances, d <= 5, T <= 5, few decays"
    )


@claim(
    "R7",
    "the same key every loop gives no gain",
    statement="With the same key in every loop the erasure stays of rank 1.",
    conditions=(
        "true without gates and with scalar gates (R5, R6); with diagonal gates T identical "
        "factors reach rank T iff D has T different decays on the support of k"
    ),
    scope="search over d <= 2, T <= 2, both orders: unit keys (1), (1,0), (0,1), (3/5,4/5), "
    "(4/5,3/5); beta 1/2, 1, 2; decays 1, 1/2",
    source="LT2, App. B.1",
    evidence="exact",
    expected="refuted_as_stated",
    mutants={"scalar gates": {"scalar": True}, "no second loop": {"count": 1}},
)
def same_key_no_gain(*, fast: bool, scalar: bool = False, count: int = 2) -> Finding:
    """The search ends at the first exception in order of d; d = 1 and T = 1 have none."""
    exceptions: list[Loops] = []
    for key in ([1], [1, 0], [0, 1], [(3, 5), (4, 5)], [(4, 5), (3, 5)]):
        size = len(key)
        gates = list(itertools.product((fmpq(1, 2), fmpq(1)), repeat=size))
        for gate, beta, order in itertools.product(gates, (fmpq(1), fmpq(1, 2), fmpq(2)), ORDERS):
            if scalar and len({str(g) for g in gate}) > 1:
                continue
            found = loops(
                [column(key)] * count, [beta] * count, [diagonal(gate)] * count, order=order
            )
            if found.correction().rank() > 1:
                exceptions.append(found)
    if not exceptions:
        return Finding(False)
    both = {found.order for found in exceptions if found.written().startswith(_FIRST)}
    first = exceptions[0]
    entries = ", ".join(str(x) for x in first.correction().entries())
    said = f"d = 2, T = 2: {first.written()} (and the other order): D^2 - A^2 = ({entries}), rank 2"
    return Finding(first.size == 2 and both == set(ORDERS), counterexample=said)


_FIRST = "keys (3/5, 4/5), (3/5, 4/5); beta 1, 1; decays diag(1/2, 1), diag(1/2, 1)"


@claim(
    "R7",
    "the two orders differ",
    statement="(I - beta k k^T) D = D (I - beta k k^T) iff D is constant on the support of k.",
    conditions="beta non-zero",
    scope="2,000 random rational instances, d <= 4; smallest witness written out",
    source="derivation: k (D k)^T = (D k) k^T iff D k is a multiple of k",
    evidence="exact",
    mutants={
        "beta may be zero": {"zero_beta": True},
        "only the identity commutes": {"identity_only": True},
    },
)
def orders_differ(*, fast: bool, zero_beta: bool = False, identity_only: bool = False) -> Finding:
    """Keys with zeros and decays from two values, so that both answers occur."""
    rng = random.Random(71)
    number = 200 if fast else 2000
    for _ in range(number):
        size = rng.randint(1, 4)
        key = column([rng.choice([0, 1, -2]) for _ in range(size)])
        gate = [rng.choice([fmpq(1, 2), fmpq(1), random_decay(rng)]) for _ in range(size)]
        beta = fmpq(0) if zero_beta else random_strength(rng)
        first, last = (factor(key, beta, diagonal(gate), order=order) for order in ORDERS)
        constant = len({str(d) for d, x in zip(gate, key.entries(), strict=True) if x != 0}) <= 1
        if identity_only:
            constant = diagonal(gate) == identity(size)
        if (first == last) != constant:
            return Finding(False, counterexample=loops([key], [beta], [diagonal(gate)]).written())
    witness = [factor(column([1, 1]), (1, 2), diagonal([(1, 2), 1]), order=o) for o in ORDERS]
    products = " against ".join(str(w.tolist()) for w in witness)
    said = f"k = (1, 1)/sqrt 2, beta = 1, D = diag(1/2, 1): {products}"
    return Finding(witness[0] != witness[1], counterexample=said)


CLAIMS: tuple[Claim, ...] = (
    columns_in_both_orders,
    determinant_of_identical,
    rank_of_identical,
    same_key_no_gain,
    orders_differ,
)
