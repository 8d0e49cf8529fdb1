"""The loop-state semantics as one small exact reference, on python-flint.

A place is a layer in a loop; places stand in the order in which one token passes them, so that of
N layers place p is layer `p % N` in loop `p // N`. Factors are frozen: they do not depend on the
values. Values are rows `1 x c` of c channels, and a state is `d_k x c`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from flint import fmpq_mat

from proofs_checks.exact import (
    column,
    diagonal,
    factor,
    identity,
    matrix,
    random_column,
    random_rational,
)

Semantics = Literal["rescan", "accumulate", "token_carry", "sequence_carry"]
SEMANTICS: tuple[Semantics, ...] = ("rescan", "accumulate", "token_carry", "sequence_carry")


@dataclass(frozen=True)
class Step:
    """What one place does to its state at one token: `S <- A S + b v`, then `o = q^T S`.

    Attributes:
        transition: A, `d_k x d_k`.
        write: b, the key times the write strength.
        query: q.
    """

    transition: fmpq_mat
    write: fmpq_mat
    query: fmpq_mat


Frozen = Sequence[Sequence[Step]]
"""Steps of every place at every token."""


@dataclass(frozen=True)
class Passed:
    """What came out.

    Attributes:
        outputs: One row a place and token.
        steps: Factors applied in all.
    """

    outputs: list[list[fmpq_mat]]
    steps: int


def run(
    semantics: Semantics,
    frozen: Frozen,
    values: Sequence[fmpq_mat],
    *,
    given: Sequence[Sequence[fmpq_mat]] | None = None,
    start: fmpq_mat | None = None,
    num_layers: int = 1,
    residual: bool = False,
    token_by_token: bool = False,
) -> Passed:
    """Run frozen factors under one of the semantics.

    Args:
        semantics: Which.
        frozen: Steps of every place at every token.
        values: One row a token for the first place; every later one reads the one before it.
        given: Rows of every place at every token instead, whatever the outputs are.
        start: Every state before the first token; empty by default.
        num_layers: Layers N a loop.
        residual: Whether a place adds its input to its output.
        token_by_token: Take each token through all places before the next one, as streaming does.
            `token_carry` always does; for `rescan` and `accumulate` it must change nothing.

    Returns:
        Outputs of every place at every token.
    """
    num_places, length = len(frozen), len(frozen[0])
    empty = fmpq_mat(frozen[0][0].write.nrows(), values[0].ncols())
    shared = semantics in ("token_carry", "sequence_carry")
    states = dict.fromkeys(range(num_places), empty if start is None else start)
    outputs: list[list[fmpq_mat]] = [[empty] * length for _ in frozen]
    inputs: list[list[fmpq_mat]] = [[empty] * length for _ in frozen]
    steps = 0
    for place, token in _schedule(num_places, length, token_by_token or semantics == "token_carry"):
        if given is not None:
            inputs[place][token] = given[place][token]
        elif place == 0:
            inputs[place][token] = values[token]
        else:
            inputs[place][token] = outputs[place - 1][token]
        slot = place % num_layers if shared else place
        first = place % num_layers if semantics == "accumulate" else place
        state = states[slot]
        for acting in range(first, place + 1, num_layers):
            step = frozen[acting][token]
            state = step.transition * state + step.write * inputs[acting][token]
            steps += 1
        states[slot] = state
        read = frozen[place][token].query.transpose() * state
        outputs[place][token] = read + inputs[place][token] if residual else read
    return Passed(outputs, steps)


def map_of(
    semantics: Semantics,
    frozen: Frozen,
    *,
    num_layers: int = 1,
    residual: bool = False,
    chained: bool = True,
) -> fmpq_mat:
    """The map from one scalar input a token to the last place's outputs.

    Args:
        semantics: Which.
        frozen: Steps of every place at every token.
        num_layers: Layers N a loop.
        residual: Whether a place adds its input to its output.
        chained: Whether a place reads the outputs of the one before, or the inputs like the first.

    Returns:
        A square matrix, outputs by inputs.
    """
    length = len(frozen[0])
    units = [matrix([[int(i == j) for j in range(length)]]) for i in range(length)]
    given = None if chained else [units] * len(frozen)
    passed = run(semantics, frozen, units, given=given, num_layers=num_layers, residual=residual)
    rows = passed.outputs[-1]
    return matrix([[row[0, j] for j in range(length)] for row in rows])


def block(square: fmpq_mat, rows: range, columns: range) -> fmpq_mat:
    """Cut a block out.

    Args:
        square: Any matrix.
        rows: Which rows.
        columns: Which columns.

    Returns:
        The block, `len(rows) x len(columns)`.
    """
    return fmpq_mat(len(rows), len(columns), [square[i, j] for i in rows for j in columns])


def cut_ranks(square: fmpq_mat, unit: int = 1) -> list[int]:
    """Rank of the past-to-future block at every cut.

    Args:
        square: Outputs by inputs.
        unit: Numbers a token.

    Returns:
        At `c = 1 .. L - 1`: the rank of the map from the first c tokens to the others.
    """
    size = square.nrows()
    cuts = range(unit, size, unit)
    return [block(square, range(c, size), range(c)).rank() for c in cuts]


def random_step(rng: random.Random, width: int) -> Step:
    """A random rational step: delta rule with diagonal gate, decay first, key of any length.

    Args:
        rng: Source of randomness.
        width: Key width d_k.

    Returns:
        The step.
    """
    key = random_column(rng, width)
    decay = diagonal([random_rational(rng, 1, 2, 3) / 2 for _ in range(width)])
    transition = factor(key, random_rational(rng, 1, 2, 2) / 3, decay, order="decay_first")
    return Step(transition, key * random_rational(rng, 1, 2, 2), random_column(rng, width))


def random_frozen(rng: random.Random, places: int, length: int, width: int) -> list[list[Step]]:
    """Random steps of every place at every token.

    Args:
        rng: Source of randomness.
        places: N T.
        length: Tokens.
        width: Key width d_k.

    Returns:
        The steps.
    """
    return [[random_step(rng, width) for _ in range(length)] for _ in range(places)]


def scalar_frozen(loops: int, length: int, beta: tuple[int, int] = (1, 2)) -> list[list[Step]]:
    """The hand example: d_k = 1, q = k = 1, the delta rule with one beta everywhere.

    Args:
        loops: T.
        length: Tokens.
        beta: Erase strength.

    Returns:
        The steps.
    """
    one = column([1])
    erase = factor(one, beta, None, order="decay_first")
    step = Step(erase, identity(1) - erase, one)
    return [[step] * length for _ in range(loops)]


def scalars(values: Sequence[int]) -> list[fmpq_mat]:
    """One channel.

    Args:
        values: One number a token.

    Returns:
        Rows of one entry.
    """
    return [matrix([[value]]) for value in values]


def read(rows: Sequence[fmpq_mat]) -> str:
    """Outputs of one channel, for a reader.

    Args:
        rows: Rows of one entry.

    Returns:
        Decimal numbers in parentheses.
    """
    numbers = (float(row[0, 0].p) / float(row[0, 0].q) for row in rows)
    return "(" + ", ".join(f"{number:g}" for number in numbers) + ")"


def _schedule(places: int, length: int, token_by_token: bool) -> list[tuple[int, int]]:
    if token_by_token:
        return [(place, token) for token in range(length) for place in range(places)]
    return [(place, token) for place in range(places) for token in range(length)]
