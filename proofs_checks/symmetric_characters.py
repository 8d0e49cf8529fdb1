"""Irreducible characters of S_n, and the fewest factors that they tell (theory E10)."""

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal

from proofs_checks.express_permutations import class_size, partitions

Parts = tuple[int, ...]
Tokens = Literal["all", "transpositions"]
"""Which elements of S_n occur as tokens."""
Few = Literal["generators", "transpositions"]
"""The same, of few: `generators` are a swap and the cycle of all points."""


@cache
def character(shape: Parts, cycles: Parts) -> int:
    """An irreducible character of S_n, by the Murnaghan-Nakayama rule.

    A rim hook of length r is a bead of the partition's beta numbers moved down by r; it counts
    minus one for every bead that it jumps over.

    Args:
        shape: Partition that names the representation.
        cycles: Partition that names the class.

    Returns:
        The value.
    """
    if not cycles:
        return 1
    hook, rest = cycles[0], cycles[1:]
    beads = [part + place for place, part in enumerate(reversed(shape))]
    total = 0
    for bead in beads:
        if bead >= hook and bead - hook not in beads:
            jumped = sum(bead - hook < other < bead for other in beads)
            after = sorted(bead - hook if other == bead else other for other in beads)
            smaller = tuple(number - place for place, number in enumerate(after))[::-1]
            total += (-1) ** jumped * character(tuple(p for p in smaller if p), rest)
    return total


def power_type(cycles: Parts, power: int) -> Parts:
    """The cycle type of a power.

    Args:
        cycles: Cycle type of g.
        power: k.

    Returns:
        Cycle type of g^k.
    """
    pieces = [[c // math.gcd(c, power)] * math.gcd(c, power) for c in cycles]
    return tuple(sorted(itertools.chain.from_iterable(pieces), reverse=True))


def moved_by(shape: Parts, cycles: Parts) -> int:
    """rank(I - rho(g)) from characters: the dimension less the mean over the powers of g.

    Args:
        shape: Partition that names rho.
        cycles: Cycle type of g.

    Returns:
        The rank.
    """
    order = math.lcm(*cycles)
    total = sum(character(shape, power_type(cycles, power)) for power in range(order))
    assert total % order == 0, "the dimension of the fixed vectors is an integer"
    return character(shape, (1,) * sum(cycles)) - total // order


def token_types(size: int, tokens: Tokens | Few) -> list[Parts]:
    """Cycle types of the tokens but the identity.

    Args:
        size: n of S_n.
        tokens: Which elements are tokens.

    Returns:
        The types.
    """
    swap = (2, *(1,) * (size - 2))
    heard = {"transpositions": {swap}, "generators": {swap, (size,)}}.get(tokens)
    return [c for c in partitions(size) if c[0] > 1 and (heard is None or c in heard)]


def fewest_factors(
    size: int, shapes: Iterable[Parts], *, faithful: bool = True, tokens: Tokens | Few = "all"
) -> int:
    """The least T over the representations that are made of some irreducible ones.

    Ranks add over constituents, so that only minimal sets matter: one faithful constituent, or
    several that are faithful only together.

    Args:
        size: n of S_n.
        shapes: Irreducible representations to choose from.
        faithful: Whether to ask for a trivial kernel.
        tokens: Which elements are tokens; the kernel is looked for in the whole group.

    Returns:
        T; n if nothing is faithful.
    """
    classes, heard = token_types(size, "all"), token_types(size, tokens)
    shapes = list(shapes)
    kernels = {s: {c for c in classes if moved_by(s, c) == 0} for s in shapes}
    ranks = {s: [moved_by(s, c) for c in heard] for s in shapes}
    alone = [s for s in ranks if not kernels[s] or not faithful]
    best = [max(ranks[s]) for s in alone if max(ranks[s]) > 0]
    rest = [s for s in ranks if kernels[s]]
    for count in range(2, len(rest) + 1):
        for chosen in itertools.combinations(rest, count):
            if not set.intersection(*(kernels[s] for s in chosen)):
                best.append(max(map(sum, zip(*(ranks[s] for s in chosen), strict=True))))
    return min(best, default=size)


def orthonormal(shapes: Sequence[Parts]) -> bool:
    """Whether the characters are orthonormal and their squared degrees sum to n!.

    Args:
        shapes: All partitions of n.

    Returns:
        True if they are.
    """
    order = math.factorial(sum(shapes[0]))
    sizes = [class_size(c) for c in shapes]
    table = [[character(s, c) for c in shapes] for s in shapes]
    for i, j in itertools.combinations_with_replacement(range(len(shapes)), 2):
        inner = sum(n * x * y for n, x, y in zip(sizes, table[i], table[j], strict=True))
        if inner != (order if i == j else 0):
            return False
    return sum(row[-1] ** 2 for row in table) == order
