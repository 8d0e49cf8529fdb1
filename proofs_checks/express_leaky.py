"""E9: how negative an eigenvalue of T factors with beta in [0, 1] can be."""

import random
from typing import Any

from flint import acb, arb, arb_mat, fmpq, fmpq_mat, fmpq_poly
from sympy import Rational, Symbol, cos, diff, expand, log, pi, sec, simplify

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, product, random_column
from proofs_checks.express_reflections import reflect, written

QUOTED = {3: "-0.125", 4: "-0.25", 8: "-0.531", 16: "-0.733"}


@claim(
    "E9",
    "eigenvalues of T factors, the bound",
    statement=(
        "Every eigenvalue r e^{i phi} with r > 0, |phi| <= pi, of a product of T factors has "
        "r <= cos(|phi|/T)^T; so a real one is at least -cos^T(pi/T)."
    ),
    scope="all",
    source=(
        "derivation: a factor that turns by theta keeps at most cos(theta); real angles obey the "
        "triangle inequality; log cos is concave"
    ),
    evidence="symbolic",
    hypotheses={
        "beta |k|^2 in [0,1]": {
            "beta in [0,2]": {"most": 2},
            "keys of length sqrt 2": {"norm": 2},
            "a negative beta": {"most": -1},
        },
        "scalar gates (or none)": {"a diagonal gate": {"diagonal_gate": True}},
        "gates in (0,1]": {"scalar gates above 1": {"gate_below_one": False}},
        "T >= 2 for the last part": {"T = 1": {"least_loops": 1}},
    },
)
def bound(
    *,
    fast: bool,
    most: int = 1,
    norm: int = 1,
    gate_below_one: bool = True,
    diagonal_gate: bool = False,
    least_loops: int = 2,
) -> Finding:
    """A = g (I - b k k^T) has <x, Ax> - |Ax|^2 >= 0, so cos(theta) |x| = <x, Ax>/|Ax| >= |Ax|.

    Along x_0, x_1 = A_1 x_0, ... r is at most the product of the cosines, while in C^d as a real
    space the angle of x_0 and r e^{i phi} x_0 is |phi|, so the thetas sum to at least |phi|. By
    concavity the product is largest where they are equal. <x, Ax> is real only for a symmetric A.
    A real eigenvalue has phi = pi or is not negative, and -cos^T(pi/T) must not be positive.
    """
    x, xt, k, kt = (Symbol(name, commutative=False) for name in ("x", "xt", "k", "kt"))
    D = Symbol("D", commutative=False)
    b, g = Symbol("b"), Symbol("g")
    middle = 1 - b * k * kt
    right, left = (middle * D, D * middle) if diagonal_gate else (g * middle, g * middle)
    symmetric = expand(right - left) == 0
    # With z = (k^T x)^2, s = |k|^2 what is left is g (1 - g) |x|^2 + (g^2 b (2 - b s) - g b) z.
    s = Symbol("s", positive=True)
    left_over = expand(expand(xt * (g * middle - g**2 * middle * middle) * x).subs(kt * k, s))
    rest = g * (1 - g) * xt * x + (g**2 * b * (2 - b * s) - g * b) * xt * k * kt * x
    splits = expand(left_over - rest) == 0
    # z lies in [0, s |x|^2] and the form is linear in it: look at both ends.
    u, w = Symbol("u", nonnegative=True), Symbol("w", nonnegative=True)
    gate = 1 / (1 + u) if gate_below_one else 1 + u
    strength = most * norm / (1 + w) / s
    ends = [g * (1 - g), g * (1 - g) + (g**2 * b * (2 - b * s) - g * b) * s]
    signs = [simplify(end.subs({g: gate, b: strength})).factor().is_nonnegative for end in ends]
    theta = Symbol("theta", real=True)
    concave = simplify(diff(log(cos(theta)), theta, 2) + sec(theta) ** 2) == 0
    loops = least_loops + Symbol("n", nonnegative=True, integer=True)
    reaches_zero = simplify(Rational(1, 2) - 1 / loops).factor().is_nonnegative  # pi/T <= pi/2
    return Finding(bool(symmetric and splits and all(signs) and concave and reaches_zero))


@claim(
    "E9",
    "the bound is attained",
    statement=(
        "The product of T projections in the plane, with keys pi/T apart, has the eigenvalue "
        "-cos^T(pi/T): it has rank one, and its trace is cos(pi/T)^(T-1) cos((T-1) pi/T)."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "beta |k|^2 = 1": {"reflections": {"beta": 2}},
        "each key pi/T from the one before": {
            "keys pi/(T+1) apart": {"more": 1},
            "keys 2 pi/T apart": {"twice": 2},
        },
    },
    where="d_k = 2; in more dimensions what is orthogonal to the keys' plane stays as it is",
)
def attained(*, fast: bool, beta: int = 1, more: int = 0, twice: int = 1) -> Finding:
    """Symbolic in T, by induction: `c n f^T` for n, f orthogonal to the last and the first key.

    The next factor is n n^T + (1 - beta) k k^T, and n^T p is the cosine of the step from p to n.
    """
    loops = Symbol("T", positive=True, integer=True)
    step = twice * pi / (loops + more)
    n, nt, p, k, kt, ft = (Symbol(s, commutative=False) for s in ("n", "nt", "p", "k", "kt", "ft"))
    appended = expand((n * nt + (1 - beta) * k * kt) * p * ft).subs(nt * p, cos(step))
    rank_one = expand(appended - cos(step) * n * ft) == 0
    trace = cos(step) ** (loops - 1) * cos((loops - 1) * step)
    wanted = -(cos(pi / loops) ** loops)
    difference = simplify((trace - wanted).rewrite(cos).expand(trig=True))
    return Finding(bool(rank_one and difference == 0))


@claim(
    "E9",
    "projections pi/T apart",
    statement=(
        "The product of the projections has eigenvalues 0 and -cos^T(pi/T): -1/8, -1/4, -0.531, "
        "-0.733 at T = 3, 4, 8, 16."
    ),
    scope="T = 2..64, 2 x 2 products in balls",
    source="derivation",
    evidence="ball",
    hypotheses={
        "beta |k|^2 = 1": {"beta = 1/2": {"beta": "0.5"}},
        "keys pi/T apart": {"keys pi/(T+1) apart": {"more": 1}},
    },
)
def projections(*, fast: bool, beta: str = "1", more: int = 0) -> Finding:
    """Multiply the matrices; margin: 1e-9 less the largest radius of a difference."""
    widest = 0.0
    for loops in range(2, 17 if fast else 65):
        made = arb_mat([[1, 0], [0, 1]])
        for j in range(loops):
            angle = arb(j) * arb.pi() / (loops + more)
            key = arb_mat([[angle.cos()], [angle.sin()]])
            made = (arb_mat([[1, 0], [0, 1]]) - key * key.transpose() * arb(beta)) * made
        wanted = -((arb.pi() / loops).cos() ** loops)
        difference, determinant = made[0, 0] + made[1, 1] - wanted, made.det()
        quoted = abs(wanted - arb(QUOTED[loops])) < arb("0.0005") if loops in QUOTED else True
        if not (difference.contains(0) and determinant.contains(0) and quoted):
            return Finding(False, counterexample=f"T = {loops}: {difference}")
        widest = max(widest, float(difference.rad()), float(determinant.rad()))
    scope = "T = 2..16, 2 x 2 products in balls" if fast else None
    return Finding(widest < 1e-9, margin=1e-9 - widest, scope=scope)


@claim(
    "E9",
    "eigenvalues of random products",
    statement="Every eigenvalue r e^{i phi} with r > 0 has r <= cos(|phi|/T)^T.",
    scope=(
        "random rational products, d <= 4, T = 2..8, and rational keys nearly pi/T apart; roots of "
        "the exact characteristic polynomial by balls"
    ),
    source="derivation",
    evidence="ball",
    hypotheses={
        "beta |k|^2 in [0,1]": {
            "beta in [0,2]": {"most": 2},
            "keys of length sqrt 2": {"norm": 2},
        },
        "scalar gates (or none)": {"diagonal gates": {"diagonal_gates": True}},
        "gates in (0,1]": {"a scalar gate of 3/2": {"gate": (3, 2)}},
    },
    mutants={"the bound of T - 1 factors": {"fewer": 1}},
)
def random_eigenvalues(
    *,
    fast: bool,
    fewer: int = 0,
    most: int = 1,
    norm: int = 1,
    gate: tuple[int, int] | None = None,
    diagonal_gates: bool = False,
) -> Finding:
    """Margin: the least bound minus modulus over all roots but 0 and 1, which are exact."""
    rng = random.Random(9)
    margin = 1.0
    for draw in range(40 if fast else 500):
        loops = 2 + draw % 7
        size, keys = 2, _nearly_even(loops)
        if draw >= 7:
            size = rng.randint(1, 4)
            keys = [random_column(rng, size) for _ in range(loops)]
        betas = [fmpq(1) if draw < 7 else fmpq(rng.randint(0, 8 * most), 8) for _ in keys]
        scale = fmpq(*gate) if gate else fmpq(rng.randint(1, 8) if draw >= 7 else 8, 8)
        steps = [reflect(k, b * norm) * scale for k, b in zip(keys, betas, strict=True)]
        if diagonal_gates:
            steps = [reflect(column([1, -1]), 1), reflect(column([1, 1]), 1)]
            steps = [s * diagonal(g) for s, g in zip(steps, ([2, 1], [1, 2]), strict=True)]
            steps, loops = [step * fmpq(1, 2) for step in steps], 2
        made = product(steps)
        for root in _roots(made):
            room = (abs(root.arg()) / (loops - fewer)).cos() ** (loops - fewer) - abs(root)
            if not room >= 0:
                said = f"T = {loops}: A_eff = {written(made)}, eigenvalue {root}"
                return Finding(False, counterexample=said)
            margin = min(margin, float(room.lower()))
    return Finding(True, margin=margin, scope="40 of the random products" if fast else None)


def _roots(operator: fmpq_mat) -> list[acb]:
    """The eigenvalues but 0 and 1."""
    rest: Any = operator.charpoly()
    for exact in (0, 1):
        while rest(fmpq(exact)) == 0 and rest.degree() > 0:
            rest = rest // fmpq_poly([-exact, 1])
    return [acb(root) for root, _ in rest.complex_roots()] if rest.degree() > 0 else []


def _nearly_even(loops: int) -> list[fmpq_mat]:
    """Rational unit keys whose angles are near j pi / T, by tan of half of them."""
    keys = []
    for j in range(loops):
        tangent = (arb.pi() * j / (2 * loops)).tan()
        t = fmpq(round(float(tangent.mid()) * 1000), 1000)
        keys.append(column([1 - t * t, 2 * t]))
    return keys


CLAIMS: tuple[Claim, ...] = (bound, attained, projections, random_eigenvalues)
