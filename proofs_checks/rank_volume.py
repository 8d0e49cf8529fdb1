"""R12: the product of the singular values is a volume, that of the keys times the strengths."""

import random
from collections.abc import Sequence
from math import prod
from typing import Any

from flint import fmpq
from sympy import ring
from sympy.polys.domains import QQ

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import identity, random_column, random_rational
from proofs_checks.exact_vectors import multiplied
from proofs_checks.loops import Gates, loops, random_decays


@claim(
    "R12",
    "volume law at T = d",
    statement="det(I - A_T...A_1) = prod(beta) det(K)^2 = prod(beta) det(K^T K) for T = d_k.",
    scope="closed identity in all keys and beta, T = d = 1, 2, 3",
    source="derivation: R1, with det M = prod(beta)",
    evidence="symbolic",
    hypotheses={
        "no gates": {"a gate": {"gated": True}},
        "T = d_k": {"a loop more": {"more": 1}, "a loop fewer": {"more": -1}},
    },
    where="any keys and any beta",
    mutants={"no square": {"power": 1}, "beta left out": {"with_beta": False}},
)
def volume_symbolic(
    *, fast: bool, gated: bool = False, more: int = 0, power: int = 2, with_beta: bool = True
) -> Finding:
    """The product is multiplied out; the determinants are expanded by minors.

    Keys of another number than d have no det(K), only det(K^T K).
    """
    sizes = (1, 2) if fast else (1, 2, 3)
    for size in sizes:
        count = size + more
        names = [f"k{i}{t}" for i in range(size) for t in range(count)]
        _, *gens = ring([*names, *(f"b{t}" for t in range(count)), "g"], QQ)
        zero, one = gens[-1] * 0, gens[-1] ** 0
        K = [gens[i * count : (i + 1) * count] for i in range(size)]
        betas, gate = gens[size * count : -1], gens[-1] if gated else one
        total = [[(i == j) * one for j in range(size)] for i in range(size)]
        for t in range(count):
            key = [K[i][t] for i in range(size)]
            read = [sum((key[i] * total[i][j] for i in range(size)), zero) for j in range(size)]
            total = [
                [gate * (total[i][j] - betas[t] * key[i] * read[j]) for j in range(size)]
                for i in range(size)
            ]
        correction = [[(i == j) * one - total[i][j] for j in range(size)] for i in range(size)]
        gram = [
            [sum((K[i][s] * K[i][t] for i in range(size)), zero) for t in range(count)]
            for s in range(count)
        ]
        volume = _determinant(gram, one)
        if count == size and volume != _determinant(K, one) ** power:
            return Finding(False, counterexample=f"det(K) for T = d = {size}")
        claimed = prod(betas if with_beta else (), start=volume)
        if _determinant(correction, one) != claimed:
            return Finding(False, counterexample=f"T = {count}, d = {size}")
    return Finding(True, scope=f"closed identity in all keys and beta, T = d in {sizes}")


def _determinant(rows: Sequence[Sequence[Any]], one: Any) -> Any:
    """Expanded along the first row; that of no rows is 1."""
    total = one if not rows else one * 0
    for j in range(len(rows)):
        minor = _determinant([[*row[:j], *row[j + 1 :]] for row in rows[1:]], one)
        total += (-1) ** j * rows[0][j] * minor
    return total


@claim(
    "R12",
    "volume law",
    statement="prod_{i<=T} sigma_i(I - A_T...A_1) = prod|beta| det(K^T K).",
    scope="2,000 random rational instances, d <= 5, T <= d: coefficients of the characteristic "
    "polynomials of X^T X",
    source="derivation: R1, with det M = prod(beta)",
    evidence="exact",
    hypotheses={
        "no gates, or scalar ones and the factor prod(alpha)^T for them": {
            "a scalar gate without its factor": {"gates": "scalar"},
            "a gate by channel": {"gates": "diagonal", "with_gate": True},
        },
        "T <= d_k": {"T > d": {"beyond": True}},
    },
    where="the baseline of scalar gates is prod(alpha) I; any keys and any beta",
    mutants={
        "the root of the volume": {"power": 1},
        "beta left out": {"with_beta": False},
    },
)
def volume_exact(
    *,
    fast: bool,
    beyond: bool = False,
    gates: Gates = "none",
    with_gate: bool = False,
    power: int = 2,
    with_beta: bool = True,
) -> Finding:
    """The sum of all products of T squared values is their one product, since the rank is T.

    Half of the instances have scalar gates, with their factor.
    """
    rng = random.Random(12)
    number = 100 if fast else 2000
    for turn in range(number):
        size = rng.randint(1, 5)
        count = rng.randint(1, size) + (size if beyond else 0)
        keys = [random_column(rng, size) for _ in range(count)]
        if turn % 5 == 4:
            keys[-1] = keys[0]
        betas = [random_rational(rng) for _ in keys]
        kind: Gates = "scalar" if gates == "none" and turn % 2 else gates
        scaled = with_gate or (gates == "none" and kind == "scalar")
        found = loops(keys, betas, random_decays(rng, size, count, kind))
        X = found.correction() if scaled else identity(size) - found.effective()
        values = min(count, size)
        polynomial = (X.transpose() * X).charpoly()
        squared = polynomial[size - values] * (-1) ** values
        gram = found.stacked.transpose() * found.stacked
        factor = found.baseline()[0, 0] ** values if scaled else fmpq(1)
        strength = multiplied(betas) if with_beta else fmpq(1)
        if squared != (factor * strength) ** 2 * gram.det() ** power:
            return Finding(False, counterexample=found.written())
    return Finding(True, scope=f"{number} random rational instances, d <= 5, T <= d")


CLAIMS: tuple[Claim, ...] = (volume_symbolic, volume_exact)
