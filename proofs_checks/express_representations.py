"""E8: the right representation."""

import itertools

from flint import fmpq, fmpq_mat
from sympy import Symbol, expand

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, identity, matrix, product
from proofs_checks.express_permutations import of_type, partitions, permutation_matrix
from proofs_checks.express_reflections import moved, reflect, scherk_keys, written
from proofs_checks.express_rotations import rotations
from proofs_checks.symmetric_characters import Tokens, fewest_factors, token_types


@claim(
    "E8",
    "no fewer factors than the representation's largest rank",
    statement=(
        "If a head's transition is rho(g) = M r(g) M^-1 at every token g, with r orthogonal, T is "
        "at least max_g rank(I - r(g)) over the tokens: similarity keeps the rank of I - rho(g), "
        "and T factors have at most rank T (E1)."
    ),
    scope="all",
    source="derivation; averaging over the group makes any real representation orthogonal",
    evidence="symbolic",
    hypotheses={
        "rho(g) similar to r(g)": {"M is not inverted": {"inverse": False}},
        "no gates": {"a gate": {"gated": True}},
    },
    where="any M, keys and beta; every real representation of a finite group has such an r",
)
def similarity(*, fast: bool, inverse: bool = True, gated: bool = False) -> Finding:
    """I - M r M^-1 = M (I - r) M^-1, and E1's step: a factor adds a matrix k (row) to I - rho."""
    M, N, r = (Symbol(name, commutative=False) for name in ("M", "N", "r"))
    difference = expand((1 - M * r * N) - M * (1 - r) * N)
    similar = (expand(difference.subs(M * N, 1)) if inverse else difference) == 0
    rho, k, kt, b = (Symbol(name, commutative=False) for name in ("rho", "k", "kt", "b"))
    factor = (Symbol("alpha") if gated else 1) * (1 - k * b * kt)
    grows_by_one = expand((1 - factor * rho) - ((1 - rho) + k * b * kt * rho)) == 0
    return Finding(bool(similar and grows_by_one))


@claim(
    "E8",
    "the largest rank suffices",
    statement=(
        "T = max_g rank(I - rho(g)) factors a token give every rho(g) of a representation, and "
        "different elements have different transitions."
    ),
    scope=(
        "S_3, S_4, S_5 as permutation matrices (T = 2, 3, 4), S_4 and A_4 as rotations of the cube "
        "(T = 2), Z_2^3 as diagonal signs (T = 3); all elements, exact"
    ),
    source="derivation from E1",
    evidence="exact",
    hypotheses={
        "rho faithful": {"the sign of S_3": {"faithful": False}},
        "rho orthogonal": {"a sheared representation": {"orthogonal": False}},
        "beta |k|^2 = 2 in the loops that an element needs": {"beta |k|^2 = 1": {"beta_norm": 1}},
        "beta = 0 in its other loops": {"idle loops reflect": {"idle_beta_norm": 2}},
    },
    where="Scherk's keys, E1",
    mutants={"one factor fewer": {"fewer": 1}},
)
def largest_rank(
    *,
    fast: bool,
    faithful: bool = True,
    orthogonal: bool = True,
    beta_norm: int = 2,
    idle_beta_norm: int = 0,
    fewer: int = 0,
) -> Finding:
    """Scherk's keys for every element, cut to T and the rest idle, against rho itself."""
    cases = _representations()
    if fast:
        del cases["S_5"]
    if not faithful:
        sign = [matrix([[(-1) ** moved(rho)]]) for rho in cases["S_3"][1]]
        cases = {"S_3 by its sign": (1, sign)}
    for name, (loops, operators) in cases.items():
        size = operators[0].nrows()
        shear = identity(size) + matrix(
            [[int(i == 0 and j == 1) for j in range(size)] for i in range(size)]
        )
        if not orthogonal:
            operators = [shear * rho * shear.inv() for rho in operators]
        for rho in operators:
            factors = [reflect(key, beta_norm) for key in scherk_keys(rho)[: loops - fewer]]
            first_axis = column([int(i == 0) for i in range(size)])
            idle = [reflect(first_axis, idle_beta_norm)] * (loops - fewer - len(factors))
            if product([identity(size), *factors, *idle]) != rho:
                return Finding(False, counterexample=f"{name}: an element is not reached")
        distinct = len({str(rho.entries()) for rho in operators}) == len(operators)
        if not distinct or max(moved(rho) for rho in operators) != loops:
            return Finding(False, counterexample=f"{name}: not faithful, or T is not {loops}")
    return Finding(True, scope="as in the full run, without S_5" if fast else None)


def _representations() -> dict[str, tuple[int, list[fmpq_mat]]]:
    cube = [surd.a for surd in rotations("S4").operators]
    even = [rho for rho in cube if _permutes_diagonals_evenly(rho)]
    signs = [
        matrix([[s[i] if i == j else 0 for j in range(3)] for i in range(3)])
        for s in itertools.product((1, -1), repeat=3)
    ]
    cases = {
        f"S_{n}": (n - 1, [permutation_matrix(g) for g in itertools.permutations(range(n))])
        for n in (3, 4, 5)
    }
    return {**cases, "cube": (2, cube), "tetrahedron": (2, even), "signs": (3, signs)}


def _permutes_diagonals_evenly(rho: fmpq_mat) -> bool:
    """Whether a rotation of the cube keeps the tetrahedron (1,1,1), (1,-1,-1), ... ."""
    image = [sum((rho[i, j] for j in range(3)), fmpq(0)) for i in range(3)]
    return image[0] * image[1] * image[2] == 1


@claim(
    "E8",
    "S_5 needs 4 by representations",
    statement=(
        "Over the representations of S_5 the least T = max_g rank(I - rho(g)), g over the tokens, "
        "is 4, and the permutation matrices need no more."
    ),
    scope="S_5, all seven irreducible representations and their sums",
    source="derivation; exact characters (E10)",
    evidence="exact",
    hypotheses={
        "rho faithful": {"without faithfulness": {"faithful": False}},
        "every element is a token": {
            "transpositions as the only tokens": {"tokens": "transpositions"}
        },
    },
)
def five(*, fast: bool, faithful: bool = True, tokens: Tokens = "all") -> Finding:
    """Characters for the lower bound, ranks of permutation matrices for the upper one."""
    least = fewest_factors(5, partitions(5), faithful=faithful, tokens=tokens)
    direct = max(moved(permutation_matrix(of_type(c))) for c in token_types(5, tokens))
    return Finding(least == direct == 4)


@claim(
    "E8",
    "S_n and n - 1 loops",
    statement="The word problem of S_n needs T = n - 1 loops.",
    correction=(
        "true of permutation matrices (E2), and of every representation for n <= 3; over faithful "
        "representations the need is 2 floor((n-1)/2) (E10), from n = 4 on less for even n"
    ),
    scope="n = 2..4 over all faithful representations; the quarter turn of the cube written out",
    source="DeltaProduct (arXiv 2502.10297), its sufficient n - 1 read as a need",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "n <= 3": {"n <= 3": {"most": 3}},
        "permutation matrices": {"permutation matrices only": {"standard_only": True}},
    },
    mutants={"the quarter turn as one reflection": {"loops": 1}},
)
def fewer_than_permutations(
    *, fast: bool, most: int = 4, standard_only: bool = False, loops: int = 2
) -> Finding:
    """The smallest n with fewer, and one element of order 4 as two reflections of the cube."""
    offered = {
        n: [(n - 1, 1)] if standard_only else list(partitions(n)) for n in range(2, most + 1)
    }
    fewer = [n for n, shapes in offered.items() if fewest_factors(n, shapes) < n - 1]
    quarter = product([reflect(column([1, 0, 0])), reflect(column([1, -1, 0]))][:loops])
    half = quarter * quarter
    turns = half != identity(3) and half * half == identity(3)
    said = (
        "S_4 as rotations of the cube: the 4-cycle needs 3 transpositions, but as the quarter turn "
        f"{written(quarter)} it is the reflection by (1, 0, 0), then that by (1, -1, 0)"
    )
    passed = fewer[:1] == [4] and turns
    return Finding(passed, counterexample=said if passed else None)


CLAIMS: tuple[Claim, ...] = (similarity, largest_rank, five, fewer_than_permutations)
