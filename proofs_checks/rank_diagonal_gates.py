"""R7: one decay a channel, in both orders of decay and erasure."""

import random

from flint import fmpq
from sympy import Expr

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, factor, identity
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import ORDERS, loops, random_decay, random_strength


@claim(
    "R7",
    "T columns in both orders",
    statement=(
        "prod(D) - A_T...A_1 = U V^T with T columns each, and so rank at most T: the earlier "
        "columns of U go through the new factor, the new column of V through the earlier decays."
    ),
    scope="all",
    source="derivation; LT2, App. B.1 for the product (Eq. 4 and Table 1 for the two orders)",
    evidence="symbolic",
    hypotheses={
        "the baseline is prod(D)": {"baseline I": {"named_baseline": False}},
        "later loops on the left": {"later loops on the right": {"later_on_the_left": False}},
    },
    where="any keys, beta and decays, zeros included",
    mutants={"the other order's columns": {"right_columns": False}},
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
    "the two orders differ",
    statement="(I - beta k k^T) D = D (I - beta k k^T) iff D is constant on the support of k.",
    scope="2,000 random rational instances, d <= 4; smallest witness written out",
    source="derivation: k (D k)^T = (D k) k^T iff D k is a multiple of k",
    evidence="exact",
    hypotheses={"beta non-zero": {"beta may be zero": {"zero_beta": True}}},
    where="any k and D, zeros included",
    mutants={"only the identity commutes": {"identity_only": True}},
)
def orders_differ(*, fast: bool, zero_beta: bool = False, identity_only: bool = False) -> Finding:
    """Keys with zeros and decays from two values, so that both answers occur."""
    rng = random.Random(71)
    number = 200 if fast else 2000
    for _ in range(number):
        size = rng.randint(1, 4)
        key = column([rng.choice([0, 1, -2]) for _ in range(size)])
        some = (fmpq(0), fmpq(1, 2), fmpq(1), random_decay(rng))
        gate = [rng.choice(some) for _ in range(size)]
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


CLAIMS: tuple[Claim, ...] = (columns_in_both_orders, orders_differ)
