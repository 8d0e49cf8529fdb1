"""E6: two factors have non-negative real eigenvalues."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import prod

from sympy import Expr, Matrix, Symbol, diag, expand, eye, factor, lambdify, symbols

from proofs_checks.claim import Claim, Finding, claim


@claim(
    "E6",
    "non-negative for T <= 2, or one gated factor",
    statement=(
        "A product of at most two ungated factors has only non-negative real eigenvalues, also "
        "with scalar gates; so has one factor with a diagonal gate."
    ),
    scope="all",
    source="arXiv 2411.12537 for one factor; derivation",
    evidence="symbolic",
    hypotheses={
        "beta at most 1": {"beta up to 2": {"most": 2}},
        "unit keys (shorter ones are a smaller beta)": {"keys of length sqrt 2": {"norm": 2}},
        "gates >= 0": {"gates of any sign": {"positive_gates": False}},
        "no third factor": {"a third factor": {"factors": 3}},
        "with a diagonal gate no second factor": {"one between two factors": {"by_channel": True}},
    },
    where="negative beta as well",
)
def two_factors(
    *,
    fast: bool,
    most: int = 1,
    norm: int = 1,
    positive_gates: bool = True,
    factors: int = 2,
    by_channel: bool = False,
) -> Finding:
    """In the plane of the keys the trace is at least twice the root of the determinant.

    Elsewhere the product is I. With 1 - b = x^2 and the angle of the keys, trace / g - 2 x_1 x_2 is
    cos^2 (1 - x_1 x_2)^2 + sin^2 (x_1 - x_2)^2, whatever the signs of x are. One gated factor A D
    is similar to the symmetric sqrt(D) A sqrt(D), and A = P + (1 - b) k k^T with two projections.
    """
    k, kt, b = Symbol("k", commutative=False), Symbol("kt", commutative=False), Symbol("b")
    flat = 1 - k * kt
    projects = expand(expand(flat * flat - flat).subs(kt * k, norm)) == 0
    splits = expand(flat + (1 - b) * k * kt - (1 - b * k * kt)) == 0
    # b |k|^2 is `most * norm` less x^2, a gate g^2; angles by t = tan(angle / 2).
    x, t = symbols(f"x:{factors}", real=True), symbols(f"t:{factors}", real=True)
    g, h = symbols("g h", real=True)
    gate = g**2 if positive_gates else g
    made = diag(gate, h**2 if by_channel else gate)
    for i in range(factors):
        # Gates by channel fix the axes; else the first key may be the first axis.
        tan = t[i] if i or by_channel else 0
        key = Matrix([1 - tan**2, 2 * tan]) / (1 + tan**2)
        step = eye(2) - (most * norm - x[i] ** 2) * key * key.T
        made = step * made if i else made * step
    root = g * (h if by_channel else g) * prod(x)
    point = _below((*x, *t, g, h), made.trace() - 2 * root)
    if point:
        return Finding(False, counterexample=f"trace below the root: {point}")
    cos = (1 - t[1] ** 2) / (1 + t[1] ** 2)
    above = cos**2 * (1 - x[0] * x[1]) ** 2 + (1 - cos**2) * (x[0] - x[1]) ** 2
    determinant = factor(made.det() - root**2) == 0
    trace = factor(made.trace() - 2 * root - gate * above) == 0
    signs = all(factor(1 - most * norm + y**2).is_nonnegative for y in x)
    return Finding(bool(projects and splits and determinant and trace and signs))


def _below(letters: Sequence[Symbol], bound: Expr) -> str | None:
    """Where a bound is negative, on a grid where beta |k|^2 is the most that it may be."""
    value = lambdify(letters, bound)
    halves = {"x": (0,), "t": (-4, -2, -1, 0, 1, 2, 4), "g": (1, 2), "h": (1, 2)}
    choices = [[Fraction(n, 2) for n in halves[str(letter)[0]]] for letter in letters]
    for point in itertools.product(*choices):
        if value(*point) < 0:
            return ", ".join(f"{a} = {n}" for a, n in zip(letters, point, strict=True))
    return None


CLAIMS: tuple[Claim, ...] = (two_factors,)
