"""E5: what beta below 2 does to the spectrum."""

import random
from typing import Any

from flint import fmpq, fmpq_poly
from sympy import Expr, Integer, Symbol, expand, factor, simplify

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import columns, product, random_column
from proofs_checks.express_reflections import reflect, written


@claim(
    "E5",
    "what keeps its norm is left alone",
    statement=(
        "|x|^2 - |(I - beta k k^T) x|^2 = beta (2 - beta) (k^T x)^2: a factor shrinks whatever it "
        "changes. So if a product keeps the norm of x, every factor leaves x unchanged: the only "
        "eigenvalue of modulus 1 is 1, and the only orthogonal matrix, hence the only permutation, "
        "is the identity."
    ),
    scope="all",
    source="derivation; beta = 2 is LT2's case of negative eigenvalues",
    evidence="symbolic",
    hypotheses={
        "beta at least 0": {"beta may be negative": {"negative": True}},
        "beta below 2": {"beta may be 2": {"closed": True}},
        "unit keys": {"keys of length sqrt 2": {"norm": 2}},
        "decays in [0,1]": {
            "decays may be -1": {"negative_decays": True},
            "decays may exceed 1": {"growing": True},
        },
    },
    where="any T, both factor orders",
)
def norm_kept(
    *,
    fast: bool,
    negative: bool = False,
    closed: bool = False,
    norm: int = 1,
    negative_decays: bool = False,
    growing: bool = False,
) -> Finding:
    """One factor and one decay at a time; contractions that keep a norm keep it at every step.

    Complex vectors: the squared norm is the sum of those of the real and the imaginary part.
    """
    x, xt, k, kt = (Symbol(name, commutative=False) for name in ("x", "xt", "k", "kt"))
    b = Symbol("b")
    moved = 1 - b * k * kt
    lost = expand(expand(xt * x - xt * moved * moved * x).subs(kt * k, norm))
    loss_holds = expand(lost - b * (2 - b) * xt * k * kt * x) == 0
    # beta in (0, 2) is 2 t / (1 + t) with t > 0: the loss is zero only where k^T x is.
    t, u = Symbol("t", positive=True), Symbol("u", nonnegative=True)
    beta: Expr = Integer(2) if closed else -t if negative else 2 * t / (1 + t)
    strict = factor(simplify(beta * (2 - beta))).is_positive
    # A decay below 1, written 1 - p with p in (0, 1] (or (0, 2], or < 0), shrinks; 1 is I.
    p = (2 if negative_decays else -1 if growing else 1) / (1 + u)
    shrinks = factor(1 - (1 - p) ** 2).is_positive
    return Finding(bool(loss_holds and strict and shrinks))


@claim(
    "E5",
    "peripheral spectra of random products",
    statement=(
        "The eigenvalue 1 of an ungated product has multiplicity d - rank(K), K the keys of "
        "non-zero beta, and every other eigenvalue lies strictly inside the unit circle."
    ),
    scope="random rational products, d <= 5, T <= 6; multiplicities exact, roots by balls",
    source="derivation",
    evidence="ball",
    hypotheses={
        "beta at least 0": {"beta may be negative": {"least": -15}},
        "beta below 2": {"beta may be 2": {"closed": True}},
        "unit keys": {"keys of length sqrt 2": {"norm": 2}},
        "no gates": {"a scalar gate of 1/2": {"gate": (1, 2)}},
    },
    mutants={"keys of beta = 0 count": {"all_keys": True}},
)
def peripheral_spectrum(
    *,
    fast: bool,
    least: int = 0,
    closed: bool = False,
    norm: int = 1,
    gate: tuple[int, int] = (1, 1),
    all_keys: bool = False,
) -> Finding:
    """Divide the characteristic polynomial by (x - 1)^m exactly; margin: distance to the circle."""
    rng = random.Random(5)
    margin = 1.0
    for _ in range(40 if fast else 600):
        size, loops = rng.randint(1, 5), rng.randint(1, 6)
        keys = [random_column(rng, size) for _ in range(loops)]
        strengths = [fmpq(16 if closed else rng.randint(least, 15), 8) for _ in keys]
        made = product([reflect(k, b * norm) for k, b in zip(keys, strengths, strict=True)])
        made *= fmpq(*gate)
        rest = made.charpoly()
        erasing = [k for k, b in zip(keys, strengths, strict=True) if b != 0 or all_keys]
        for _ in range(size - (columns(erasing).rank() if erasing else 0)):
            rest, remainder = divmod(rest, fmpq_poly([-1, 1]))
            if remainder.degree() >= 0:
                return Finding(False, counterexample=f"A_eff = {written(made)}")
        roots: Any = rest.complex_roots() if rest.degree() > 0 else []
        for root, _ in roots:
            if not abs(root) < 1:
                return Finding(False, counterexample=f"A_eff = {written(made)}: {root}")
            margin = min(margin, float((1 - abs(root)).lower()))
    scope = "40 random rational products, d <= 5, T <= 6" if fast else None
    return Finding(True, margin=margin, scope=scope)


CLAIMS: tuple[Claim, ...] = (norm_kept, peripheral_spectrum)
