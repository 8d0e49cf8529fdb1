"""E8: S_4 and A_5 as the rotations of the cube and the icosahedron, with two loops."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from flint import fmpq

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.quadratic import Surds, surd_factor, surds, unit_matrix
from tasks.groups import group

Mirror = tuple[tuple[int, int], ...]
"""A key: entries a + b sqrt 5, as pairs."""


@dataclass(frozen=True)
class Rotations:
    """A rotation group beside the task's group, element by element.

    Attributes:
        operators: rho of every element, in the order of the task's Cayley table.
        pairs: Two mirrors for each element, whose reflections multiply to it.
        mirrors: Keys of all the reflections.
        generators: Two elements that generate the group.
    """

    operators: tuple[Surds, ...]
    pairs: tuple[tuple[int, int], ...]
    mirrors: tuple[Mirror, ...]
    generators: tuple[int, int]


def mirrors_of(name: str) -> tuple[Mirror, ...]:
    """The mirrors of the cube (S4) or of the icosahedron (A5).

    Args:
        name: `S4` or `A5`.

    Returns:
        Keys: for the cube (1,0,0), (1,1,0), (1,-1,0) and their like, 9 in all; for the
        icosahedron the axes and 2 (1, +-phi, +-1/phi) with its cyclic shifts, 15.
    """
    if name == "S4":
        vectors = [v for v in itertools.product((-1, 0, 1), repeat=3) if 0 < sum(map(abs, v)) < 3]
        kept = [v for v in vectors if next(x for x in v if x) > 0]
        return tuple(tuple((x, 0) for x in v) for v in kept)
    # 2 phi = 1 + sqrt 5, 2 / phi = -1 + sqrt 5, 2.
    axes: list[Mirror] = [tuple((int(i == j), 0) for j in range(3)) for i in range(3)]
    for turn, s, t in itertools.product(range(3), (1, -1), (1, -1)):
        entries = [(2, 0), (s, s), (-t, t)]
        axes.append(tuple(entries[turn:] + entries[:turn]))
    return tuple(axes)


@cache
def rotations(name: str) -> Rotations:
    """All products of two reflections, matched with the task's group by two generators.

    Args:
        name: `S4` or `A5`.

    Returns:
        The rotations.

    Raises:
        ValueError: If the products of two reflections are not the group.
    """
    mirrors = mirrors_of(name)
    reflections = [surd_factor(_column(mirror)) for mirror in mirrors]
    pairs: dict[Surds, tuple[int, int]] = {}
    for first, second in itertools.product(range(len(mirrors)), repeat=2):
        pairs.setdefault(reflections[second] @ reflections[first], (first, second))
    table = group(name).cayley
    if len(pairs) != len(table):
        raise ValueError(f"name: {len(pairs)} products of two reflections of {name!r}, not a group")
    # (2, 3, m): both groups have a presentation x^2 = y^3 = (xy)^m = 1.
    orders = (2, 3, 4 if name == "S4" else 5)
    x, y = _abstract_generators(table, orders)
    rx, ry = _rotation_generators(list(pairs), orders)
    found = {0: unit_matrix(5, 3)}
    queue = [0]
    for element in queue:
        for token, operator in ((x, rx), (y, ry)):
            after = int(table[element, token])
            if after not in found:
                found[after] = operator @ found[element]
                queue.append(after)
    operators = tuple(found[element] for element in range(len(table)))
    return Rotations(operators, tuple(pairs[o] for o in operators), mirrors, (x, y))


def _column(entries: Mirror) -> Surds:
    return surds(5, [[a] for a, _ in entries], [[b] for _, b in entries])


def _abstract_generators(table: np.ndarray, orders: Sequence[int]) -> tuple[int, int]:
    def order(element: int) -> int:
        power, count = element, 1
        while power != 0:
            power, count = int(table[power, element]), count + 1
        return count

    orders_of = [order(element) for element in range(len(table))]
    return next(
        (x, y)
        for x, y in itertools.product(range(len(table)), repeat=2)
        if (orders_of[x], orders_of[y], orders_of[int(table[x, y])]) == tuple(orders)
    )


def _rotation_generators(operators: Sequence[Surds], orders: Sequence[int]) -> tuple[Surds, Surds]:
    one = unit_matrix(5, 3)

    def order(operator: Surds) -> int:
        power, count = operator, 1
        while power != one:
            power, count = power @ operator, count + 1
        return count

    by_order: dict[int, list[Surds]] = {}
    for operator in operators:
        by_order.setdefault(order(operator), []).append(operator)
    # "First x, then y" is the operator of y times that of x.
    return next(
        (x, y)
        for x, y in itertools.product(by_order[orders[0]], by_order[orders[1]])
        if order(y @ x) == orders[2]
    )


def _check_rotations(name: str, start: Mirror, beta: fmpq, loops: int) -> str | None:
    """What is wrong with the solution of one group's word problem, or None."""
    made, table = rotations(name), group(name).cayley
    one = unit_matrix(5, 3)
    steps = [surd_factor(_column(mirror), beta) for mirror in made.mirrors]
    for element, operator in enumerate(made.operators):
        built = one
        for mirror in made.pairs[element][:loops]:
            built = steps[mirror] @ built
        if built != operator:
            return f"element {element} is not the product of its factors"
        if (one - operator).rank() != (2 if element else 0):
            return f"element {element} has another rank than 2"
    # With every generator after every element, all products agree by induction.
    for element, token in itertools.product(range(len(table)), made.generators):
        after = made.operators[int(table[element, token])]
        if after != made.operators[token] @ made.operators[element]:
            return f"elements {element}, {token} are not multiplied"
    states = {operator @ _column(start) for operator in made.operators}
    if len(states) != len(table):
        return f"{len(states)} states for {len(table)} elements"
    return None


@claim(
    "E8",
    "S_4 with two loops, over Q",
    statement=(
        "As rotations of the cube every element of S_4 is a product of two of the nine reflections "
        "by (1,0,0), (1,1,0), (1,-1,0) and their like: T = 2 on d_k = 3, though permutation "
        "matrices need 3. From x_0 = (1,2,5) the 24 states differ."
    ),
    scope="all elements, by induction words of any length",
    source="derivation",
    evidence="exact",
    hypotheses={
        "at least two loops": {"T = 1": {"loops": 1}},
        "beta |k|^2 = 2": {"beta |k|^2 = 1": {"beta": 1}},
        "a start on no axis of a rotation": {"start on an axis": {"start": (1, 0, 0)}},
    },
)
def cube(
    *, fast: bool, start: tuple[int, int, int] = (1, 2, 5), beta: int = 2, loops: int = 2
) -> Finding:
    """Ranks, factors, products and orbit in exact arithmetic."""
    wrong = _check_rotations("S4", tuple((x, 0) for x in start), fmpq(beta), loops)
    return Finding(wrong is None, counterexample=wrong)


@claim(
    "E8",
    "A_5 with two loops, over Q(sqrt 5)",
    statement=(
        "As rotations of the icosahedron every element of A_5, which is not solvable, is a product "
        "of two of 15 reflections with keys in Q(sqrt 5): T = 2 on d_k = 3, though permutation "
        "matrices need 4. From x_0 = (1,2,5) the 60 states differ."
    ),
    scope="all elements, by induction words of any length",
    source="derivation",
    evidence="exact",
    hypotheses={
        "at least two loops": {"T = 1": {"loops": 1}},
        "beta |k|^2 = 2": {"beta |k|^2 = 1": {"beta": 1}},
        "a start on no axis of a rotation": {
            "start on an axis": {"start": ((1, 0), (0, 0), (0, 0))}
        },
    },
)
def icosahedron(
    *,
    fast: bool,
    start: Mirror = ((1, 0), (2, 0), (5, 0)),
    beta: int = 2,
    loops: int = 2,
) -> Finding:
    """Ranks, factors, products and orbit in exact arithmetic."""
    if group("A5").solvable:
        return Finding(False, counterexample="A_5 is called solvable")
    wrong = _check_rotations("A5", start, fmpq(beta), loops)
    return Finding(wrong is None, counterexample=wrong)


CLAIMS: tuple[Claim, ...] = (cube, icosahedron)
