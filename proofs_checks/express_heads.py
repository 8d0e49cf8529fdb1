"""E8: several heads, generators as tokens, and the price of forming a representation."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from flint import fmpq

from lt2theory.ops import run_factors
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.dealt_factors import BACKENDS
from proofs_checks.express_words import token_factors
from tasks.group_word import GroupWord
from tasks.groups import group


def abelian_factors(
    orders: Sequence[int], *, heads: bool, faithful: bool = True, every_token: bool = True
) -> int:
    """The least T for a product of cyclic groups over its faithful real representations.

    Args:
        orders: Orders of the cyclic groups.
        heads: Whether each real irreducible representation may have a head of its own.
        faithful: Whether to ask for joint faithfulness.
        every_token: Whether every element is a token, or one generator of each cyclic group.

    Returns:
        The largest rank(I - rho(g)) of the best choice: over one head, a sum; over heads, a
        maximum.
    """
    elements = list(itertools.product(*(range(n) for n in orders)))

    def turn(name: tuple[int, ...], element: tuple[int, ...]) -> fmpq:
        total = sum(
            (fmpq(a * b, n) for a, b, n in zip(name, element, orders, strict=True)), fmpq(0)
        )
        return total - total.floor()

    irreducible = []
    for name in elements[1:]:
        opposite = tuple(-a % n for a, n in zip(name, orders, strict=True))
        if name <= opposite:  # a character and its conjugate are one real representation
            size = 1 if name == opposite else 2
            irreducible.append([size * (turn(name, g) != 0) for g in elements])
    tokens = [i for i, g in enumerate(elements) if every_token or sum(g) == 1]
    best = len(elements)
    for count in range(1, len(irreducible) + 1):
        for chosen in itertools.combinations(irreducible, count):
            ranks = list(zip(*chosen, strict=True))
            if faithful and not all(any(row) for row in ranks[1:]):
                continue
            heard = [ranks[i] for i in tokens]
            best = min(best, max(max(row) if heads else sum(row) for row in heard))
    return best


@claim(
    "E8",
    "several heads: the maximum, not the sum",
    statement=(
        "Over representations T is, with several heads, the maximum over heads, and only joint "
        "faithfulness is needed: Z_3 x Z_3 needs 2 instead of 4, Z_2^m needs 1 instead of m."
    ),
    scope=(
        "Z_3 x Z_3, Z_2^m for m <= 3, Z_4 x Z_3, over all sets of real irreducible representations"
    ),
    source="derivation",
    evidence="exact",
    hypotheses={
        "jointly faithful": {"without faithfulness": {"faithful": False}},
        "every element is a token": {"generators as the only tokens": {"every_token": False}},
    },
    mutants={"heads add up, as where each must be faithful": {"heads": False}},
)
def several_heads(
    *, fast: bool, heads: bool = True, faithful: bool = True, every_token: bool = True
) -> Finding:
    """With heads and with one head; the cyclic group Z_4 x Z_3 = Z_12 gains nothing."""
    expected = {(3, 3): (2, 4), (2,): (1, 1), (2, 2): (1, 2), (2, 2, 2): (1, 3), (4, 3): (2, 2)}
    for orders, wanted in expected.items():
        several, alone = (
            abelian_factors(orders, heads=each, faithful=faithful, every_token=every_token)
            for each in (heads, False)
        )
        if (several, alone) != wanted:
            return Finding(False, counterexample=f"{orders}: {several} and {alone}, not {wanted}")
    return Finding(True)


@claim(
    "E8",
    "heads gain nothing for S_n and A_n",
    statement=(
        "The group has a single minimal normal subgroup, so jointly faithful heads contain a "
        "faithful one, and the maximum over heads is no less than that head alone."
    ),
    scope="S_2..S_6, A_3..A_6, every normal closure by the Cayley table",
    source="derivation",
    evidence="exact",
    hypotheses={
        "the group is S_n or A_n": {
            "Z_3 x Z_3": {"more": ("Z3xZ3",)},
            "Z_6": {"more": ("Z6",)},
        },
    },
    where="n >= 2, n >= 3 for A_n: below, the group is {e}",
)
def no_gain(*, fast: bool, more: Sequence[str] = ()) -> Finding:
    """Kernels that meet in the identity: one of them must miss the minimal subgroup."""
    most = 5 if fast else 6
    names = [f"{family}{n}" for family in "SA" for n in range(3, most + 1)]
    for name in ("S2", *names, *more):
        table = group(name).cayley
        common = np.ones(len(table), dtype=bool)
        done = np.zeros(len(table), dtype=bool)
        for element in range(1, len(table)):
            if not done[element]:
                conjugates = _conjugates(table, element)
                done[conjugates] = True
                common &= _closure(table, conjugates)
        if common.sum() < 2:
            return Finding(False, counterexample=f"{name}: normal subgroups meet in the identity")
    return Finding(True, scope="S_2..S_5, A_3..A_5" if fast else None)


def _conjugates(table: np.ndarray, element: int) -> np.ndarray:
    everyone = np.arange(len(table))
    inverse = np.argmin(table, axis=1)  # the identity is element 0
    return np.unique(table[table[inverse, element], everyone])


def _closure(table: np.ndarray, generators: np.ndarray) -> np.ndarray:
    inside = np.zeros(len(table), dtype=bool)
    inside[0] = True
    while True:
        reached = table[np.ix_(np.flatnonzero(inside), generators)]
        size = inside.sum()
        inside[reached.ravel()] = True
        if inside.sum() == size:
            return inside


@claim(
    "E8",
    "generators as tokens: S_n by transpositions with one loop",
    statement=(
        "If only generators are tokens the maximum runs over them: fed transpositions, S_n needs "
        "T = 1, one reflection a token."
    ),
    scope="S_3, S_4, S_5, words of length 2,048 of the task group_word, both backends, integers",
    source="derivation",
    evidence="exact",
    hypotheses={
        "transpositions as the only tokens": {"every element is a token": {"tokens": "all"}},
        "beta |k|^2 = 2": {"beta |k|^2 = 1": {"beta_scale": 0.5}},
        "the start (1..n) given": {"no start": {"given": 0.0}},
        "no writes": {"values are written": {"value": 1.0}},
    },
)
def transpositions_only(
    *,
    fast: bool,
    tokens: Literal["all", "transpositions"] = "transpositions",
    beta_scale: float = 1.0,
    given: float = 1.0,
    value: float = 0.0,
) -> Finding:
    """Run with one factor a token and compare every state's reading with the label's."""
    length = 128 if fast else 2048
    for size in (3, 4, 5):
        elements = list(itertools.permutations(range(size)))
        task = GroupWord(group=f"S{size}", tokens=tokens)
        batch = task.batch(stage=length, seed=6, size=2)
        joined = token_factors(elements, torch.from_numpy(batch.inputs), loops=1, value=value)
        assert joined.beta is not None, "token_factors always sets it"
        powers = (size + 1.0) ** torch.arange(size, dtype=torch.float64)
        images = torch.tensor(elements)
        wanted = (powers[images] * torch.arange(1, size + 1)).sum(1)[
            torch.from_numpy(batch.targets)
        ]
        start = given * torch.arange(1, size + 1, dtype=torch.float64)[None, None, :, None]
        start = start.expand(2, 1, size, 1)
        joined = replace(joined, q=powers.expand(joined.q.shape), beta=beta_scale * joined.beta)
        for backend in BACKENDS:
            read, _ = run_factors(joined, initial_state=start, backend=backend)
            if not torch.equal(read[..., 0, 0], wanted):
                return Finding(False, counterexample=f"S_{size}, {backend}")
    return Finding(True, scope=f"S_3, S_4, S_5, length {length:,}, both backends, integers")


CLAIMS: tuple[Claim, ...] = (several_heads, no_gain, transpositions_only)
