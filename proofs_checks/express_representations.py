"""E8: the right representation, and when one reflection a token is enough."""

import itertools

from flint import fmpq, fmpq_mat
from sympy import Matrix, Symbol, cos, expand, eye, sin, symbols, trigsimp

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, identity, matrix, product
from proofs_checks.express_characters import fewest_factors
from proofs_checks.express_permutations import of_type, partitions, permutation_matrix
from proofs_checks.express_reflections import moved, reflect, scherk_keys, written
from proofs_checks.express_rotations import rotations
from tasks.groups import group

HAVE_LONG_ELEMENTS = ("S3", "S4", "A4", "A5", *(f"{f}{n}" for f in "ZD" for n in range(3, 13)))


@claim(
    "E8",
    "no fewer factors than the representation's largest rank",
    statement=(
        "If a head's transitions form a representation rho, similar to an orthogonal one, T is at "
        "least max_g rank(I - rho(g)): similarity keeps the rank of I - rho(g), and T factors have "
        "at most rank T (E1)."
    ),
    conditions="rho = M r M^-1; no gates",
    scope="all",
    source="derivation; averaging over the group makes any real representation orthogonal",
    evidence="symbolic",
    mutants={"M is not inverted": {"inverse": False}, "a gate": {"gated": True}},
)
def similarity(*, fast: bool, inverse: bool = True, gated: bool = False) -> Finding:
    """I - M r M^-1 = M (I - r) M^-1, with a scalar gate in front of rho for the mutant."""
    M, N, r = (Symbol(name, commutative=False) for name in ("M", "N", "r"))
    alpha = Symbol("alpha") if gated else 1
    difference = expand((1 - alpha * M * r * N) - M * (1 - r) * N)
    return Finding((expand(difference.subs(M * N, 1)) if inverse else difference) == 0)


@claim(
    "E8",
    "the largest rank suffices",
    statement=(
        "For a faithful orthogonal representation rho, T = max_g rank(I - rho(g)) factors a token "
        "(the rest idle) give every rho(g), and different elements have different transitions."
    ),
    conditions="rho faithful; rho orthogonal; T no less than the largest rank",
    scope=(
        "S_3, S_4, S_5 as permutation matrices (T = 2, 3, 4), S_4 and A_4 as rotations of the cube "
        "(T = 2), Z_2^3 as diagonal signs (T = 3); all elements, exact"
    ),
    source="derivation from E1",
    evidence="exact",
    mutants={
        "the sign of S_3": {"faithful": False},
        "a sheared representation": {"orthogonal": False},
        "one factor fewer": {"fewer": 1},
    },
)
def largest_rank(
    *, fast: bool, faithful: bool = True, orthogonal: bool = True, fewer: int = 0
) -> Finding:
    """Scherk's keys for every element, cut to T, against rho itself."""
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
            keys = scherk_keys(rho)[: loops - fewer]
            if product([identity(size), *(reflect(key) for key in keys)]) != rho:
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
        "Every faithful representation of S_5 has an element with rank(I - rho(g)) >= 4, and the "
        "permutation matrices need no more."
    ),
    conditions="faithful; every element is a token",
    scope="S_5, all seven irreducible representations and their sums",
    source="derivation; exact characters (E10)",
    evidence="exact",
    mutants={
        "without faithfulness": {"faithful": False},
        "transpositions as the only tokens": {"tokens": "transpositions"},
    },
)
def five(*, fast: bool, faithful: bool = True, tokens: str = "all") -> Finding:
    """Characters for the lower bound, ranks of permutation matrices for the upper one."""
    least = fewest_factors(5, partitions(5), faithful=faithful)
    types = [(2, 1, 1, 1)] if tokens == "transpositions" else list(partitions(5))
    direct = max(moved(permutation_matrix(of_type(c))) for c in types)
    return Finding(least == direct == 4)


@claim(
    "E8",
    "S_n and n - 1 loops",
    statement="The word problem of S_n needs T = n - 1 loops.",
    conditions=(
        "true of permutation matrices (E2), and of every representation for n <= 3; over faithful "
        "representations the need is 2 floor((n-1)/2) (E10), from n = 4 on less for even n"
    ),
    scope="n = 2..4 over all faithful representations; the quarter turn of the cube written out",
    source="DeltaProduct (arXiv 2502.10297), its sufficient n - 1 read as a need",
    evidence="exact",
    expected="refuted_as_stated",
    mutants={
        "n <= 3": {"most": 3},
        "permutation matrices only": {"standard_only": True},
        "one loop": {"loops": 1},
    },
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


@claim(
    "E8",
    "one orthogonal factor is an involution",
    statement=(
        "A factor I - beta k k^T is orthogonal only for beta = 0 or beta |k|^2 = 2, and then its "
        "square is I: after the word gg the state is as before, so T = 1 with transitions that "
        "depend on the token only solves a group only if g^2 = e for all g."
    ),
    conditions="orthogonal transitions; T = 1",
    scope="all",
    source="derivation",
    evidence="symbolic",
    mutants={"any beta": {"orthogonal": False}, "T = 2": {"loops": 2}},
)
def involution(*, fast: bool, orthogonal: bool = True, loops: int = 1) -> Finding:
    """Letters; A^T A - I = -beta (2 - beta |k|^2) k k^T, as A is symmetric."""
    k, kt, j, jt = (Symbol(name, commutative=False) for name in ("k", "kt", "j", "jt"))
    b, s = symbols("b s", positive=True)
    one, two = 1 - b * k * kt, 1 - b * j * jt
    gram = expand(expand(one * one - 1).subs(kt * k, s))
    only = expand(gram + b * (2 - b * s) * k * kt) == 0
    factor = expand(one if loops == 1 else two * one)
    squared = expand(factor * factor).subs(kt * k, s).subs(jt * j, s)
    squared = expand(squared.subs(b, 2 / s) if orthogonal else squared)
    return Finding(bool(only and squared == 1))


@claim(
    "E8",
    "one reflection a token tracks Z_2^m",
    statement=(
        "T = 1 suffices where g^2 = e for all g: with 2^m - 1 orthogonal keys, one for each "
        "element but e, every reachable state names the product of its word. These transitions "
        "form no representation, which would need T = 2 for Z_2 x Z_2."
    ),
    conditions="g^2 = e for all g (groups Z_2^m); start (1..1); a reflection of its own a token",
    scope="m = 1..4, every reachable state and every token, by induction all words",
    source="derivation",
    evidence="exact",
    mutants={
        "Z_3": {"name": "Z3"},
        "S_3": {"name": "S3"},
        "start on a mirror": {"on_mirror": True},
        "two tokens share a key": {"shared": True},
    },
)
def one_reflection(
    *, fast: bool, name: str | None = None, on_mirror: bool = False, shared: bool = False
) -> Finding:
    """Walk through all states: each must keep one label, whichever word led to it."""
    names = [name] if name else ["x".join(["Z2"] * m) for m in range(1, 4 if fast else 5)]
    names = ["Z2xZ2"] if shared else names
    for each in names:
        table = group(each).cayley
        start = tuple(0 if on_mirror and i == 0 else 1 for i in range(len(table) - 1))
        labels, queue = {start: 0}, [start]
        for state in queue:
            for token in range(1, len(table)):
                place = 0 if shared and token == 2 else token - 1
                after = (*state[:place], -state[place], *state[place + 1 :])
                label = int(table[labels[state], token])
                if after not in labels:
                    labels[after] = label
                    queue.append(after)
                elif labels[after] != label:
                    return Finding(False, counterexample=f"{each}: state {after} has two labels")
    return Finding(True, scope="m = 1..3, every reachable state" if fast else None)


@claim(
    "E8",
    "T = 2 is least for S_3, S_4, A_4, A_5, Z_n and D_n: some g^2 is not e",
    statement=(
        "Each of these groups has an element g with g^2 != e, so T = 1 is not enough for "
        "orthogonal transitions that depend on the token only."
    ),
    conditions="n >= 3",
    scope="S_3, S_4, A_4, A_5, Z_3..Z_12, D_3..D_12, by the tasks' Cayley tables",
    source="derivation; with the two claims above and the rotation groups",
    evidence="exact",
    mutants={"Z_2": {"more": "Z2"}, "D_2 = Z_2 x Z_2": {"more": "Z2xZ2"}},
)
def long_elements(*, fast: bool, more: str | None = None) -> Finding:
    """Look at the diagonal of each table."""
    for name in (*HAVE_LONG_ELEMENTS, *([more] if more else [])):
        table = group(name).cayley
        if not table.diagonal().any():
            return Finding(False, counterexample=f"{name}: every g^2 is e")
    return Finding(True)


@claim(
    "E8",
    "Z_n and D_n with two loops",
    statement=(
        "The rotation by theta is the product of the reflections by (1, 0) and by (cos theta/2, "
        "sin theta/2), so Z_n and D_n need no more than T = 2 in the plane, D_n's reflections one."
    ),
    conditions="beta = 2; the second key theta/2 from the first",
    scope="all",
    source="derivation",
    evidence="symbolic",
    mutants={"keys theta apart": {"part": 1}, "beta = 1": {"beta": 1}},
)
def plane(*, fast: bool, part: int = 2, beta: int = 2) -> Finding:
    """All angles at once; a start off every mirror has a full orbit."""
    theta = Symbol("theta", real=True)
    first, second = Matrix([1, 0]), Matrix([cos(theta / part), sin(theta / part)])
    made = (eye(2) - beta * second * second.T) * (eye(2) - beta * first * first.T)
    turn = Matrix([[cos(theta), -sin(theta)], [sin(theta), cos(theta)]])
    return Finding(bool((made - turn).applyfunc(trigsimp).is_zero_matrix))


CLAIMS: tuple[Claim, ...] = (
    similarity,
    largest_rank,
    five,
    fewer_than_permutations,
    involution,
    one_reflection,
    long_elements,
    plane,
)
