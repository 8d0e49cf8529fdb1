"""E6: the trap of non-negative eigenvalues, false of three factors, or of two with gates."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from flint import fmpq, fmpq_mat, fmpq_poly

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, identity, product
from proofs_checks.express_reflections import reflect, written
from proofs_checks.quadratic import Surds, surd_factor, surds, unit_matrix


def not_positive(operator: fmpq_mat) -> str | None:
    """An eigenvalue that is not a non-negative real number.

    Args:
        operator: A square matrix.

    Returns:
        Such an eigenvalue, exact where it is rational, or None if there is none.
    """
    polynomial: Any = operator.charpoly()
    for root, _ in polynomial.roots():
        if root < 0:
            return str(root)
    while polynomial[0] == 0 and polynomial.degree() > 0:
        polynomial = polynomial // fmpq_poly([0, 1])
    roots: Any = polynomial.complex_roots() if polynomial.degree() > 0 else []
    for root, _ in roots:
        if not (root.imag == 0 and root.real > 0):
            return str(root)
    return None


@claim(
    "E6",
    "trap without gates",
    statement=(
        "Products of factors with beta in [0,1] have non-negative real eigenvalues, for any number "
        "of loops."
    ),
    scope=(
        "every word of at most three integer keys with entries in -2..2, d <= 2, beta |k|^2 = 1; "
        "keys at 0, 60, 120 degrees over Q(sqrt 3); the rational example in d = 3"
    ),
    source="the reading of arXiv 2411.12537 that LT2's argument needs",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "at most two loops": {"two loops are enough": {"loops": 2}},
        "one channel": {"d = 1 is enough": {"widest": 1}},
    },
    mutants={
        "any three directions do": {"degrees": (0, 90, 60)},
        "beta below 1 leaves -1/8": {"beta_norm": (1, 2)},
    },
    correction=(
        "true for T <= 2, or d_k = 1; false from T = 3 on, where the most negative eigenvalue is "
        "-cos^T(pi/T) (E9)"
    ),
)
def trap_ungated(
    *,
    fast: bool,
    loops: int = 3,
    widest: int = 2,
    degrees: tuple[int, ...] = (0, 60, 120),
    beta_norm: int | tuple[int, int] = 1,
) -> Finding:
    """Search in the order of T, then d, then the largest entry; then the two named examples."""
    strength = fmpq(*beta_norm) if isinstance(beta_norm, tuple) else fmpq(beta_norm)
    found = next(_ungated_search(loops, widest), None)
    at_angles = _at_degrees(degrees)
    rational = [column(key) for key in ((1, -1, 0), (1, 0, -1), (0, 1, -1))]
    three = product([reflect(key, strength) for key in rational])
    polynomial: Any = three.charpoly()
    roots = sorted((root, power) for root, power in polynomial.roots())
    named = roots == [(fmpq(-1, 8), 1), (fmpq(0), 1), (fmpq(1), 1)] and at_angles
    if found is None or not named:
        return Finding(False)
    keys, made, eigenvalue = found
    said = (
        f"T = {len(keys)}, keys {_listed(keys)} over their lengths, beta = 1: A_eff = "
        f"{written(made)} has the eigenvalue {eigenvalue}; keys at 0, 60, 120 degrees have -1/8"
    )
    return Finding(len(keys) == 3 and keys[0].nrows() == 2, counterexample=said)


Found = tuple[Sequence[fmpq_mat], fmpq_mat, str]


def _ungated_search(loops: int, widest: int) -> Iterator[Found]:
    counts, sizes = range(1, loops + 1), range(1, widest + 1)
    for count, size, most in itertools.product(counts, sizes, (1, 2)):
        for keys in itertools.product(_directions(size, most), repeat=count):
            made = product([reflect(key, 1) for key in keys])
            bad = not_positive(made)
            if bad is not None:
                yield keys, made, bad


def _directions(size: int, most: int) -> list[fmpq_mat]:
    """Integer vectors up to their sign, the first non-zero entry being positive."""
    entries = itertools.product(range(-most, most + 1), repeat=size)
    return [column(v) for v in entries if next((x for x in v if x), 0) > 0]


def _listed(keys: Sequence[fmpq_mat]) -> str:
    return ", ".join(f"({', '.join(str(x) for x in key.entries())})" for key in keys)


def _at_degrees(degrees: Sequence[int]) -> bool:
    """Whether three projections have rank 1 and the eigenvalue -1/8, their trace."""
    directions: dict[int, Surds] = {
        0: surds(3, [[1], [0]]),
        60: surds(3, [[1], [0]], [[0], [1]]),
        90: surds(3, [[0], [1]]),
        120: surds(3, [[-1], [0]], [[0], [1]]),
    }
    made = unit_matrix(3, 2)
    for angle in degrees:
        made = surd_factor(directions[angle], 1) @ made
    return made.rank() == 1 and made.trace() == (fmpq(-1, 8), fmpq(0))


@claim(
    "E6",
    "trap with diagonal gates",
    statement=(
        "Products of factors with beta in [0,1] and diagonal gates in (0,1] have non-negative real "
        "eigenvalues, for any number of loops."
    ),
    scope="keys with entries in -1..1, gates of 1/2 and 1, d <= 2, beta |k|^2 = 1, both orders",
    source="as above, for KDA",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "one loop": {"one loop is enough": {"loops": 1}},
        "scalar gates, for two loops": {"scalar gates": {"scalar": True}},
    },
    mutants={"beta = 1/4": {"beta_norm": (1, 4)}},
    correction="true for T = 1, and for scalar gates at T <= 2; false from T = 2 on",
)
def trap_gated(
    *,
    fast: bool,
    loops: int = 2,
    scalar: bool = False,
    beta_norm: int | tuple[int, int] = 1,
) -> Finding:
    """Search in both orders; the pair named in docs/theory.md must be among what is found."""
    strength = fmpq(*beta_norm) if isinstance(beta_norm, tuple) else fmpq(beta_norm)
    first = None
    for order in ("decay_first", "erase_first"):
        found = list(_gated_search(loops, scalar, strength, order))
        named = [
            eigenvalue
            for keys, decays, _, eigenvalue in found
            if _listed(keys) == "(1, -1), (1, 1)" and decays == ((2, 1), (1, 2))
        ]
        if named != ["-1/16"] or any(len(keys) < 2 for keys, *_ in found):
            return Finding(False)
        first = first or next(f for f in found if _listed(f[0]) == "(1, -1), (1, 1)")
    assert first is not None, "set in the first round"
    _, _, made, eigenvalue = first
    said = (
        "T = 2, keys (1, -1), (1, 1) over sqrt 2, beta = 1, D_1 = diag(1, 1/2), D_2 = "
        f"diag(1/2, 1), decay first: A_eff = {written(made)}, eigenvalue {eigenvalue}; the same in "
        "the other order"
    )
    return Finding(True, counterexample=said)


Gated = tuple[Sequence[fmpq_mat], tuple[tuple[int, ...], ...], fmpq_mat, str]


def _gated_search(loops: int, scalar: bool, strength: fmpq, order: str) -> Iterator[Gated]:
    """Decays are given by their denominators."""
    for count, size in itertools.product(range(1, loops + 1), (1, 2)):
        gates = [g for g in itertools.product((1, 2), repeat=size) if not scalar or len(set(g)) < 2]
        erasures = [(key, reflect(key, strength)) for key in _directions(size, 1)]
        choices = list(itertools.product(erasures, gates))
        for choice in itertools.product(choices, repeat=count):
            steps = [identity(size)]
            for (_, erase), decay in choice:
                gate = diagonal([fmpq(1, x) for x in decay])
                steps.append(erase * gate if order == "decay_first" else gate * erase)
            made = product(steps)
            bad = not_positive(made)
            if bad is not None:
                keys = [key for (key, _), _ in choice]
                yield keys, tuple(decay for _, decay in choice), made, bad


CLAIMS: tuple[Claim, ...] = (trap_ungated, trap_gated)
