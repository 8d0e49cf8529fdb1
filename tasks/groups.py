"""Finite groups by name, as Cayley tables: S_n, A_n, Z_n (or C_n), D_n and direct products.

Sympy enumerates the permutations; everything after that is table look-up. Element 0 is the
identity, and the order of the elements is the lexicographic order of their images, so that it
depends on nothing but the name. A direct product "A4xZ5" orders its pairs lexicographically.
"""

import dataclasses
import math
import re
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64

from tasks.validation import refusal

LARGEST_ORDER = 5040
_FACTOR = re.compile(r"([SAZCD])([1-9][0-9]{0,3})")
_DEGREES = {"S": (2, 7), "A": (3, 7), "Z": (2, 512), "D": (3, 512)}
_ALLOWED = (
    "S2..S7, A3..A7, Z2..Z512 (or C), D3..D512 or products such as 'A4xZ5', "
    f"of order <= {LARGEST_ORDER}"
)


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """A finite group with a fixed order of its elements.

    Attributes:
        name: Canonical name.
        cayley: Entry (i, j) is the element "first i, then j" `[order order]`.
        names: Cycle notation of every element, points counted from 1, "()" the identity; the parts
            of a direct product are joined by "x".
        solvable: Whether the derived series ends in the identity.
        derived_order: Order of the commutator subgroup.
        transpositions: The elements that swap two points; empty unless the group is an S_n.
        generators: Few elements that generate the group: (1 2) and (1 2 .. n) for S_n; (1 2 3) and
            the longest cycle of even sign for A_n, (1 2 .. n) or (2 .. n); one step for Z_n, and of
            more than 16 elements a stride of about their root, so that short words reach them all;
            one step and a reflection for D_n; those of its parts for a direct product.
    """

    name: str
    cayley: Int32[np.ndarray, "order order"]
    names: tuple[str, ...]
    solvable: bool
    derived_order: int
    transpositions: Int64[np.ndarray, "swaps"]
    generators: Int64[np.ndarray, "steps"]

    @property
    def order(self) -> int:
        """Number of elements."""
        return len(self.names)


def canonical_name(name: str) -> str:
    """The canonical spelling of a group's name, after checking it.

    Args:
        name: Such as "S5", "C60" or "A4xZ5".

    Returns:
        The name with Z for cyclic groups.

    Raises:
        ValueError: The name cannot be read or the group is too large.

    Example:
        >>> canonical_name("A4xC5")
        'A4xZ5'
    """
    factors = [_parse(part, name) for part in name.split("x")]
    if math.prod(_order(*factor) for factor in factors) > LARGEST_ORDER:
        raise ValueError(refusal("group", name, _ALLOWED))
    return "x".join(f"{family}{degree}" for family, degree in factors)


def group_order(name: str) -> int:
    """Number of elements, without listing them.

    Args:
        name: Such as "S5" or "A4xZ5".

    Returns:
        The order of the group.
    """
    return math.prod(_order(*_parse(part, name)) for part in canonical_name(name).split("x"))


def group(name: str) -> Group:
    """The group of a given name.

    Args:
        name: Such as "S5" or "A4xZ5".

    Returns:
        The group; it is built once a process.

    Example:
        >>> s3 = group("S3")
        >>> s3.names
        ('()', '(2 3)', '(1 2)', '(1 2 3)', '(1 3 2)', '(1 3)')
        >>> s3.names[s3.cayley[2, 1]], s3.solvable  # first (1 2), then (2 3)
        ('(1 3 2)', True)
    """
    return _build(canonical_name(name))


@lru_cache(maxsize=16)
def _build(name: str) -> Group:
    first, *others = name.split("x")
    built = _simple_factor(*_parse(first, name))
    for part in others:
        built = _direct_product(built, _simple_factor(*_parse(part, name)))
    for table in (built.cayley, built.transpositions, built.generators):
        table.setflags(write=False)
    return built


def _parse(part: str, name: str) -> tuple[str, int]:
    match = _FACTOR.fullmatch(part)
    if match:
        family, degree = match[1].replace("C", "Z"), int(match[2])
        least, most = _DEGREES[family]
        if least <= degree <= most:
            return family, degree
    raise ValueError(refusal("group", name, _ALLOWED))


def _order(family: str, degree: int) -> int:
    orders = {"Z": degree, "D": 2 * degree}
    return orders.get(family) or math.factorial(degree) // (2 if family == "A" else 1)


def _simple_factor(family: str, degree: int) -> Group:
    """One named family, enumerated by sympy."""
    # Sympy takes most of a second to import, and most tasks do without it.
    from sympy.combinatorics import named_groups

    makers = {
        "S": named_groups.SymmetricGroup,
        "A": named_groups.AlternatingGroup,
        "Z": named_groups.CyclicGroup,
        "D": named_groups.DihedralGroup,
    }
    source = makers[family](degree)
    images = np.array(sorted(source.generate(af=True)), dtype=np.int64)
    swaps = np.flatnonzero((images != np.arange(degree)).sum(axis=1) == 2)
    names = tuple(_cycles(row.tolist()) for row in images)
    return Group(
        name=f"{family}{degree}",
        cayley=_cayley_table(images, _base(source, degree)),
        names=names,
        solvable=bool(source.is_solvable),
        derived_order=int(source.derived_subgroup().order()),
        transpositions=swaps if family == "S" else np.empty(0, dtype=np.int64),
        generators=np.array([names.index(name) for name in _generating(family, degree)]),
    )


def _generating(family: str, degree: int) -> list[str]:
    """Standard generators in cycle notation, shortest cycle first, each once."""
    step = _cycles([*range(1, degree), 0])
    if family == "S":
        steps = ["(1 2)", step]
    elif family == "A":
        steps = ["(1 2 3)", step if degree % 2 else _cycles([0, *range(2, degree), 1])]
    elif family == "D":
        steps = [_cycles(list(range(degree))[::-1]), step]
    else:
        stride = math.isqrt(degree - 1) + 1 if degree > 16 else 1
        steps = [step, _cycles([(point + stride) % degree for point in range(degree)])]
    return list(dict.fromkeys(steps))


def _base(source: Any, degree: int) -> list[int]:
    """Points whose images tell every element from every other."""
    return [int(point) for point in source.base] or list(range(degree))


def _cayley_table(
    images: Int64[np.ndarray, "order degree"], base: list[int]
) -> Int32[np.ndarray, "order order"]:
    order, degree = images.shape
    weights = degree ** np.arange(len(base), dtype=np.int64)
    index = np.full(degree ** len(base), -1, dtype=np.int32)
    index[images[:, base] @ weights] = np.arange(order)
    table = np.empty((order, order), dtype=np.int32)
    for i in range(order):
        # "First i, then j" sends a point b to images[j][images[i][b]].
        table[i] = index[images[:, images[i, base]] @ weights]
    assert (table >= 0).all()
    return table


def _cycles(images: list[int]) -> str:
    """Cycle notation, fixed points left out."""
    seen: set[int] = set()
    text = ""
    for start in range(len(images)):
        if start in seen or images[start] == start:
            continue
        cycle, point = [], start
        while point not in seen:
            seen.add(point)
            cycle.append(str(point + 1))
            point = images[point]
        text += "(" + " ".join(cycle) + ")"
    return text or "()"


def _direct_product(left: Group, right: Group) -> Group:
    table = left.cayley[:, None, :, None] * np.int32(right.order) + right.cayley[None, :, None, :]
    order = left.order * right.order
    return Group(
        name=f"{left.name}x{right.name}",
        cayley=table.reshape(order, order),
        names=tuple(f"{a}x{b}" for a in left.names for b in right.names),
        solvable=left.solvable and right.solvable,
        derived_order=left.derived_order * right.derived_order,
        transpositions=np.empty(0, dtype=np.int64),
        # A pair (i, j) is element i |right| + j, and 0 is the identity of either part.
        generators=np.concatenate([left.generators * right.order, right.generators]),
    )


def commutative_classes(group: Group) -> Int64[np.ndarray, "order"]:
    """Which elements every homomorphism to a commutative group takes for one.

    At a length far above the group's diameter that is all that the letters without their order
    tell of a product; they tell more of a short one.

    Args:
        group: A group.

    Returns:
        For every element, the number of its coset of the commutator subgroup.
    """
    table = group.cayley
    inverse = np.argmin(table, axis=1)  # the column of the identity
    held = np.zeros(group.order, dtype=bool)
    held[table[table[inverse[:, None], inverse], table]] = True
    while len(members := np.flatnonzero(held)) < group.derived_order:
        held[table[np.ix_(members, members)]] = True
    _, classes = np.unique(table[:, members].min(axis=1), return_inverse=True)
    return classes.astype(np.int64)
