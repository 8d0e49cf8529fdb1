"""R1 and R2: the compact WY form of T erasures, and when its rank is T."""

import random

from flint import fmpq_mat
from sympy import Symbol, expand

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import columns, diagonal, identity, random_column, random_rational
from proofs_checks.loops import (
    Gates,
    compact_core,
    loops,
    lower_part,
    random_decays,
    random_strength,
)


@claim(
    "R1",
    "compact WY form",
    statement=(
        "Without gates I - A_T...A_1 = K M K^T with K = [k_1..k_T] and "
        "M = (I + diag(beta) stril(K^T K))^{-1} diag(beta), stril the strictly lower part."
    ),
    scope="all",
    source="derivation; Bischof and Van Loan 1987 (WY form); LT2, App. B.1 for the product",
    evidence="symbolic",
    hypotheses={
        "no gates": {"a scalar gate": {"gated": True}},
        "later loops stand on the left": {"later loops on the right": {"later_on_the_left": False}},
    },
    where="any keys and any beta",
    mutants={"the coupling left out": {"coupled": False}},
)
def compact_wy(
    *, fast: bool, gated: bool = False, later_on_the_left: bool = True, coupled: bool = True
) -> Finding:
    """Induction on T, with all matrices as letters that do not commute.

    At T = 1 both sides are `b k k^T`. `S` stands for stril(K^T K), `B` for diag(beta), `M` for the
    inverse times B, of which only `M + B S M = B` is used. The step appends k and b; then the lower
    triangle gains the row k^T K, and the new M, `[[M, 0], [-b k^T K M, b]]`, must solve the same
    equation and give the product.
    """
    K, Kt, M, k, kt, b = (
        Symbol(name, commutative=False) for name in ("K", "Kt", "M", "k", "kt", "b")
    )
    row = -b * kt * K * M if coupled else 0
    old = 1 - K * M * Kt
    new_factor = (Symbol("g") if gated else 1) * (1 - k * b * kt)
    stepped = new_factor * old if later_on_the_left else old * new_factor
    claimed = 1 - (K * M * Kt + k * row * Kt + k * b * kt)
    step_holds = expand(stepped - claimed) == 0
    # The last row of (I + B S) M' = B: from the left b k^T K M + row = 0, and b = b.
    equation_holds = expand(b * kt * K * M + row) == 0
    return Finding(bool(step_holds and equation_holds))


@claim(
    "R1",
    "both forms of M, on instances",
    statement=(
        "I - A_T...A_1 = K M K^T with M = (I + diag(beta) stril(K^T K))^{-1} diag(beta), which is "
        "(diag(1/beta) + stril(K^T K))^{-1}."
    ),
    scope="1,000 random rational instances, d <= 5, T <= 5, independent or not",
    source="derivation",
    evidence="exact",
    hypotheses={
        "no gates": {
            "a scalar gate": {"gates": "scalar"},
            "a gate by channel": {"gates": "diagonal"},
        },
        "later loops on the left": {"later loops on the right": {"later_on_the_left": False}},
        "all beta non-zero (for the second form)": {
            "beta may be zero (its 1/beta left out)": {"allow_zero_beta": True}
        },
    },
    mutants={"the diagonal of K^T K kept": {"strictly": False}},
)
def compact_wy_on_instances(
    *,
    fast: bool,
    later_on_the_left: bool = True,
    allow_zero_beta: bool = False,
    gates: Gates = "none",
    strictly: bool = True,
) -> Finding:
    """The product, multiplied out, against both forms."""
    rng = random.Random(1)
    number = 60 if fast else 1000
    for _ in range(number):
        size, count = rng.randint(1, 5), rng.randint(1, 5)
        keys = [random_column(rng, size) for _ in range(count)]
        betas = [random_strength(rng) for _ in keys]
        if allow_zero_beta:
            betas[0] = betas[0] * 0
        found = loops(keys, betas, random_decays(rng, size, count, gates))
        K, first = found.stacked, compact_core(found)
        second = diagonal([1 / b if b != 0 else 0 for b in betas])
        second += lower_part(K.transpose() * K, strictly=strictly)
        acting = found if later_on_the_left else loops(keys[::-1], betas[::-1])
        correction = identity(size) - acting.effective()
        fine = K * first * K.transpose() == correction and second * first == identity(count)
        if not fine:
            return Finding(False, counterexample=found.written())
    return Finding(True, scope=f"{number} random rational instances, d <= 5, T <= 5")


@claim(
    "R2",
    "rank T if and only if the keys are independent",
    statement=(
        "rank(I - A_T...A_1) = T if and only if the keys are linearly independent; orthogonality, "
        "the paper's condition, is sufficient but not necessary."
    ),
    scope="random rational keys and beta, d <= 5, T <= 5, independent and dependent",
    source="LT2, App. B.1; derivation from R1: M is invertible",
    evidence="exact",
    hypotheses={
        "no gates": {
            "a scalar gate": {"gates": "scalar"},
            "a gate by channel": {"gates": "diagonal"},
        },
        "all beta non-zero": {"beta may be zero": {"allow_zero_beta": True}},
    },
    mutants={
        "rank T for any keys": {"demand_independent": False},
        "orthogonality is necessary": {"demand_orthogonal": True},
    },
)
def rank_iff_independent(
    *,
    fast: bool,
    allow_zero_beta: bool = False,
    gates: Gates = "none",
    demand_independent: bool = True,
    demand_orthogonal: bool = False,
) -> Finding:
    """Random rational instances; dependent keys are made by a linear combination."""
    rng = random.Random(2)
    for _ in range(60 if fast else 2000):
        size = rng.randint(1, 5)
        keys = [random_column(rng, size) for _ in range(rng.randint(1, 5))]
        if len(keys) > 1 and rng.random() < 0.4:
            keys[-1] = keys[0] * random_rational(rng, 1, 3)
        betas = [random_rational(rng, 1, 3) for _ in keys]
        if allow_zero_beta:
            betas[0] = betas[0] * 0
        together = columns(keys)
        independent = together.rank() == len(keys) or not demand_independent
        if demand_orthogonal:
            independent = independent and _orthogonal(together)
        found = loops(keys, betas, random_decays(rng, size, len(keys), gates))
        full = (identity(size) - found.effective()).rank() == len(keys)
        if full != independent:
            return Finding(False, counterexample=found.written())
    return Finding(True)


def _orthogonal(keys: fmpq_mat) -> bool:
    gram = keys.transpose() * keys
    size = gram.nrows()
    return all(gram[i, j] == 0 for i in range(size) for j in range(size) if i != j)


CLAIMS: tuple[Claim, ...] = (compact_wy, compact_wy_on_instances, rank_iff_independent)
