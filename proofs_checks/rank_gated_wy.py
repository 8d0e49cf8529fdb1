"""R13: the compact WY form with one decay a channel, and when its rank is T."""

import random

from flint import fmpq_mat
from sympy import Expr

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import columns, diagonal, identity, random_column
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import ORDERS, Loops, loops, random_decays, random_strength


@claim(
    "R13",
    "gated compact WY form",
    statement=(
        "prod(D) - A_T...A_1 = At M B^T, At = [decays after i applied to k_i], B = [decays up to "
        "i applied to k_i] (decay first counts D_i in B, erase first in At), M = (I + diag(beta) "
        "L)^-1 diag(beta), L_ij = k_i^T (decays between) k_j for j < i."
    ),
    scope="all",
    source="derivation; R1 without gates",
    evidence="symbolic",
    hypotheses={
        "later loops on the left": {"later loops on the right": {"later_on_the_left": False}}
    },
    where="any keys, beta and decays, zeros included",
    mutants={
        "the Gram matrix without its decay": {"decayed": False},
        "D_i on the other side": {"right_side": False},
    },
)
def gated_compact_wy(
    *,
    fast: bool,
    later_on_the_left: bool = True,
    decayed: bool = True,
    right_side: bool = True,
) -> Finding:
    """Induction on T, as in R1: P stands for the product of the earlier decays.

    The step appends k, b and D. Of M only `M + diag(beta) L M = diag(beta)` is used, and the new
    M, `[[M, 0], [-b l M, b]]` with the new row l of L, solves the same equation.
    """
    k, kt, D, P, A, M, Bt = letters("k kt D P A M Bt")
    b = scalars("b")[0]
    for order in ORDERS:
        first = order == "decay_first"
        new = (1 - b * k * kt) * D if first else D * (1 - b * k * kt)
        old = P - A * M * Bt
        # D acts on the earlier columns of A; where D_i itself goes depends on the order.
        column: Expr = k if first == right_side else D * k
        row: Expr = kt * D * P if first == right_side else kt * P
        gram = (kt * D * A if first else kt * A) if decayed else kt * M
        below = -b * gram * M
        claimed = D * A * M * Bt + column * below * Bt + column * b * row
        step = new * old if later_on_the_left else old * new
        equation = vanishes(b * gram * M + below)
        if not (vanishes(D * P - claimed - step) and equation):
            return Finding(False, counterexample=order)
    return Finding(True)


def after_and_before(found: Loops) -> tuple[fmpq_mat, fmpq_mat]:
    """The columns At and B of R13.

    Args:
        found: The factors.
    """
    late: list[fmpq_mat] = []
    early: list[fmpq_mat] = []
    before = identity(found.size)
    for key, decay in zip(found.keys, found.decays, strict=True):
        through = decay * before
        first = found.order == "decay_first"
        late = [decay * earlier for earlier in late] + [key if first else decay * key]
        early.append((through if first else before) * key)
        before = through
    return columns(late), columns(early)


@claim(
    "R13",
    "rank T if and only if At and B have full column rank",
    statement="rank(prod(D) - A_T...A_1) = T iff At and B have rank T, whatever the betas.",
    scope="3,000 random rational instances, d <= 4, T <= 4, both orders, many built to fail",
    source="derivation: M is invertible",
    evidence="exact",
    hypotheses={
        "all beta non-zero": {"beta may be zero": {"zero_beta": True}},
        "later loops on the left": {"later loops on the right": {"reverse": True}},
    },
    where="both At and B, not one of them; any keys and decays, zeros included",
    mutants={
        "At alone": {"wanted": "late"},
        "B alone": {"wanted": "early"},
        "independent keys": {"wanted": "keys"},
    },
)
def rank_iff_full_columns(
    *, fast: bool, zero_beta: bool = False, reverse: bool = False, wanted: str = "both"
) -> Finding:
    """Half of the instances have a key that makes At or B fail; decays may be zero too."""
    rng = random.Random(13)
    number = 300 if fast else 3000
    seen = set()
    for _ in range(number):
        found = often_failing(rng)
        if zero_beta:
            found = loops(found.keys, [0, *found.betas[1:]], found.decays, order=found.order)
        late, early = after_and_before(found)
        ranks = {"late": late.rank(), "early": early.rank(), "keys": found.stacked.rank()}
        ranks["both"] = min(ranks["late"], ranks["early"])
        if reverse:
            backwards = (found.keys[::-1], found.betas[::-1], found.decays[::-1])
            found = loops(*backwards, order=found.order)
        full = found.correction().rank() == found.count
        seen.add(full)
        if full != (ranks[wanted] == found.count):
            return Finding(False, counterexample=found.written())
    scope = f"{number} random rational instances, d <= 4, T <= 4, both orders, many built to fail"
    return Finding(len(seen) == 2, scope=scope)


def often_failing(rng: random.Random) -> Loops:
    """Half of the instances have a key that makes At or B of R13 fail; some decays are zero.

    Args:
        rng: Source of randomness.
    """
    size = rng.randint(1, 4)
    count = rng.randint(1, min(size + 1, 4))
    order = rng.choice(ORDERS)
    keys = [random_column(rng, size) for _ in range(count)]
    decays = random_decays(rng, size, count, "diagonal")
    if rng.random() < 0.1:
        decays[0] = diagonal([0] + [1] * (size - 1))
    found = loops(keys, [random_strength(rng) for _ in keys], decays, order=order)
    if count == 1 or rng.random() < 0.5:
        return found
    if rng.random() < 0.5:  # the last column of At beside an earlier one
        late, _ = after_and_before(found)
        bent = fmpq_mat(size, 1, [late[i, 0] for i in range(size)])
        last = bent if order == "decay_first" else _undone(decays[-1], bent)
        keys[-1] = last if any(x != 0 for x in last.entries()) else keys[-1]
    else:  # the first column of B beside the second one
        _, early = after_and_before(found)
        bent = fmpq_mat(size, 1, [early[i, 1] for i in range(size)])
        start = _undone(decays[0], bent) if order == "decay_first" else bent
        keys[0] = start if any(x != 0 for x in start.entries()) else keys[0]
    return loops(keys, found.betas, decays, order=order)


def _undone(decay: fmpq_mat, vector: fmpq_mat) -> fmpq_mat:
    size = int(vector.nrows())
    entries = [vector[i, 0] / decay[i, i] if decay[i, i] != 0 else 0 for i in range(size)]
    return fmpq_mat(size, 1, entries)


CLAIMS: tuple[Claim, ...] = (gated_compact_wy, rank_iff_full_columns)
