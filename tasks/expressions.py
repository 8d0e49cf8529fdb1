"""Arithmetic expressions modulo n: rows of operands and bracketed trees, evaluated and counted.

Operators are 0 for +, 1 for -, 2 for *. Time goes first in arrays, as scans do. A tree is named by
its nodes in preorder, the last leaf left out: True for an operation, False for an operand. As steps
up and down these are the paths from 0 to 0, and the height is the number of operations whose right
part is still to come.
"""

from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float64, Int32, Int64, UInt, UInt8

from tasks import paths


@lru_cache(maxsize=64)
def table(modulus: int) -> UInt8[np.ndarray, "op a b"]:
    """The results of all operations.

    Args:
        modulus: n, at most 256.

    Returns:
        a + b, a - b and a * b, modulo n.
    """
    a, b = np.ogrid[:modulus, :modulus]
    return np.stack([(a + b) % modulus, (a - b) % modulus, a * b % modulus]).astype(np.uint8)


def row_value(
    operands: UInt[np.ndarray, "m b"], operators: UInt[np.ndarray, "n b"], modulus: int
) -> Int32[np.ndarray, "b"]:
    """Values of operands joined by operators, * binding tighter than + and -.

    Args:
        operands: Numbers below the modulus.
        operators: The operator before each operand but the first.
        modulus: n, at most 256.

    Returns:
        Numbers below the modulus.
    """
    term = operands[0].astype(np.int32)
    total = np.zeros_like(term)
    for operand, operator in zip(operands[1:].astype(np.int32), operators, strict=True):
        times = operator == 2
        total += np.where(times, 0, term)
        term = np.where(times, term * operand, np.where(operator == 1, -operand, operand)) % modulus
    return np.asarray((total + term) % modulus)


def tree_places(
    nodes: Bool[np.ndarray, "t b"],
) -> tuple[Int64[np.ndarray, "nodes b"], Int64[np.ndarray, "nodes b"]]:
    """Where nodes and operators stand in the text of a tree, every operation in brackets.

    Args:
        nodes: Preorder without the last leaf.

    Returns:
        The place of every node's own token, an operand or an opening bracket; and for every
        operation the place of its operator (for an operand a place without meaning). All other
        places hold closing brackets.
    """
    steps, size = nodes.shape
    rows = np.arange(size)
    places = np.empty((steps + 1, size), dtype=np.int64)
    signs = np.zeros((steps + 1) * size, dtype=np.int64)
    # Of each operation that waits for its right part: its node, and how deep that part is nested.
    waiting = np.empty((steps // 2 + 1) * size, dtype=np.int64)
    nested = np.empty_like(waiting)
    top = rows - size
    place, depth = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    for t in range(steps):
        up = nodes[t]
        places[t] = place
        top += np.where(up, size, 0)
        waiting[top] = np.where(up, rows + t * size, waiting[top])
        nested[top] = np.where(up, depth + 1, nested[top])
        # After an operand all brackets deeper than the part to come are closed, then an operator.
        after = nested[top]
        sign = place + 1 + depth - after
        signs[waiting[top]] = np.where(up, 0, sign)
        place = np.where(up, place, sign) + 1
        depth = after
        top -= np.where(up, 0, size)
    places[steps] = place
    return places, signs.reshape(steps + 1, size)


def tree_value(
    nodes: Bool[np.ndarray, "t b"],
    operands: UInt[np.ndarray, "m b"],
    operators: UInt[np.ndarray, "n b"],
    modulus: int,
) -> UInt8[np.ndarray, "b"]:
    """Values of trees, from the last node back with a stack of parts.

    Args:
        nodes: Preorder without the last leaf.
        operands: Numbers below the modulus, in order.
        operators: In preorder of the operations.
        modulus: n, at most 256.

    Returns:
        Numbers below the modulus.
    """
    steps, size = nodes.shape
    rows = np.arange(size)
    results = table(modulus).reshape(-1)
    # Parts on the stack, less one, once the nodes from t on have been read.
    ups = np.where(nodes, -size, size)
    at = np.cumsum(ups[::-1], axis=0)[::-1] + rows
    seen = np.cumsum(nodes, axis=0) - nodes
    operand = operands[np.arange(steps)[:, None] - seen, rows].astype(np.int64)
    operator = operators[np.minimum(seen, len(operators) - 1), rows] * np.int64(modulus)
    stack = np.empty((steps // 2 + 2) * size, dtype=np.uint8)
    stack[rows] = operands[-1]
    for t in range(steps - 1, -1, -1):
        right, left = stack[at[t]], np.take(stack, at[t] + size, mode="clip")
        result = results[np.where(nodes[t], (operator[t] + left) * modulus + right, 0)]
        stack[at[t]] = np.where(nodes[t], result, operand[t])
    return stack[rows]


@lru_cache(maxsize=64)
def row_chances(operands: int, modulus: int, kinds: int) -> dict[str, float]:
    """What can be had of uniform rows of operands without evaluating them.

    Args:
        operands: How many operands, at least 2.
        modulus: n.
        kinds: 2 for + and -, 3 for * as well, each as likely.

    Returns:
        Accuracies: `majority`, `last_operand` and, with *, `left_to_right`.
    """
    n, number = modulus, np.arange(modulus)
    sums = (number[:, None] - number) % n
    times, scaled = table(n)[2], _scaled_pairs(n)
    product = kinds - 2
    # Chance of (sum of finished terms, present term, value read from left to right).
    state = np.zeros((n, n, n))
    state[0, number, number] = 1 / n
    for _ in range(operands - 1):
        before = state.sum(axis=2)
        # After + or -, alike since operands are uniform, the term is finished and a new one begins.
        finished = state[sums, number].sum(axis=1)
        added = finished[:, sums.T] / n
        multiplied = (state.reshape(n, -1) @ scaled).reshape(n, n, n)
        state = 2 / kinds * added + product / kinds * multiplied
    values = np.array([state.sum(axis=2)[(v - number) % n, number].sum() for v in range(n)])
    total = np.array([before[(v - number) % n, number].sum() for v in range(n)])
    # The last operand d is the value: its sum is 0 before + d, 2d before - d, d - T d before * d.
    last = total[0] + total[2 * number % n].mean()
    by_product = sum(before[(d - times[:, d].astype(int)) % n, number].sum() for d in number) / n
    chances = {
        "majority": float(values.max()),
        "last_operand": float((last + product * by_product) / kinds),
    }
    if product:
        agree = sum(state[a, b, (a + b) % n] for a in range(n) for b in range(n))
        chances["left_to_right"] = min(1.0, float(agree))
    return chances


def _scaled_pairs(modulus: int) -> Float64[np.ndarray, "pair pair"]:
    """How a uniform factor moves pairs of numbers."""
    number = np.arange(modulus)
    moved = np.zeros((modulus**2, modulus**2))
    pairs = np.arange(modulus**2)
    for factor in number:
        to = (number * factor % modulus)[:, None] * modulus + number * factor % modulus
        moved[pairs, to.reshape(-1)] += 1 / modulus
    return moved


@lru_cache(maxsize=64)
def tree_chances(operations: int, modulus: int, kinds: int) -> dict[str, float]:
    """What can be had of uniform trees without evaluating them.

    Args:
        operations: How many operations, at least 1.
        modulus: n.
        kinds: 2 for + and -, 3 for * as well, each as likely.

    Returns:
        Accuracies: `majority`, `last_operand`, and `right_part`, the value of the outermost
        operation's right part.
    """
    n = modulus
    becomes = np.stack([table(n)[:kinds] == v for v in range(n)]).mean(axis=1)
    shapes = [paths.count(2 * m, 0, m) for m in range(operations + 1)]
    # By number of operations: chance of a value, and of a value together with the last operand.
    values = np.full((operations + 1, n), 1 / n)
    lasts = np.zeros((operations + 1, n, n))
    lasts[0] = np.eye(n) / n
    for m in range(1, operations + 1):
        share = np.array([shapes[i] * shapes[m - 1 - i] / shapes[m] for i in range(m)])
        left = (share[:, None] * values[:m]).T
        parts = left @ values[:m][::-1]
        values[m] = (becomes * parts).sum(axis=(1, 2))
        joint = (left @ lasts[:m][::-1].reshape(m, -1)).reshape(n, n, n)
        lasts[m] = np.tensordot(becomes, joint, axes=([1, 2], [0, 1]))
    right = sum(float((becomes[v, :, v] * parts[:, v]).sum()) for v in range(n))
    return {
        "majority": float(values[-1].max()),
        "last_operand": float(np.trace(lasts[-1])),
        "right_part": right,
    }
