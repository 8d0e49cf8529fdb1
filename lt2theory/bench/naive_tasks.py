"""Generators that draw one example at a time, in the style of public suites: baselines of speed.

They draw the same kind of data as the tasks of the same names at their default knobs, and share no
code with them; each worker has a generator of NumPy.
"""

import itertools
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Int64

Example = tuple[Int64[np.ndarray, "length"], Int64[np.ndarray, "length"]]
_IGNORE = -100


def mqar(rng: np.random.Generator, length: int, pairs: int, vocab: int) -> Example:
    """Multi-query recall.

    Args:
        rng: Source of randomness.
        length: Sequence length.
        pairs: Key-value pairs.
        vocab: Vocabulary size.

    Returns:
        Inputs and targets.
    """
    keys = rng.choice(np.arange(1, vocab // 2), pairs, replace=False)
    values = rng.choice(np.arange(vocab // 2, vocab), pairs, replace=False)
    room = (length - 2 * pairs) // 2
    weights = np.arange(1, room + 1) ** -0.99
    slots = rng.permutation(rng.choice(room, pairs, replace=False, p=weights / weights.sum()))
    inputs = np.zeros(length, dtype=np.int64)
    targets = np.full(length, _IGNORE, dtype=np.int64)
    inputs[0 : 2 * pairs : 2], inputs[1 : 2 * pairs : 2] = keys, values
    inputs[2 * pairs + 2 * slots] = keys
    targets[2 * pairs + 2 * slots] = values
    return inputs, targets


def word(rng: np.random.Generator, length: int, points: int) -> Example:
    """The word problem of S_n, permutations composed one by one.

    Args:
        rng: Source of randomness.
        length: Sequence length.
        points: n.

    Returns:
        Inputs and targets.
    """
    elements, index = _symmetric_group(points)
    letters = rng.integers(len(elements), size=length)
    state, products = elements[0], []
    for letter in letters:
        token = elements[letter]
        state = tuple(token[point] for point in state)
        products.append(index[state])
    return letters.astype(np.int64), np.array(products, dtype=np.int64)


@lru_cache
def _symmetric_group(points: int) -> tuple[list[tuple[int, ...]], dict[tuple[int, ...], int]]:
    """All permutations and the place of each."""
    elements = list(itertools.permutations(range(points)))
    return elements, {element: i for i, element in enumerate(elements)}


def p_hop(rng: np.random.Generator, hops: int) -> Example:
    """p-hop induction over four letters, 100 tokens.

    Args:
        rng: Source of randomness.
        hops: p.

    Returns:
        Inputs and targets.
    """
    letters = [int(rng.integers(4))]
    while len(letters) < 99:
        letters.append((letters[-1] + 1 + int(rng.integers(3))) % 4)
    last: dict[int, int] = {}
    aims: list[int | None] = []
    for i, letter in enumerate(letters):
        aims.append(last[letter] + 1 if letter in last else None)
        last[letter] = i
    labels = []
    for i in range(len(letters)):
        place: int | None = i
        for _ in range(hops):
            place = None if place is None else aims[place]
        labels.append(0 if place is None else letters[place] + 1)
    return _row([4 + hops, *(letter + 1 for letter in letters)], [_IGNORE, *labels])


def selective_copy(rng: np.random.Generator, length: int) -> Example:
    """Copying 16 of 14 symbols from among blanks.

    Args:
        rng: Source of randomness.
        length: Sequence length.

    Returns:
        Inputs and targets.
    """
    region = length - 17
    symbols = rng.integers(2, 16, size=16)
    inputs = np.zeros(length, dtype=np.int64)
    inputs[np.sort(rng.choice(region, 16, replace=False))] = symbols
    inputs[region] = 1
    targets = np.full(length, _IGNORE, dtype=np.int64)
    targets[region + 1 :] = symbols
    return inputs, targets


def noisy_recall(rng: np.random.Generator, length: int) -> Example:
    """Recall of eight keys and eight values among noise.

    Args:
        rng: Source of randomness.
        length: Sequence length.

    Returns:
        Inputs and targets.
    """
    slots = length // 2 - 1
    memory: dict[int, int] = {}
    inputs: list[int] = []
    targets: list[int] = []
    spared = int(rng.integers(slots))
    for slot in range(slots):
        if slot != spared and rng.random() < 0.2:
            inputs += [17 + int(rng.integers(16)), 17 + int(rng.integers(16))]
            targets += [_IGNORE, _IGNORE]
            continue
        key = 1 + int(rng.integers(8))
        targets += [memory.get(key, _IGNORE), _IGNORE]
        memory.setdefault(key, 9 + int(rng.integers(8)))
        inputs += [key, memory[key]]
    asked = int(rng.choice(sorted(memory)))
    return _row([*inputs, 0, asked], [*targets, _IGNORE, memory[asked]])


def needle(rng: np.random.Generator, length: int) -> Example:
    """One needle, a word and a number, in random filler.

    Args:
        rng: Source of randomness.
        length: Sequence length.

    Returns:
        Inputs and targets.
    """
    key, value = 20 + int(rng.integers(256)), [4 + int(rng.integers(10)) for _ in range(7)]
    filler = [276 + int(token) for token in rng.integers(64, size=length - 19)]
    depth = int(rng.integers(len(filler) + 1))
    hay = [*filler[:depth], 1, key, 2, *value, *filler[depth:]]
    return _row([*hay, 0, key, *[3] * 7], [*[_IGNORE] * (length - 7), *value])


def multi_hop_variables(rng: np.random.Generator, hops: int) -> Example:
    """Four chains of assignments, shuffled into one another.

    Args:
        rng: Source of randomness.
        hops: Hops from the queried variable to the assignment of a value.

    Returns:
        Inputs and targets.
    """
    names = 1 + rng.choice(256, (4, hops + 1), replace=False)
    values = 257 + rng.choice(64, 4, replace=False)
    done, inputs = [0] * 4, []
    for chain in rng.permutation(np.repeat(np.arange(4), hops + 1)):
        step = done[chain]
        source = values[chain] if step == 0 else names[chain, step - 1]
        inputs += [int(names[chain, step]), int(source)]
        done[chain] += 1
    asked = int(rng.integers(4))
    targets = [_IGNORE] * (len(inputs) + 1)
    return _row([*inputs, 0, int(names[asked, -1])], [*targets, int(values[asked])])


def dyck(rng: np.random.Generator, length: int) -> Example:
    """Bracket words of four types and depth eight, drawn again until the depth fits.

    Args:
        rng: Source of randomness.
        length: Sequence length.

    Returns:
        Inputs and targets.
    """
    left = 4 + length % 2
    inputs, targets, stack = list[int](), list[int](), list[int]()
    while len(stack) != 8:
        inputs, targets, stack = [], [], []
        for _ in range(length - (8 - left)):
            if not stack or (len(stack) < 8 and rng.random() < 0.5):
                stack.append(int(rng.integers(4)))
                inputs.append(1 + stack[-1])
            else:
                inputs.append(5 + stack.pop())
            targets.append(5 + stack[-1] if stack else 0)
    for _ in range(8 - left):
        inputs.append(5 + stack.pop())
        targets.append(5 + stack[-1])
    return _row(inputs, targets)


def modular_arithmetic(rng: np.random.Generator, length: int) -> Example:
    """Rows of operands modulo 5, * binding tighter.

    Args:
        rng: Source of randomness.
        length: Sequence length.

    Returns:
        Inputs and targets.
    """
    term = int(rng.integers(5))
    inputs, total = [term], 0
    for _ in range(length // 2 - 1):
        operator, operand = int(rng.integers(3)), int(rng.integers(5))
        inputs += [5 + operator, operand]
        if operator == 2:
            term *= operand
        else:
            total, term = total + term, operand if operator == 0 else -operand
    return _row([*inputs, 8], [*[_IGNORE] * (length - 1), (total + term) % 5])


def _row(inputs: list[int], targets: list[int]) -> Example:
    return np.array(inputs, dtype=np.int64), np.array(targets, dtype=np.int64)


NAIVE: dict[str, Callable[[np.random.Generator, int], object]] = {
    "mqar": lambda rng, stage: mqar(rng, 4 * stage, stage, 8192),
    "group_word": lambda rng, stage: word(rng, stage, 5),
    "p_hop": p_hop,
    "selective_copy": selective_copy,
    "noisy_recall": noisy_recall,
    "needle": needle,
    "multi_hop_variables": multi_hop_variables,
    "dyck": dyck,
    "modular_arithmetic": modular_arithmetic,
}
"""By task: one example of a stage, at the default knobs."""
