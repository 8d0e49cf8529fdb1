"""R12: the product of the singular values is a volume, and what random keys give away of it."""

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import torch
from flint import fmpq, fmpq_mat
from scipy import stats
from sympy import combsimp, factorial, ring, symbols
from sympy.polys.domains import QQ

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, columns, identity, random_column
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import Gates, loops, multiplied, random_decays, random_strength


@claim(
    "R12",
    "volume law at T = d",
    statement="det(I - A_T...A_1) = prod(beta) det(K)^2 = prod(beta) det(K^T K) for T = d_k.",
    conditions="no gates",
    scope="closed identity in all keys and beta, T = d = 1, 2, 3",
    source="derivation: R1, with det M = prod(beta)",
    evidence="symbolic",
    mutants={
        "no square": {"power": 1},
        "beta left out": {"with_beta": False},
        "a gate": {"gated": True},
    },
)
def volume_symbolic(
    *, fast: bool, power: int = 2, with_beta: bool = True, gated: bool = False
) -> Finding:
    """The product is multiplied out; the determinants are expanded by minors."""
    sizes = (1, 2) if fast else (1, 2, 3)
    for size in sizes:
        names = [f"k{i}{t}" for i in range(size) for t in range(size)]
        _, *gens = ring([*names, *(f"b{t}" for t in range(size)), "g"], QQ)
        K = [gens[i * size : (i + 1) * size] for i in range(size)]
        betas, gate = gens[size * size : -1], gens[-1] if gated else gens[-1] ** 0
        total: Any = [[(i == j) * gens[-1] ** 0 for j in range(size)] for i in range(size)]
        for t in range(size):
            key = [K[i][t] for i in range(size)]
            read = [sum(key[i] * total[i][j] for i in range(size)) for j in range(size)]
            total = [
                [gate * (total[i][j] - betas[t] * key[i] * read[j]) for j in range(size)]
                for i in range(size)
            ]
        correction = [[(i == j) - total[i][j] for j in range(size)] for i in range(size)]
        claimed = _determinant(K) ** power
        for beta in betas if with_beta else ():
            claimed = claimed * beta
        if _determinant(correction) != claimed:
            return Finding(False, counterexample=f"T = d = {size}")
    return Finding(True, scope=f"closed identity in all keys and beta, T = d in {sizes}")


def _determinant(rows: Sequence[Sequence[Any]]) -> Any:
    if len(rows) == 1:
        return rows[0][0]
    return sum(
        (-1) ** j * rows[0][j] * _determinant([[*row[:j], *row[j + 1 :]] for row in rows[1:]])
        for j in range(len(rows))
    )


@claim(
    "R12",
    "volume law",
    statement="prod_{i<=T} sigma_i(I - A_T...A_1) = prod|beta| det(K^T K).",
    conditions="no gates (with scalar ones the factor prod(alpha)^T); T <= d_k",
    scope="2,000 random rational instances, d <= 5, T <= d: coefficients of the characteristic "
    "polynomials of X^T X",
    source="derivation: R1, with det M = prod(beta)",
    evidence="exact",
    mutants={
        "T > d": {"beyond": True},
        "a gate": {"gates": "scalar"},
        "a gate by channel": {"gates": "diagonal", "with_gate": True},
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
        betas = [random_strength(rng) for _ in keys]
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


@claim(
    "R12",
    "expected volume of random keys: all sizes",
    statement=(
        "E det(K^T K) = d! / ((d - T)! d^T): one more key multiplies it by 1 - T/d, whatever the "
        "earlier keys."
    ),
    conditions="keys independent with E k k^T = I/d: isotropic, and of mean square length 1",
    scope="all",
    source="derivation: Schur complement; det [[G, g], [g^T, n]] = det(G) (n - g^T G^-1 g)",
    evidence="symbolic",
    mutants={
        "not isotropic: E k k^T has another part on the keys": {"isotropic": False},
        "mean square length not 1": {"unit": False},
        "with putting back (d^T over d^T)": {"falling": False},
    },
)
def expected_symbolic(
    *, fast: bool, isotropic: bool = True, unit: bool = True, falling: bool = True
) -> Finding:
    """The trace of the projection on T independent keys is T; the rest is telescoping."""
    d, T = symbols("d T", positive=True, integer=True)
    n, c = scalars("n c")
    K, Kt, G, R = letters("K Kt G R")
    # The projection on the keys, Q = K G^-1 K^T: Q^2 = Q, so its trace is its rank T.
    rules = {(Kt, K): G, (R, G): 1, (G, R): 1}
    Q = K * R * Kt
    projects = vanishes(Q * Q - Q, rules) and vanishes(Q * K - K, rules)
    # E k^T Q k = tr(Q E k k^T) = T/d; where more of k lies on the keys, it is larger by c.
    inside = T / d + (0 if isotropic else c)
    step = (1 if unit else n) - inside
    expected = factorial(d) / (factorial(d - T) * d**T) if falling else d**T / d**T
    ratio = combsimp(expected.subs(T, T + 1) / expected)
    starts = expected.subs(T, 0) == 1
    return Finding(bool(projects and starts and combsimp(ratio - step) == 0))


@claim(
    "R12",
    "expected volume of random keys: finite distributions",
    statement="E det(K^T K) = d! / ((d - T)! d^T) for independent isotropic unit keys.",
    conditions="keys independent with E k k^T = I/d: isotropic, and of mean square length 1",
    scope="every tuple of keys, exactly: axes (d <= 4), signs / sqrt d (d = 2, 3, 4), lines "
    "(3,4)/5 and (-4,3)/5; T <= d",
    source="derivation; the mean over any such finite set is exact",
    evidence="exact",
    mutants={
        "one axis more often": {"isotropic": False},
        "the same key twice": {"independent": False},
        "mean square length 4": {"unit": False},
    },
)
def expected_exact(
    *, fast: bool, isotropic: bool = True, independent: bool = True, unit: bool = True
) -> Finding:
    """Sign vectors up to sign, kept as integers: their determinant is divided by d^T."""
    most = 3 if fast else 4
    # Width, keys that are equally likely, and the square of their length.
    sets: list[tuple[list[fmpq_mat], int]] = []
    for size in range(1, most + 1):
        sets.append(([column(row) for row in identity(size).tolist()], 1))
        signs = itertools.product((1, -1), repeat=size - 1)
        sets.append(([column([1, *rest]) for rest in signs], size))
    sets.append(([column([3, 4]), column([-4, 3])], 25))
    for keys, length2 in sets:
        size = keys[0].nrows()
        likely = keys if isotropic else [*keys, keys[0]]
        for count in range(1, size + 1):
            total = fmpq(0)
            number = 0
            for chosen in itertools.product(likely, repeat=count):
                same = chosen if independent else (chosen[0], *chosen[: count - 1])
                stacked = columns(same)
                total += (stacked.transpose() * stacked).det()
                number += 1
            mean = total / number / fmpq(length2) ** count * (1 if unit else 4**count)
            claimed = fmpq(math.factorial(size), math.factorial(size - count) * size**count)
            if mean != claimed:
                return Finding(False, counterexample=f"d = {size}, T = {count}: mean {mean}")
    return Finding(True, scope=f"every tuple of keys, exactly: axes and signs, d <= {most}; T <= d")


@claim(
    "R12",
    "expected volume on the sphere",
    statement="Uniform unit keys have mean det(K^T K) = d! / ((d - T)! d^T).",
    conditions="keys independent and uniform on the sphere",
    scope="d = 8 and T = 2, 4, 8; 20,000 draws each; two-sided z test at level 0.001 in all",
    source="derivation; mean of independent draws, Bonferroni over the three",
    evidence="statistical",
    mutants={
        "keys lean to one side": {"lean": 1.5},
        "no negative entries": {"corner": True},
        "keys depend on the first": {"independent": False},
    },
)
def expected_statistical(
    *,
    fast: bool,
    lean: float = 0.0,
    corner: bool = False,
    independent: bool = True,
    seed: int = 12,
) -> Finding:
    """Normal vectors, normalised; the margin is in p-values above the level."""
    generator = torch.Generator().manual_seed(seed)
    number = 4000 if fast else 20000
    level = 0.001 / 3
    least = 1.0
    for count in (2, 4, 8):
        draw = torch.randn(number, count, 8, generator=generator, dtype=torch.float64)
        if corner:
            draw = torch.rand(number, count, 8, generator=generator, dtype=torch.float64)
        draw[..., 0] += lean
        if not independent:
            draw[:, 1:] += draw[:, :1]
        keys = draw / draw.norm(dim=-1, keepdim=True)
        volumes = torch.linalg.det(keys @ keys.mT)
        claimed = math.factorial(8) / (math.factorial(8 - count) * 8**count)
        z = float((volumes.mean() - claimed) / (volumes.std() / number**0.5))
        least = min(least, float(2 * stats.norm.sf(abs(z))))
    said = f"d = 8 and T = 2, 4, 8; {number} draws each; two-sided z test, level 0.001 in all"
    return Finding(least > level, margin=least - level, scope=said)


CLAIMS: tuple[Claim, ...] = (
    volume_symbolic,
    volume_exact,
    expected_symbolic,
    expected_exact,
    expected_statistical,
)
