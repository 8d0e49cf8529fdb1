"""E4 and E5: what beta in [0, 1] does to the determinant, and beta < 2 to the spectrum."""

import random
from typing import Any

import torch
from flint import arb, fmpq, fmpq_mat, fmpq_poly
from sympy import Expr, Integer, Matrix, Symbol, expand, factor, simplify

from lt2theory.analysis.operators import DPLROperator
from lt2theory.ops.factors import FactorOrder
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import columns, diagonal, product, random_column
from proofs_checks.express_reflections import reflect, written


@claim(
    "E4",
    "determinant of T gated factors",
    statement=(
        "det(I - beta k k^T) = 1 - beta |k|^2, so det A_eff is a product of numbers >= 0, and no "
        "T makes it -1: no odd permutation of the state's channels, nor anything close to one."
    ),
    conditions="beta in [0,1]; unit keys (beta |k|^2 <= 1 is enough); decays >= 0",
    scope="all",
    source="LT2, Section 3 (negative eigenvalues); matrix determinant lemma",
    evidence="symbolic",
    mutants={
        "beta in [0,2]": {"most": 2},
        "keys of length sqrt 2": {"norm": 2},
        "decays of any sign": {"positive_decays": False},
    },
)
def determinant_sign(
    *, fast: bool, most: int = 1, norm: int = 1, positive_decays: bool = True
) -> Finding:
    """The lemma by two block factorisations of one matrix; then the sign of each factor."""
    k, kt, b = (Symbol(name, commutative=False) for name in ("k", "kt", "b"))
    # [[1, b k^T], [k, I]]: eliminating the corner leaves I - k b k^T, the block I 1 - b k^T k.
    corner = Matrix([[1, 0], [k, 1]]) * Matrix([[1, b * kt], [0, 1 - k * b * kt]])
    block = Matrix([[1, b * kt], [0, 1]]) * Matrix([[1 - b * kt * k, 0], [k, 1]])
    lemma = (corner - block).applyfunc(expand).is_zero_matrix
    # beta = most * (1 - p) with p in [0, 1], written p = 1 / (1 + u).
    u = Symbol("u", nonnegative=True)
    alpha = Symbol("alpha", nonnegative=True) if positive_decays else Symbol("alpha", real=True)
    beta = most * (1 - 1 / (1 + u))
    sign = factor(alpha * (1 - beta * norm)).is_nonnegative
    return Finding(bool(lemma) and sign is True)


@claim(
    "E4",
    "determinants of random products",
    statement="det A_eff >= 0 in both factor orders; an odd permutation has -1.",
    conditions="beta in [0,1]; unit keys; decays in [0,1]",
    scope="random rational products, d <= 5, T <= 8, both orders",
    source="derivation",
    evidence="exact",
    mutants={
        "beta in [0,2]": {"most": 2},
        "decays of any sign": {"positive_decays": False},
        "keys of length sqrt 2": {"norm": 2},
    },
)
def random_determinants(
    *, fast: bool, most: int = 1, positive_decays: bool = True, norm: int = 1
) -> Finding:
    """Determinant of the whole product, never of its factors."""
    rng = random.Random(4)
    least = None
    for _ in range(60 if fast else 1000):
        size = rng.randint(1, 5)
        steps = _random_steps(rng, size, rng.randint(1, 8), most * norm, positive_decays)
        for order in ("decay_first", "erase_first"):
            made = product([e * d if order == "decay_first" else d * e for e, d in steps])
            det = made.det()
            if det < 0:
                return Finding(False, counterexample=f"{order}: A_eff = {written(made)}")
            least = det if least is None or det < least else least
    scope = "60 random rational products, d <= 5, T <= 8, both orders" if fast else None
    return Finding(True, scope=scope, margin=None if least is None else float(arb(least)))


def _random_steps(
    rng: random.Random, size: int, loops: int, most: int, positive_decays: bool
) -> list[tuple[fmpq_mat, fmpq_mat]]:
    steps = []
    for _ in range(loops):
        erase = reflect(random_column(rng, size), fmpq(rng.randint(0, 8 * most), 8))
        least = 0 if positive_decays else -8
        steps.append((erase, diagonal([fmpq(rng.randint(least, 8), 8) for _ in range(size)])))
    return steps


@claim(
    "E4",
    "the analyser's determinant",
    statement=(
        "DPLROperator.determinant of composed factors agrees with the product of "
        "alpha_1..alpha_d (1 - beta |k|^2) over the loops, and is >= 0."
    ),
    conditions="beta in [0,1]; unit keys",
    scope="256 random products, d = 6, T = 5, both orders, float64, 1e-12 absolute",
    source="derivation",
    evidence="float64",
    mutants={
        "beta in [0,2]": {"most": 2},
        "keys of length sqrt 2": {"length": 2**0.5},
        "the lemma without decays": {"with_decays": False},
    },
)
def analyser_determinant(
    *, fast: bool, most: int = 1, length: float = 1.0, with_decays: bool = True
) -> Finding:
    """Margin: the tolerance less the largest difference."""
    generator = torch.Generator().manual_seed(4)
    shape, tolerance, worst = (256, 5, 6), 1e-12, 0.0
    orders: tuple[FactorOrder, ...] = ("decay_first", "erase_first")
    for order in orders:
        keys = torch.randn(shape, generator=generator, dtype=torch.float64)
        keys = keys * (length / keys.norm(dim=-1, keepdim=True))
        betas = most * torch.rand(shape[:2], generator=generator, dtype=torch.float64)
        logs = -torch.rand(shape, generator=generator, dtype=torch.float64)
        total = DPLROperator.identity((shape[0],), shape[2])
        for t in range(shape[1]):
            new = DPLROperator.from_factor(keys[:, t], betas[:, t], logs[:, t], order)
            total = new.compose(total)
        decays = logs.sum((1, 2)).exp() if with_decays else 1.0
        worst = max(worst, float((total.determinant() - decays * (1 - betas).prod(1)).abs().max()))
        if bool((total.determinant() < -tolerance).any()):
            return Finding(False)
    return Finding(worst < tolerance, margin=tolerance - worst)


@claim(
    "E5",
    "what keeps its norm is left alone",
    statement=(
        "|x|^2 - |(I - beta k k^T) x|^2 = beta (2 - beta) (k^T x)^2: a factor shrinks whatever it "
        "changes. So if a product keeps the norm of x, every factor leaves x unchanged: the only "
        "eigenvalue of modulus 1 is 1, and the only orthogonal matrix, hence the only permutation, "
        "is the identity."
    ),
    conditions="beta in [0,2), unit keys, decays in [0,1]; any T, both factor orders",
    scope="all",
    source="derivation; beta = 2 is LT2's case of negative eigenvalues",
    evidence="symbolic",
    mutants={
        "beta may be 2": {"closed": True},
        "keys of length sqrt 2": {"norm": 2},
        "decays may be -1": {"negative_decays": True},
    },
)
def norm_kept(
    *, fast: bool, closed: bool = False, norm: int = 1, negative_decays: bool = False
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
    beta: Expr = Integer(2) if closed else 2 * t / (1 + t)
    strict = factor(simplify(beta * (2 - beta))).is_positive
    # A decay below 1, written 1 - p with p in (0, 1] (or (0, 2]), shrinks; a decay of 1 is I.
    p = (2 if negative_decays else 1) / (1 + u)
    shrinks = factor(1 - (1 - p) ** 2).is_positive
    return Finding(bool(loss_holds and strict and shrinks))


@claim(
    "E5",
    "peripheral spectra of random products",
    statement=(
        "The eigenvalue 1 of an ungated product has multiplicity d - rank(K), K the keys of "
        "non-zero beta, and every other eigenvalue lies strictly inside the unit circle."
    ),
    conditions="beta in [0,2), unit keys, no gates",
    scope="random rational products, d <= 5, T <= 6; multiplicities exact, roots by balls",
    source="derivation",
    evidence="ball",
    mutants={
        "beta may be 2": {"closed": True},
        "keys of length sqrt 2": {"norm": 2},
        "a scalar gate of 1/2": {"gate": (1, 2)},
    },
)
def peripheral_spectrum(
    *, fast: bool, closed: bool = False, norm: int = 1, gate: tuple[int, int] = (1, 1)
) -> Finding:
    """Divide the characteristic polynomial by (x - 1)^m exactly; margin: distance to the circle."""
    rng = random.Random(5)
    margin = 1.0
    for _ in range(40 if fast else 600):
        size, loops = rng.randint(1, 5), rng.randint(1, 6)
        keys = [random_column(rng, size) for _ in range(loops)]
        strengths = [fmpq(16 if closed else rng.randint(1, 15), 8) for _ in keys]
        made = product([reflect(k, b * norm) for k, b in zip(keys, strengths, strict=True)])
        made *= fmpq(*gate)
        rest = made.charpoly()
        for _ in range(size - columns(keys).rank()):
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


CLAIMS: tuple[Claim, ...] = (
    determinant_sign,
    random_determinants,
    analyser_determinant,
    norm_kept,
    peripheral_spectrum,
)
