"""R5: how loops lose rank when their keys agree, or when they reflect."""

import itertools
import random

from flint import fmpq
from sympy import Matrix, Symbol, cos, expand, expand_trig, eye, sin, zeros

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, identity, random_column
from proofs_checks.exact_vectors import multiplied, norm2
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import loops, random_strength


@claim(
    "R5",
    "collinear keys",
    statement=(
        "Keys s_i k on one line give I - A_T...A_1 = (1 - prod(1 - beta_i |s_i k|^2)) k k^T/|k|^2, "
        "and so 0 for an even number of reflections."
    ),
    scope="all",
    source="derivation; LT2, App. B.1 has `the same key, no gain`",
    evidence="symbolic",
    hypotheses={
        "no gates": {"a gate": {"gated": True}},
        "keys on one line": {"keys on two lines": {"collinear": False}},
        "an even number of loops (for 0)": {"an odd number of reflections": {"even": False}},
        "each beta |k|^2 = 2 (for 0)": {"an even number of projections": {"strength": 1}},
    },
    where="k not zero, any beta and s_i",
    mutants={"lengths left out": {"length_counts": False}},
)
def collinear_keys(
    *,
    fast: bool,
    collinear: bool = True,
    gated: bool = False,
    length_counts: bool = True,
    even: bool = True,
    strength: int = 2,
) -> Finding:
    """Induction on T in letters: p is the product over the loops so far, n = |k|^2."""
    k, kt, other, othert = letters("k kt m mt")
    n, b, s, p = scalars("n b s p")
    key, keyt = (s * k, s * kt) if collinear else (other, othert)
    rules = {(kt, k): n, (othert, other): n}
    gate = scalars("g")[0] if gated else 1
    old = 1 - (1 - p) * k * kt / n
    new_p = p * (1 - b * (s**2 if length_counts else 1) * n)
    step = (1 - b * key * keyt) * gate * old
    holds = vanishes(step - 1 + (1 - new_p) * k * kt / n, rules)
    starts = vanishes(old.subs(p, 1) - 1)
    times = Symbol("j", integer=True, positive=True)
    left = (1 - strength) ** (2 * times if even else 2 * times + 1)
    return Finding(bool(holds and starts and expand(1 - left) == 0))


@claim(
    "R5",
    "rank of collinear keys",
    statement="Collinear keys give rank 1, for any T.",
    scope="4,000 random rational instances, d <= 4, T <= 5; beta |k|^2 also chosen to cancel",
    source="derivation; LT2, App. B.1",
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "no gates": {"a gate": {"gated": True}},
        "keys on one line": {"keys on two lines": {"collinear": False}},
        "prod(1 - beta_i |k_i|^2) is not 1": {
            "also where the product is 1": {"product_not_one": False}
        },
    },
    where="where the product is 1 the rank is 0, as with all beta or keys zero",
)
def rank_of_collinear(
    *, fast: bool, product_not_one: bool = True, collinear: bool = True, gated: bool = False
) -> Finding:
    """The smallest exception: two reflections of one number."""
    rng = random.Random(5)
    number = 200 if fast else 4000
    for _ in range(number):
        size, count = rng.randint(1, 4), rng.randint(1, 5)
        line = random_column(rng, size)
        keys = [line * random_strength(rng) for _ in range(count)]
        if not collinear:
            keys[-1] = random_column(rng, size)
        # The factors 1 - beta |k|^2, often such that they cancel.
        left = [rng.choice([fmpq(-1), fmpq(2), fmpq(1, 2), random_strength(rng)]) for _ in keys]
        betas = [(1 - x) / norm2(k) for x, k in zip(left, keys, strict=True)]
        decays = [identity(size) * fmpq(1, 2)] * count if gated else None
        found = loops(keys, betas, decays)
        rank = (identity(size) - found.effective()).rank()
        claimed = 0 if multiplied(left) == 1 and product_not_one else 1
        if rank != claimed:
            return Finding(False, counterexample=found.written())
    exception = (identity(1) - loops([column([1])] * 2, [2, 2]).effective()).rank() == 0
    return Finding(
        exception,
        counterexample="d = 1, T = 2, k = 1 twice, beta = 2: (1 - 2)(1 - 2) = 1, rank 0",
        scope=f"{number} random rational instances, d <= 4, T <= 5",
    )


@claim(
    "R5",
    "three reflections in a plane",
    statement=(
        "Three reflections with keys at angles a, b, c in a plane are the one reflection at "
        "a - b + c: rank 1, while rank(K) = 2 unless all three agree."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "no gates": {"a gate": {"gate": (1, 2)}},
        "beta |k|^2 = 2 each": {"strength 1": {"strength": 1}},
        "keys in one plane": {"a key out of the plane": {"flat": False}},
        "three of them": {"two reflections": {"count": 2}},
    },
)
def three_reflections(
    *,
    fast: bool,
    count: int = 3,
    strength: int = 2,
    flat: bool = True,
    gate: tuple[int, int] = (1, 1),
) -> Finding:
    """With doubled angles A, B, C all entries are polynomials in sines and cosines."""
    doubled = [Symbol(name) for name in "ABC"][:count]
    total = eye(3)
    for place, angle in enumerate(doubled):
        # 2 k k^T = [[1 + cos, sin], [sin, 1 - cos]] of the doubled angle.
        rows = [[1 + cos(angle), sin(angle), 0], [sin(angle), 1 - cos(angle), 0], [0, 0, 0]]
        twice = Matrix(rows)
        if place == 2 and not flat:
            twice = zeros(3, 3)
            twice[2, 2] = 2
        total = (eye(3) - strength * twice / 2) * total * gate[0] / gate[1]
    angle = sum((-1) ** place * a for place, a in enumerate(doubled))
    if count == 2:
        angle = doubled[0]
    one = Matrix(
        [[1 + cos(angle), sin(angle), 0], [sin(angle), 1 - cos(angle), 0], [0, 0, 0]]
    ).applyfunc(expand_trig)
    same = (eye(3) - total - one).applyfunc(expand) == zeros(3, 3)
    # The matrix 2 m m^T has trace 2, and so rank 1 and not 0.
    rank_one = expand(one.trace()) == 2 and expand_trig(expand(one[:2, :2].det())).simplify() == 0
    said = "keys (1, 0), (1, 0), (0, 1), beta = 2: I - A_3 A_2 A_1 = diag(0, 2), rank(K) = 2"
    return Finding(bool(same and rank_one), counterexample=said)


@claim(
    "R5",
    "collapse needs an erasure outside (0, 2)",
    statement=(
        "Wherever rank(I - A_T...A_1) < rank(K), some beta_i |k_i|^2 lies outside the open "
        "interval (0, 2)."
    ),
    scope="every choice of keys from (1,0), (0,1), (1,1), (1,-1), (1,2) and of beta|k|^2 from "
    "{-1, 0, 1/2, 1, 3/2, 2, 3}, T <= 3",
    source="derivation, see R14",
    evidence="exact",
    hypotheses={"no gates": {"a diagonal gate": {"gated": True}}},
    where="with diagonal gates it is false: R13",
    mutants={
        "outside [0, 2)": {"interval": ("closed", "open")},
        "outside (0, 2]": {"interval": ("open", "closed")},
        "outside (0, 4)": {"most": 4},
    },
)
def collapse_needs_outside(
    *,
    fast: bool,
    interval: tuple[str, str] = ("open", "open"),
    most: int = 2,
    gated: bool = False,
) -> Finding:
    """Exhaustive; it also has to find collapses, so that the statement is not empty."""
    keys = [column(k) for k in ((1, 0), (0, 1), (1, 1), (1, -1), (1, 2))]
    strengths = [fmpq(x, 2) for x in (-2, 0, 1, 2, 3, 4, 6)]
    counts = (1, 2) if fast else (1, 2, 3)
    collapses = 0
    for count in counts:
        decays = [diagonal([(1, 2), 1])] * count if gated else None
        for chosen in itertools.product(keys, repeat=count):
            for erasures in itertools.product(strengths, repeat=count):
                betas = [e / norm2(k) for e, k in zip(erasures, chosen, strict=True)]
                found = loops(chosen, betas, decays)
                if found.correction().rank() >= found.stacked.rank():
                    continue
                collapses += 1
                if all(_inside(e, interval, most) for e in erasures):
                    return Finding(False, counterexample=found.written())
    said = "every choice of 5 keys in the plane and 7 values of beta|k|^2"
    return Finding(collapses > 0, scope=f"{said}, T <= {counts[-1]}: {collapses} collapses")


def _inside(erasure: fmpq, interval: tuple[str, str], most: int) -> bool:
    above = erasure > 0 or (interval[0] == "closed" and erasure == 0)
    below = erasure < most or (interval[1] == "closed" and erasure == most)
    return above and below


CLAIMS: tuple[Claim, ...] = (
    collinear_keys,
    rank_of_collinear,
    three_reflections,
    collapse_needs_outside,
)
