"""L6: rescan solves S_3 and every D_n exactly with two loops of one reflection a token."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sympy import Matrix, Symbol, cos, expand, eye, simplify, sin, symbols, zeros
from torch import Tensor

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from tasks import create
from tasks.groups import group

_SOURCE = "derivation; corrects the reading that rescan cannot track a non-abelian group"
_BEGIN = -1
"""The token before the word, which writes both states."""


@claim(
    "L6",
    "one reflection a token in each loop is enough for D_n",
    statement=(
        "Let loop 1 keep a parity c that some tokens flip, and let F be fixed. Then "
        "F^{c_t} g_t F^{c_{t-1}} is one reflection, and loop 2, which applies it, holds "
        "F^{c_t} g_t ... g_1: the product, for every word, length and n (and S_3 = D_3)."
    ),
    scope="all",
    source=_SOURCE,
    evidence="symbolic",
    hypotheses={
        "the parity flips exactly at the rotations": {
            "no parity": {"flips_at": "nothing"},
            "flipped at the reflections": {"flips_at": "reflections"},
        },
        "F is a reflection": {"F is a quarter turn": {"reflection": False}},
    },
    where="e is a rotation",
    mutants={"the parities swapped": {"swapped": True}},
)
def dihedral(
    *,
    fast: bool,
    flips_at: Literal["rotations", "nothing", "reflections"] = "rotations",
    reflection: bool = True,
    swapped: bool = False,
) -> Finding:
    """Rotations and reflections by any angle, both parities, and the induction over the word."""
    t = Symbol("t", real=True)
    mirror = Matrix([[1, 0], [0, -1]])
    F = mirror if reflection else Matrix([[0, -1], [1, 0]])
    rotation = Matrix([[cos(t), -sin(t)], [sin(t), cos(t)]])
    P = Matrix(2, 2, symbols("p:4"))
    for c, kind in itertools.product((0, 1), ("rotations", "reflections")):
        g = rotation if kind == "rotations" else rotation * mirror
        after = c ^ int(kind == flips_at)
        left, right = (c, after) if swapped else (after, c)
        factor = F**left * g * F**right
        half = (-t if after else t) / 2
        key = Matrix([-sin(half), cos(half)])
        reflects = simplify(factor - (eye(2) - 2 * key * key.T)) == zeros(2)
        tracks = (factor * F**c * P - F**after * g * P).applyfunc(expand) == zeros(2)
        if not (reflects and tracks):
            return Finding(False, counterexample=f"{kind} after parity {c}")
    return Finding(True)


@dataclass(frozen=True)
class _Solution:
    """A token-wise function of (token, what loop 1 said), the same in both loops.

    Rows stand for tokens (the last for the beginning), columns for parities: 0 is "not known yet",
    that is loop 1, and then 1 and -1.
    """

    key: Tensor
    beta: Tensor
    value: Tensor
    query: Tensor
    answer: dict[tuple[int, int], int]


@claim(
    "L6",
    "rescan solves S_3 and D_4, exactly",
    statement=(
        "With N = H = d_v = 1, both states zero at the start, each token applying one reflection "
        "in each loop, and one shared token-wise function of (token, loop 1's output) for keys, "
        "betas, values and queries, rescan gives every prefix product."
    ),
    scope=(
        "S_3 (d_k = 3) and D_4 (d_k = 2) through linear_recurrence in integers, which float64 "
        "holds exactly: all words of length 4, and test words of the task at length 128 (S_3)"
    ),
    source=_SOURCE,
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "T = 2": {"one loop": {"loops": 1}},
        "a first token that writes": {"no first token": {"begins": False}},
        "beta |k|^2 = 2 reached exactly": {"beta short of two": {"strength": 1.75}},
        "the parity flips exactly at the even elements": {
            "flipped at the odd elements": {"flips_at": -1}
        },
    },
    mutants={"the parities swapped": {"swapped": True}},
)
def integer_solutions(
    *,
    fast: bool,
    loops: int = 2,
    begins: bool = True,
    flips_at: int = 1,
    strength: float = 2.0,
    swapped: bool = False,
) -> Finding:
    """Run the op twice, each time from the empty state, and decode token by token."""
    for name in ("S3", "D4"):
        elements = _elements(name)
        solution = _solve(elements, flips_at, strength, swapped)
        order = len(elements)
        words = np.array(list(itertools.product(range(order), repeat=3 if fast else 4)))
        cases = [(words, _products(name, words))]
        if name == "S3":
            batch = create("group_word", group="S3").batch(
                stage=128, split="test", seed=0, index=0, size=8 if fast else 32
            )
            cases.append((batch.inputs, batch.targets))
        for inputs, targets in cases:
            answers = _run(solution, inputs, loops, begins)
            if not np.array_equal(answers, targets):
                row, place = np.argwhere(answers != targets)[0]
                said = f"{name}: word {inputs[row, : place + 1].tolist()[-6:]} at {place + 1}"
                return Finding(False, counterexample=said)
    return Finding(
        True, scope="all words of length 3, 8 test words at length 128" if fast else None
    )


def _elements(name: str) -> list[NDArray[np.int64]]:
    """Integer matrices in the order of the task's group: permutations of 3, or of a square."""
    if name == "S3":
        points = [np.eye(3, dtype=np.int64)[i] for i in range(3)]
    else:
        points = [np.array(p) for p in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    matrices = []
    for text in group(name).names:
        images = list(range(len(points)))
        for cycle in text.strip("()").split(")("):
            moved = [int(point) - 1 for point in cycle.split()]
            for here, there in zip(moved, moved[1:] + moved[:1], strict=True):
                images[here] = there
        before = np.array(points[: len(points[0])]).T
        after = np.array([points[images[i]] for i in range(len(points[0]))]).T
        matrices.append(np.rint(after @ np.linalg.inv(before)).astype(np.int64))
    return matrices


def _solve(
    elements: Sequence[NDArray[np.int64]], flips_at: int, strength: float, swapped: bool
) -> _Solution:
    """Tabulate the token-wise function."""
    width, order = len(elements[0]), len(elements)
    signs = [round(float(np.linalg.det(g))) for g in elements]
    F = elements[signs.index(-1)]
    start = np.arange(1, width + 1)
    weights = 16 ** np.arange(width)
    key, query = torch.zeros(2, order + 1, 3, width, dtype=torch.float64)
    beta, value = torch.ones(order + 1, 3), torch.zeros(order + 1, 3)
    key[_BEGIN], value[_BEGIN], query[:] = torch.tensor(start), 1.0, torch.tensor(weights)
    key[_BEGIN, 0] = query[:, 0] = torch.eye(width)[0]
    answer: dict[tuple[int, int], int] = {}
    for token, g in enumerate(elements):
        flips = signs[token] == flips_at
        key[token, 0, 0 if flips else 1] = 1.0  # a reflection that loop 1 sees, or does not see
        beta[token, 0] = strength
        for c in (1, -1):
            before = -c if flips else c
            left, right = (before, c) if swapped else (c, before)
            factor = _power(F, left) @ g @ _power(F, right)
            key[token, c] = torch.tensor(_mirror(factor))
            beta[token, c] = strength / float(key[token, c].square().sum())
            answer[int(weights @ _power(F, c) @ g @ start), c] = token
    return _Solution(key, beta.double(), value.double(), query, answer)


def _power(F: NDArray[np.int64], parity: int) -> NDArray[np.int64]:
    return F if parity == -1 else np.eye(len(F), dtype=np.int64)


def _mirror(factor: NDArray[np.int64]) -> NDArray[np.int64]:
    """The integer key of a reflection; of anything else some column that it moves."""
    moved = np.eye(len(factor), dtype=np.int64) - factor
    columns = [column for column in moved.T if column.any()]
    if not columns:
        return np.ones(len(factor), dtype=np.int64)
    return np.asarray(columns[0] // np.gcd.reduce(columns[0]))


def _run(
    solution: _Solution, words: NDArray[np.int64], loops: int, begins: bool
) -> NDArray[np.int64]:
    """The answers of a model that rescans: each loop has the token and the loop before it."""
    tokens = torch.as_tensor(words)
    if begins:
        tokens = torch.nn.functional.pad(tokens, (1, 0), value=_BEGIN)
    said = torch.zeros_like(tokens)
    o = torch.zeros(tokens.shape)
    for loop in range(loops):
        q, k, v, beta = (
            x[tokens, said][:, :, None]
            for x in (solution.query, solution.key, solution.value[..., None], solution.beta)
        )
        o = linear_recurrence(q, k, v, beta=beta, scale=1.0, backend="reference")[:, :, 0, 0]
        if loop == 0:
            said = torch.where(o.abs() == 1, o, 0).long()
    pairs = zip(o.flatten().tolist(), said.flatten().tolist(), strict=True)
    answers = torch.tensor([solution.answer.get((int(code), c), -1) for code, c in pairs])
    return np.asarray(answers.reshape(tokens.shape).numpy()[:, int(begins) :])


def _products(name: str, words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Prefix products by the group's table, the earlier token acting first."""
    cayley = group(name).cayley
    state = np.zeros(len(words), dtype=np.int64)
    columns = []
    for letter in words.T:
        state = cayley[state, letter].astype(np.int64)
        columns.append(state)
    return np.stack(columns, 1)


CLAIMS: tuple[Claim, ...] = (dihedral, integer_solutions)
