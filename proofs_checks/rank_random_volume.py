"""R12: how much of the volume random keys give away."""

import itertools
import math

import torch
from flint import fmpq, fmpq_mat
from scipy import stats
from sympy import combsimp, factorial, symbols

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, columns, identity
from proofs_checks.letters import letters, scalars, vanishes


@claim(
    "R12",
    "expected volume of random keys: all sizes",
    statement=(
        "E det(K^T K) = d! / ((d - T)! d^T): one more key multiplies it by 1 - T/d, whatever the "
        "earlier keys."
    ),
    scope="all",
    source="derivation: Schur complement; det [[G, g], [g^T, n]] = det(G) (n - g^T G^-1 g)",
    evidence="symbolic",
    hypotheses={
        "each key independent of the earlier ones": {
            "a key leans towards the earlier ones": {"independent": False}
        },
        "isotropic": {"E k k^T has another part": {"isotropic": False}},
        "of mean square length 1": {"another length": {"unit": False}},
    },
    where="E k k^T = I/d; T <= d",
    mutants={"with putting back (d^T over d^T)": {"falling": False}},
)
def expected_symbolic(
    *,
    fast: bool,
    independent: bool = True,
    isotropic: bool = True,
    unit: bool = True,
    falling: bool = True,
) -> Finding:
    """The trace of the projection on T independent keys is T; the rest is telescoping.

    Dependent earlier keys have determinant 0, and so have they with one more.
    """
    d, T = symbols("d T", positive=True, integer=True)
    n, c, r = scalars("n c r")
    K, Kt, G, R = letters("K Kt G R")
    # The projection on the keys, Q = K G^-1 K^T: Q^2 = Q, so its trace is its rank T.
    rules = {(Kt, K): G, (R, G): 1, (G, R): 1}
    Q = K * R * Kt
    projects = vanishes(Q * Q - Q, rules) and vanishes(Q * K - K, rules)
    # E k^T Q k = tr(Q E k k^T), E k k^T = n I / d + c W + r (Q - T/d I), given the earlier keys:
    # W, traceless, is what is not isotropic (tr(Q W) = 1), Q - T/d I what leans towards them.
    length = 1 if unit else n
    inside = length * T / d
    inside += 0 if isotropic else c
    inside += 0 if independent else r * (T - T**2 / d)
    step = length - inside
    expected = factorial(d) / (factorial(d - T) * d**T) if falling else d**T / d**T
    ratio = combsimp(expected.subs(T, T + 1) / expected)
    starts = expected.subs(T, 0) == 1
    return Finding(bool(projects and starts and combsimp(ratio - step) == 0))


@claim(
    "R12",
    "expected volume of random keys: finite distributions",
    statement="E det(K^T K) = d! / ((d - T)! d^T) for independent isotropic unit keys.",
    scope="every tuple of keys, exactly: axes (d <= 4), signs / sqrt d (d = 2, 3, 4), lines "
    "(3,4)/5 and (-4,3)/5; T <= d",
    source="derivation; the mean over any such finite set is exact",
    evidence="exact",
    hypotheses={
        "keys independent": {"the same key twice": {"independent": False}},
        "isotropic": {"one axis more often": {"isotropic": False}},
        "of unit length (mean square length 1 is enough)": {
            "mean square length 4": {"unit": False}
        },
    },
    where="E k k^T = I/d; T <= d",
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
    scope="d = 8 and T = 2, 4, 8; 20,000 draws each; two-sided z test at level 0.001 in all",
    source="derivation; mean of independent draws, Bonferroni over the three",
    evidence="statistical",
    hypotheses={
        "keys independent": {"keys depend on the first": {"independent": False}},
        "uniform on their sphere": {
            "keys lean to one side": {"lean": 1.5},
            "no negative entries": {"corner": True},
        },
        "of unit length": {"keys of length 1.1": {"length": 1.1}},
    },
    where="T <= d",
)
def expected_statistical(
    *,
    fast: bool,
    independent: bool = True,
    lean: float = 0.0,
    corner: bool = False,
    length: float = 1.0,
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
        keys = length * draw / draw.norm(dim=-1, keepdim=True)
        volumes = torch.linalg.det(keys @ keys.mT)
        claimed = math.factorial(8) / (math.factorial(8 - count) * 8**count)
        z = float((volumes.mean() - claimed) / (volumes.std() / number**0.5))
        least = min(least, float(2 * stats.norm.sf(abs(z))))
    said = f"d = 8 and T = 2, 4, 8; {number} draws each; two-sided z test, level 0.001 in all"
    return Finding(least > level, margin=least - level, scope=said)


CLAIMS: tuple[Claim, ...] = (expected_symbolic, expected_exact, expected_statistical)
