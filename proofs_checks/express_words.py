"""E3: every token of the S_n word problem as its permutation matrix, by hand-built factors."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lt2theory.ops import Factors, run_factors
from proofs_checks.claim import Claim, Finding, Variants, claim
from proofs_checks.dealt_factors import BACKENDS, deal
from proofs_checks.express_permutations import swaps_of

FACTORS: Mapping[str, Variants] = {
    "accumulate": {"rescan": {"semantics": "rescan"}},
    "at least n - 1 loops": {"T = n - 2": {"missing": 1}},
    "later loops act later": {"later loops act first": {"later_first": True}},
    "beta |k|^2 = 2 for the keys e_i - e_j": {"three quarters of it": {"busy": 0.75}},
    "beta = 0 in the loops that a token does not need": {"idle loops erase": {"idle_beta": 1.0}},
    "no decay": {"a decay of 1/2": {"decay": 0.5}},
    "v = 0": {"values are written": {"value": 1.0}},
}
"""What every construction here needs of the factors that a token is given."""


def token_factors(
    elements: Sequence[Sequence[int]],
    words: Tensor,
    *,
    loops: int,
    idle_beta: float = 0.0,
    later_first: bool = False,
    value: float = 0.0,
    semantics: str = "accumulate",
    unit: bool = False,
    busy: float = 1.0,
    decay: float = 1.0,
) -> Factors:
    """What the last loop's op receives when every loop applies one transposition of its token.

    Args:
        elements: Images of every token.
        words: Tokens `[batch, time]`.
        loops: T; a permutation of more transpositions loses its last ones.
        idle_beta: beta of the loops that a token does not need.
        later_first: Whether the factors are dealt to the loops in the wrong order.
        value: What is written; the construction writes nothing.
        semantics: `accumulate` joins the loops, `rescan` leaves each loop its own scan.
        unit: Whether the keys have length one and beta is 2, as in the mixers.
        busy: Factor on beta in the loops that a token needs.
        decay: Of the whole state, in every loop.

    Returns:
        Factors with a zero query.
    """
    size = len(elements[0])
    keys = torch.zeros(len(elements), loops, size, dtype=torch.float64)
    betas = torch.full((len(elements), loops), idle_beta, dtype=torch.float64)
    keys[:, :, 0] = 1.0  # the key of an idle loop does not matter
    for token, images in enumerate(elements):
        swaps = swaps_of(images)
        for loop, (i, j) in enumerate((swaps[::-1] if later_first else swaps)[:loops]):
            keys[token, loop] = 0.0
            keys[token, loop, i], keys[token, loop, j] = 1.0, -1.0
            betas[token, loop] = busy
    if unit:
        keys, betas = keys / keys.norm(dim=-1, keepdim=True), 2.0 * betas
    return deal(keys, betas, words, semantics=semantics, value=value, decay=decay)


@claim(
    "E3",
    "every token is its permutation matrix, exactly",
    statement=(
        "With T = n - 1 loops, keys e_i - e_j and beta = 1, each token's factors multiply to its "
        "permutation matrix with integers only: by induction the word problem of S_n is solved "
        "exactly at any length."
    ),
    scope="all n! tokens of S_n, n = 2..6, T = n - 1 and T = n, on the identity as state, both "
    "backends; any length",
    source="derivation from E2; LT2, Section on state tracking",
    evidence="exact",
    hypotheses={
        **FACTORS,
        "integer keys": {"unit keys, which round": {"unit": True}},
        "the starting state is given": {"no start": {"given": 0.0}},
    },
)
def tokens_are_matrices(
    *,
    fast: bool,
    semantics: str = "accumulate",
    missing: int = 0,
    later_first: bool = False,
    busy: float = 1.0,
    idle_beta: float = 0.0,
    decay: float = 1.0,
    value: float = 0.0,
    unit: bool = False,
    given: float = 1.0,
) -> Finding:
    """One token from the identity; float64 holds the integers, compared by `torch.equal`."""
    sizes = range(3 if missing else 2, 5 if fast else 7)
    for size, more, backend in itertools.product(sizes, (0, 1), BACKENDS):
        elements = list(itertools.permutations(range(size)))
        joined = token_factors(
            elements,
            torch.arange(len(elements))[:, None],
            loops=size - 1 - missing + more,
            idle_beta=idle_beta,
            later_first=later_first,
            value=value,
            semantics=semantics,
            unit=unit,
            busy=busy,
            decay=decay,
        )
        start = given * torch.eye(size, dtype=torch.float64).expand(len(elements), 1, size, size)
        wide = replace(joined, v=joined.v.expand(*joined.v.shape[:-1], size))
        _, state = run_factors(wide, initial_state=start, backend=backend)
        target = torch.zeros_like(state)
        rows = torch.tensor(elements)
        target.scatter_(2, rows[:, None, None, :], 1.0)
        if not torch.equal(state, target):
            worst = int((state - target).abs().amax((1, 2, 3)).argmax())
            return Finding(False, counterexample=f"S_{size}, token {elements[worst]}, {backend}")
    return Finding(True, scope="n = 2..4, both backends; any length" if fast else None)


CLAIMS: tuple[Claim, ...] = (tokens_are_matrices,)
