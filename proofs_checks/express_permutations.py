"""E2: permutations as products of factors, and how many they need."""

import math
from collections.abc import Iterator, Sequence

from flint import fmpq, fmpq_mat
from sympy import Symbol, diff, simplify

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, factor, identity, matrix, product
from proofs_checks.express_reflections import moved


def cycles_of(images: Sequence[int]) -> list[list[int]]:
    """The cycles of a permutation, fixed points among them.

    Args:
        images: Image of every point 0..n-1.

    Returns:
        Each cycle as the points in their order.
    """
    seen: set[int] = set()
    found = []
    for start in range(len(images)):
        cycle, point = list[int](), start
        while point not in seen:
            seen.add(point)
            cycle.append(point)
            point = images[point]
        if cycle:
            found.append(cycle)
    return found


def swaps_of(images: Sequence[int]) -> list[tuple[int, int]]:
    """Transpositions whose product a permutation is, n - cycles of them.

    Args:
        images: Image of every point.

    Returns:
        Pairs of points; the first acts first.
    """
    return [(cycle[0], other) for cycle in cycles_of(images) for other in cycle[1:]]


def permutation_matrix(images: Sequence[int]) -> fmpq_mat:
    """The matrix that sends e_i to e_{images[i]}.

    Args:
        images: Image of every point.

    Returns:
        The matrix.
    """
    size = len(images)
    return matrix([[1 if images[j] == i else 0 for j in range(size)] for i in range(size)])


def partitions(total: int, most: int | None = None) -> Iterator[tuple[int, ...]]:
    """The cycle types of S_n.

    Args:
        total: n.
        most: Largest part allowed.

    Yields:
        Parts in descending order.
    """
    if total == 0:
        yield ()
    for part in range(min(total, total if most is None else most), 0, -1):
        for rest in partitions(total - part, part):
            yield (part, *rest)


def of_type(parts: Sequence[int]) -> list[int]:
    """A permutation of a given cycle type.

    Args:
        parts: Cycle lengths.

    Returns:
        Its images.
    """
    images = list[int]()
    for part in parts:
        start = len(images)
        images += [*range(start + 1, start + part), start]
    return images


@claim(
    "E2",
    "a cycle moves all dimensions but one",
    statement=(
        "A cycle of m points has characteristic polynomial x^m - 1 with the simple root 1: it "
        "fixes one dimension, so sigma in S_n has rank(I - P) = n - cycles(sigma)."
    ),
    scope="all",
    source="derivation; with E1 this is the number of factors",
    evidence="symbolic",
    hypotheses={"a permutation matrix, without signs": {"a cycle with a sign": {"sign": -1}}},
    where="signs whose product in every cycle is 1 change nothing",
)
def one_fixed_dimension(*, fast: bool, sign: int = 1) -> Finding:
    """A cycle is the companion matrix of x^m - 1; orthogonal, so that multiplicity is dimension."""
    x, m = Symbol("x", positive=True), Symbol("m", positive=True, integer=True)
    polynomial = x**m - sign
    root = simplify(polynomial.subs(x, 1)) == 0
    return Finding(bool(root and diff(polynomial, x).subs(x, 1).is_nonzero))


@claim(
    "E2",
    "n - cycles factors, no fewer; n - 1 for the alphabet",
    statement=(
        "As a permutation matrix sigma is a product of n - cycles(sigma) factors (keys e_i - e_j) "
        "and of no fewer, gates or not; the most that an element of S_n needs is n - 1, by the "
        "(n-1)! n-cycles alone."
    ),
    scope="every element of S_n, n <= 9: rank, cycles and product are the same within a cycle type",
    source=(
        "derivation from E1; with gates from R7: whatever D is, D - P has rank n - cycles at least"
    ),
    evidence="exact",
    hypotheses={
        "beta |k|^2 = 2 for the keys e_i - e_j": {"beta |k|^2 = 1": {"beta": (1, 2)}},
        "as a permutation matrix (other representations need less: E8, E10)": {
            "times the sign": {"signed": True}
        },
    },
    mutants={"one factor fewer": {"left_out": 1}, "one factor more needed": {"more": 1}},
)
def permutations_need(
    *,
    fast: bool,
    beta: int | tuple[int, int] = 1,
    signed: bool = False,
    left_out: int = 0,
    more: int = 0,
) -> Finding:
    """The product of the factors, the rank, and the number of cycles, by three routes.

    A cycle of D - P without its first row and its last column is triangular, with -1 on the
    diagonal: so its rank is one less than its length, or full. Two D are tried, one of them zero.
    """
    most = 6 if fast else 9
    for size in range(2, most + 1):
        needs: dict[int, int] = {}
        for parts in partitions(size):
            images = of_type(parts)
            target = permutation_matrix(images)
            if signed:
                target = target * (-1) ** (size - len(parts))
            steps = [_swap(size, pair, beta) for pair in swaps_of(images)][left_out:]
            needed = size - len(parts) + more
            gates = [fmpq(1, 1 + i % 2) for i in range(size)]
            gated = min((diagonal(gates) * s - target).rank() for s in (0, 1))
            if gated < needed:
                return Finding(False, counterexample=f"cycle type {parts}, gates {gates}")
            if product([identity(size), *steps]) != target or moved(target) != needed:
                return Finding(False, counterexample=f"cycle type {parts}")
            needs[needed] = needs.get(needed, 0) + class_size(parts)
        if sum(needs.values()) != math.factorial(size) or max(needs) != size - 1:
            return Finding(False, counterexample=f"S_{size}: {needs}")
        if needs[size - 1] != math.factorial(size - 1):
            return Finding(False, counterexample=f"S_{size}: {needs}")
    return Finding(True, scope=f"every element of S_n, n <= {most}, by cycle types")


def _swap(size: int, pair: tuple[int, int], beta: int | tuple[int, int]) -> fmpq_mat:
    key = column([(i == pair[0]) - (i == pair[1]) for i in range(size)])
    return factor(key, beta, None, order="decay_first")


def class_size(parts: Sequence[int]) -> int:
    """Permutations of one cycle type.

    Args:
        parts: Cycle lengths.

    Returns:
        Their number.
    """
    repeats = math.prod(math.factorial(parts.count(part)) for part in set(parts))
    return math.factorial(sum(parts)) // (math.prod(parts) * repeats)


CLAIMS: tuple[Claim, ...] = (one_fixed_dimension, permutations_need)
