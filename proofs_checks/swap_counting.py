"""Counting every instance of state-based recall, for the best rules that see only part of it."""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator
from fractions import Fraction

PAIRS = tuple(itertools.permutations(range(5), 2))
"""Swaps: ordered pairs of different pointers."""


def instances(n: int, pairs: tuple[tuple[int, int], ...]) -> Iterator[tuple[list[int], int, bool]]:
    """Every order of n swaps, and every query.

    Args:
        n: Number of swaps.
        pairs: The swaps to choose from.

    Yields:
        Where the pointers end, the queried one, and whether a swap named it.
    """
    for swaps in itertools.product(pairs, repeat=n):
        places = list(range(5))
        for first, second in swaps:
            places[first], places[second] = places[second], places[first]
        for query in range(5):
            yield places, query, any(query in pair for pair in swaps)


def best_rules(n: int, pairs: tuple[tuple[int, int], ...]) -> dict[str, Fraction]:
    """Accuracy of the best rule by what it sees beside the query.

    Args:
        n: Number of swaps.
        pairs: The swaps to choose from.

    Returns:
        `bit`: the initial bit of the queried pointer; `bits`: those of all pointers; `named`:
        those, and whether a swap names the queried pointer.
    """
    ends = Counter((query, places[query], named) for places, query, named in instances(n, pairs))
    counts: dict[str, Counter[tuple[Hashable, int]]] = {
        name: Counter() for name in ("bit", "bits", "named")
    }
    for (query, place, named), times in ends.items():
        for bits in itertools.product((0, 1), repeat=5):
            label = bits[place]
            counts["bit"][(query, bits[query]), label] += times
            counts["bits"][(query, bits), label] += times
            counts["named"][(query, bits, named), label] += times
    return {name: _accuracy(seen) for name, seen in counts.items()}


def _accuracy(counts: Counter[tuple[Hashable, int]]) -> Fraction:
    """Share of instances that the best answer to each sight gets right."""
    best: Counter[Hashable] = Counter()
    for (sight, _), times in counts.items():
        best[sight] = max(best[sight], times)
    return Fraction(sum(best.values()), sum(counts.values()))


def best_rule_with_addresses(m: int, *, distinct: bool) -> Fraction:
    """Accuracy of the best rule at one swap that sees the memory, the addresses and the query.

    Args:
        m: Bits in memory.
        distinct: Whether the five addresses are all orders of distinct ones, or any of two cells.

    Returns:
        The accuracy.
    """
    counts: Counter[tuple[Hashable, int]] = Counter()
    ends = Counter((query, places[query]) for places, query, _ in instances(1, PAIRS))
    orders = itertools.permutations(range(m), 5)
    drawn = list(orders if distinct else itertools.product(range(2), repeat=5))
    for memory in itertools.product((0, 1), repeat=m):
        for addresses in drawn:
            for (query, place), times in ends.items():
                counts[(memory, addresses, query), memory[addresses[place]]] += times
    return _accuracy(counts)
