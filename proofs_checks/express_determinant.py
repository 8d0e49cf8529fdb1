"""E4: what beta in [0, 1] does to the determinant."""

import random

import torch
from flint import arb, fmpq, fmpq_mat
from sympy import Matrix, Symbol, expand, factor

from lt2theory.analysis.operators import DPLROperator
from lt2theory.ops.factors import FactorOrder
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import diagonal, product, random_column
from proofs_checks.express_reflections import reflect, written


@claim(
    "E4",
    "determinant of T gated factors",
    statement=(
        "det(I - beta k k^T) = 1 - beta |k|^2, so det A_eff is a product of numbers >= 0, and no "
        "T makes it -1: no odd permutation of the state's channels, nor anything close to one."
    ),
    scope="all",
    source="LT2, Section 3 (negative eigenvalues); matrix determinant lemma",
    evidence="symbolic",
    hypotheses={
        "beta at most 1": {"beta up to 2": {"most": 2}},
        "keys of length at most 1": {"keys of length sqrt 2": {"norm": 2}},
        "decays >= 0": {"decays of any sign": {"positive_decays": False}},
    },
    where="negative beta as well; decays may exceed 1",
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
    # beta = most - p with p >= 0, and |k|^2 = norm / (1 + u), at most norm.
    p, u = (Symbol(name, nonnegative=True) for name in ("p", "u"))
    alpha = Symbol("alpha", nonnegative=True) if positive_decays else Symbol("alpha", real=True)
    sign = factor(alpha * (1 - (most - p) * norm / (1 + u))).is_nonnegative
    return Finding(bool(lemma) and sign is True)


@claim(
    "E4",
    "determinants of random products",
    statement="det A_eff >= 0 in both factor orders; an odd permutation has -1.",
    scope="random rational products, d <= 5, T <= 8, both orders",
    source="derivation",
    evidence="exact",
    hypotheses={
        "beta at most 1": {"beta up to 2": {"most": 2}},
        "keys of length at most 1": {"keys of length sqrt 2": {"norm": 2}},
        "decays >= 0": {"decays of any sign": {"positive_decays": False}},
    },
    where="negative beta as well; decays may exceed 1",
)
def random_determinants(
    *, fast: bool, most: int = 1, norm: int = 1, positive_decays: bool = True
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
    """Erasures with beta |k|^2 from -1 to a maximum, each with decays up to 3/2."""
    steps = []
    for _ in range(loops):
        erase = reflect(random_column(rng, size), fmpq(rng.randint(-8, 8 * most), 8))
        least = 0 if positive_decays else -8
        steps.append((erase, diagonal([fmpq(rng.randint(least, 12), 8) for _ in range(size)])))
    return steps


@claim(
    "E4",
    "the analyser's determinant",
    statement=(
        "DPLROperator.determinant of composed factors agrees with the product of "
        "alpha_1..alpha_d (1 - beta |k|^2) over the loops, and is >= 0."
    ),
    scope="256 random products, d = 6, T = 5, both orders, float64, 1e-12 absolute",
    source="derivation",
    evidence="float64",
    hypotheses={
        "beta at most 1 (for the sign)": {"beta up to 2": {"most": 2}},
        "keys of length at most 1 (for the sign)": {"keys of length sqrt 2": {"length": 2**0.5}},
    },
    mutants={"the lemma without decays": {"with_decays": False}},
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
        claimed = decays * (1 - betas * length**2).prod(1)
        worst = max(worst, float((total.determinant() - claimed).abs().max()))
        if bool((total.determinant() < -tolerance).any()):
            return Finding(False)
    return Finding(worst < tolerance, margin=tolerance - worst)


CLAIMS: tuple[Claim, ...] = (determinant_sign, random_determinants, analyser_determinant)
