"""Counting every instance of state-based recall, for the best rules that see only part of it."""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction

PAIRS = tuple(itertools.permutations(range(5), 2))
"""Swaps: ordered pairs of different pointers."""


@dataclass(frozen=True)
class Space:
    """What the instances are like; each field is a hypothesis of H1.

    Attributes:
        pairs: The swaps to choose from.
        independent: Whether every swap is drawn for itself, or one swap repeated.
        pointers: Number of pointers.
        distinct: Whether their addresses are all orders of distinct ones, or any of two cells.
        ones: How many times as likely as 0 a bit is 1.
    """

    pairs: tuple[tuple[int, int], ...] = PAIRS
    independent: bool = True
    pointers: int = 5
    distinct: bool = True
    ones: int = 1


def instances(n: int, space: Space) -> Iterator[tuple[list[int], int, bool]]:
    """Every order of n swaps, and every query.

    Args:
        n: Number of swaps.
        space: What the instances are like.

    Yields:
        Where the pointers end, the queried one, and whether a swap named it.
    """
    repeated = ((pair,) * n for pair in space.pairs)
    for swaps in itertools.product(space.pairs, repeat=n) if space.independent else repeated:
        places = list(range(space.pointers))
        for first, second in swaps:
            places[first], places[second] = places[second], places[first]
        for query in range(space.pointers):
            yield places, query, any(query in pair for pair in swaps)


def best_rules(n: int, space: Space) -> dict[str, Fraction]:
    """Accuracy of the best rule by what it sees beside the query.

    Args:
        n: Number of swaps.
        space: What the instances are like.

    Returns:
        `bit`: the initial bit of the queried pointer; `bits`: those of all pointers; `named`:
        those, and whether a swap names the queried pointer.
    """
    ends = Counter((query, places[query], named) for places, query, named in instances(n, space))
    counts: dict[str, Counter[tuple[Hashable, int]]] = {
        name: Counter() for name in ("bit", "bits", "named")
    }
    for (query, place, named), times in ends.items():
        for bits in itertools.product((0, 1), repeat=space.pointers):
            label, weight = bits[place], times * space.ones ** sum(bits)
            counts["bit"][(query, bits[query]), label] += weight
            counts["bits"][(query, bits), label] += weight
            counts["named"][(query, bits, named), label] += weight
    return {name: _accuracy(seen) for name, seen in counts.items()}


def _accuracy(counts: Counter[tuple[Hashable, int]]) -> Fraction:
    """Share of instances that the best answer to each sight gets right."""
    best: Counter[Hashable] = Counter()
    for (sight, _), times in counts.items():
        best[sight] = max(best[sight], times)
    return Fraction(sum(best.values()), sum(counts.values()))


def best_rule_with_addresses(m: int, space: Space) -> Fraction:
    """Accuracy of the best rule at one swap that sees the memory, the addresses and the query.

    Args:
        m: Bits in memory.
        space: What the instances are like.

    Returns:
        The accuracy.
    """
    counts: Counter[tuple[Hashable, int]] = Counter()
    ends = Counter((query, places[query]) for places, query, _ in instances(1, space))
    orders = itertools.permutations(range(m), space.pointers)
    any_two = itertools.product(range(2), repeat=space.pointers)
    drawn = list(orders if space.distinct else any_two)
    for memory in itertools.product((0, 1), repeat=m):
        for addresses in drawn:
            for (query, place), times in ends.items():
                weight = times * space.ones ** sum(memory)
                counts[(memory, addresses, query), memory[addresses[place]]] += weight
    return _accuracy(counts)
