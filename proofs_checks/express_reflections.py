"""E1: an orthogonal Q is a product of rank(I - Q) reflections and of no fewer (Scherk)."""

import itertools
import random

from flint import fmpq, fmpq_mat
from sympy import Expr, Symbol, expand

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, identity, matrix, product, random_rational


def written(operator: fmpq_mat) -> str:
    """A matrix on one line.

    Args:
        operator: Any matrix.

    Returns:
        Its rows, in brackets.
    """
    rows = [
        ", ".join(str(operator[i, j]) for j in range(operator.ncols()))
        for i in range(operator.nrows())
    ]
    return "[" + "; ".join(rows) + "]"


def moved(operator: fmpq_mat) -> int:
    """Dimensions that an operator moves.

    Args:
        operator: A square matrix Q.

    Returns:
        rank(I - Q).
    """
    return int((identity(operator.nrows()) - operator).rank())


def reflect(mirror: fmpq_mat, beta_norm: fmpq | int = 2) -> fmpq_mat:
    """The factor `I - beta k k^T` of a key of any length.

    Args:
        mirror: The key k, a column that is not zero.
        beta_norm: beta |k|^2; 2 is a reflection.

    Returns:
        The factor.
    """
    norm = (mirror.transpose() * mirror)[0, 0]
    return identity(mirror.nrows()) - mirror * mirror.transpose() * (fmpq(beta_norm) / norm)


def scherk_keys(operator: fmpq_mat) -> list[fmpq_mat]:
    """Keys of the reflections whose product an orthogonal matrix is; rational if it is.

    Each step takes a basis vector x that is still moved and reflects by the key Qx - x, which
    sends Qx back to x and leaves alone what was fixed already.

    Args:
        operator: An orthogonal matrix Q of size d.

    Returns:
        Keys k_1..k_m, the first acting first; at most d, so that a matrix which is not orthogonal
        ends as well.
    """
    size = operator.nrows()
    rest, keys = operator, list[fmpq_mat]()
    for _ in range(size):
        shift = rest - identity(size)
        places = [i for i in range(size) if any(shift[j, i] != 0 for j in range(size))]
        if not places:
            break
        key = column([shift[j, places[0]] for j in range(size)])
        keys.append(key)
        rest = reflect(key) * rest
    return keys[::-1]


@claim(
    "E1",
    "no fewer factors than rank(I - Q)",
    statement=(
        "A product of m factors I - beta k k^T has rank(I - Q) <= m, whatever beta and keys are: "
        "so Q needs at least rank(I - Q) of them."
    ),
    scope="all",
    source="Scherk 1950; derivation: I - AB = (I - A) + A (I - B), induction on m",
    evidence="symbolic",
    hypotheses={"no gates": {"a gate after each factor": {"gated": True}}},
)
def lower_bound(*, fast: bool, gated: bool = False) -> Finding:
    """The step: a new factor adds a matrix of rank one to I - Q, here k times a row."""
    Q, k, kt, b = (Symbol(name, commutative=False) for name in ("Q", "k", "kt", "b"))
    alpha = Symbol("alpha") if gated else 1
    new = alpha * (1 - k * b * kt)
    # I - F Q must be (I - Q) plus a matrix k (row): here the row is b k^T Q.
    return Finding(expand((1 - new * Q) - ((1 - Q) + k * b * kt * Q)) == 0)


@claim(
    "E1",
    "one reflection fixes one more dimension",
    statement=(
        "If Q is orthogonal and Qx != x, the reflection H by the key w = Qx - x has HQx = x, and "
        "HQy = y whenever Qy = y: so rank(I - HQ) = rank(I - Q) - 1, and by induction rank(I - Q) "
        "reflections give Q."
    ),
    scope="all",
    source="Scherk 1950; Cartan and Dieudonne; derivation",
    evidence="symbolic",
    hypotheses={
        "Q^T Q = I": {"Q is not orthogonal": {"orthogonal": False}},
        "beta |w|^2 = 2": {"beta is 1 over |w|^2": {"beta_norm": 1}},
        "Qy = y for what is kept": {"every y is kept": {"fixed": False}},
    },
    where="Qx = x has the key 0, and there is nothing to reflect",
)
def construction_step(
    *, fast: bool, orthogonal: bool = True, beta_norm: int = 2, fixed: bool = True
) -> Finding:
    """Inner products as words: `HQx = Qx - (b |w|^2) w (w^T Q x) / |w|^2` must be `Qx - w`.

    The drop is exactly one, because by the lower bound a single factor cannot gain more.
    """
    x, xt, y, Q, Qt = (Symbol(name, commutative=False) for name in ("x", "xt", "y", "Q", "Qt"))
    wt, w = xt * Qt - xt, Q * x - x

    def scalar(word: Expr) -> Expr:
        word = expand(word)
        if orthogonal:
            word = expand(word.subs(Qt * Q, 1))
        return word.subs(xt * Qt * x, xt * Q * x)  # a number equals its transpose

    back = scalar(beta_norm * wt * Q * x - wt * w) == 0
    # HQy = Qy - (...) w w^T Qy, so w^T Qy must be 0, where Qy may be written y.
    onto = scalar(wt * Q * y)
    stays = (expand(onto.subs(Q * y, y)) if fixed else onto) == 0
    return Finding(bool(back and stays))


@claim(
    "E1",
    "the construction, step by step",
    statement=(
        "Reflecting by Qx - x until nothing moves writes Q as exactly rank(I - Q) reflections, "
        "with rational keys where Q is rational."
    ),
    scope=(
        "all 48 signed permutations of three axes and 200 random rational orthogonal matrices, "
        "d <= 6"
    ),
    source="derivation",
    evidence="exact",
    hypotheses={
        "Q^T Q = I": {"Q is not orthogonal": {"orthogonal": False}},
        "beta |k|^2 = 2": {"beta is 1 over |k|^2": {"beta_norm": 1}},
    },
    mutants={"one reflection fewer": {"left_out": 1}},
)
def construction(
    *, fast: bool, orthogonal: bool = True, beta_norm: int = 2, left_out: int = 0
) -> Finding:
    """Compare the product of the factors with Q, and their number with the rank."""
    rng = random.Random(1)
    operators = _signed_permutations(3)
    operators += [_random_orthogonal(rng, rng.randint(1, 6)) for _ in range(20 if fast else 200)]
    if not orthogonal:
        operators = [matrix([[1, 1], [0, 1]])]
    for operator in operators:
        keys = scherk_keys(operator)[left_out:]
        steps = [reflect(key, beta_norm) for key in keys]
        built = product([identity(operator.nrows()), *steps])
        if built != operator or len(keys) != moved(operator):
            return Finding(False, counterexample=f"Q = {written(operator)}")
    scope = "the 48 signed permutations and 20 random rational matrices" if fast else None
    return Finding(True, scope=scope)


def _signed_permutations(size: int) -> list[fmpq_mat]:
    return [
        matrix([[signs[i] if j == images[i] else 0 for j in range(size)] for i in range(size)])
        for images in itertools.permutations(range(size))
        for signs in itertools.product((1, -1), repeat=size)
    ]


def _random_orthogonal(rng: random.Random, size: int) -> fmpq_mat:
    """Cayley transform of a random skew matrix, some of its rows negated."""
    skew = [[fmpq(0)] * size for _ in range(size)]
    for i, j in itertools.combinations(range(size), 2):
        skew[i][j] = random_rational(rng) if rng.random() < 0.6 else fmpq(0)
        skew[j][i] = -skew[i][j]
    one, lean = identity(size), matrix(skew)
    flips = [rng.choice((1, 1, -1)) for _ in range(size)]
    flip = matrix([[flips[i] if i == j else 0 for j in range(size)] for i in range(size)])
    return flip * (one - lean) * (one + lean).inv()


CLAIMS: tuple[Claim, ...] = (lower_bound, construction_step, construction)
