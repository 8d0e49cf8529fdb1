"""E3: exact solutions of the S_n word problem by hand-built factors under `accumulate`."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lt2theory.ops import Factors, linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.express_permutations import swaps_of
from tasks.group_word import GroupWord

BACKENDS = ("reference", "chunked")


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
            betas[token, loop] = 1.0
    if unit:
        keys, betas = keys / keys.norm(dim=-1, keepdim=True), 2.0 * betas
    joined: Factors | None = None
    for loop in range(loops):
        k = keys[words, loop][:, :, None, None]
        beta = betas[words, loop][:, :, None, None]
        now = Factors(
            k.new_zeros(*words.shape, 1, size),
            k,
            k.new_full((*k.shape[:-1], 1), value),
            beta=beta,
            write=torch.full_like(beta, float(value != 0)),
            scale=1.0,
        )
        joined = now.after(joined) if semantics == "accumulate" else now
    assert joined is not None, "loops >= 1"
    return joined


@claim(
    "E3",
    "every token is its permutation matrix, exactly",
    statement=(
        "Under accumulate with T = n - 1, v = 0, keys e_i - e_j with beta = 1, and beta = 0 in the "
        "loops that a token does not need, each token's factors multiply to its permutation matrix "
        "with integers only: by induction the word problem of S_n is solved exactly at any length."
    ),
    conditions=(
        "accumulate; T = n - 1 loops; v = 0; beta = 0 in idle loops; later loops act later; the "
        "starting state is given"
    ),
    scope="all n! tokens of S_n, n = 2..6, on the identity as state, both backends; any length",
    source="derivation from E2; LT2, Section on state tracking",
    evidence="exact",
    mutants={
        "rescan": {"semantics": "rescan"},
        "T = n - 2": {"missing": 1},
        "values are written": {"value": 1.0},
        "idle loops erase": {"idle_beta": 1.0},
        "later loops act first": {"later_first": True},
        "no start": {"given": 0.0},
    },
)
def tokens_are_matrices(
    *, fast: bool, missing: int = 0, given: float = 1.0, **wrong: Any
) -> Finding:
    """One token from the identity; float64 holds the integers, compared by `torch.equal`."""
    sizes = range(3 if missing else 2, 5 if fast else 7)
    for size, backend in itertools.product(sizes, BACKENDS):
        elements = list(itertools.permutations(range(size)))
        words = torch.arange(len(elements))[:, None]
        joined = token_factors(elements, words, loops=size - 1 - missing, **wrong)
        wide = joined.v.expand(*joined.v.shape[:-1], size)
        start = given * torch.eye(size, dtype=torch.float64).expand(len(elements), 1, size, size)
        _, state = linear_recurrence(
            joined.q,
            joined.k,
            wide,
            beta=joined.beta,
            write=joined.write,
            initial_state=start,
            backend=backend,
            return_state=True,
        )
        target = torch.zeros_like(state)
        rows = torch.tensor(elements)
        target.scatter_(2, rows[:, None, None, :], 1.0)
        if not torch.equal(state, target):
            worst = int((state - target).abs().amax((1, 2, 3)).argmax())
            return Finding(False, counterexample=f"S_{size}, token {elements[worst]}, {backend}")
    return Finding(True, scope="n = 2..4, both backends; any length" if fast else None)


@claim(
    "E3",
    "long words, start written by a first token",
    statement=(
        "A first token writes (1..n) with d_v = 1, the query (1, B, B^2, ...) reads it back as one "
        "integer, and after every later token that integer names the product of the word."
    ),
    conditions=(
        "as above, the start written by a first token of write strength 1; B > n (sufficient: the "
        "reading is then injective)"
    ),
    scope="S_3, S_4, S_5, words of the task group_word of length 2,048, both backends, float64",
    source="derivation",
    evidence="exact",
    mutants={
        "rescan": {"semantics": "rescan"},
        "T = n - 2": {"missing": 1},
        "values are written": {"value": 1.0},
        "nothing is written first": {"first_write": 0.0},
        "B = 1": {"base": 1},
    },
)
def long_words(
    *,
    fast: bool,
    missing: int = 0,
    first_write: float = 1.0,
    base: int | None = None,
    **wrong: Any,
) -> Finding:
    """Every label of every word against the task's own, by Cayley table."""
    length = 128 if fast else 2048
    for size in (3, 4, 5):
        elements = list(itertools.permutations(range(size)))
        base_now = size + 1 if base is None else base
        readings = _readings(elements, base_now)
        if len(set(readings.tolist())) < len(elements):
            return Finding(False, counterexample=f"S_{size}, B = {base_now}: readings collide")
        batch = GroupWord(group=f"S{size}").batch(stage=length, seed=3, size=2)
        words = torch.from_numpy(np.concatenate([np.zeros((2, 1), np.int64), batch.inputs], 1))
        joined = token_factors(elements, words, loops=size - 1 - missing, **wrong)
        k, v, write = joined.k.clone(), joined.v.clone(), joined.write
        assert write is not None, "token_factors always sets it"
        k[:, 0, 0, 0] = torch.arange(1, size + 1, dtype=torch.float64)
        v[:, 0, 0], write[:, 0, 0] = 1.0, first_write
        q = (float(base_now) ** torch.arange(size, dtype=torch.float64)).expand(joined.q.shape)
        for backend in BACKENDS:
            read = linear_recurrence(
                q, k, v, beta=joined.beta, write=write, scale=1.0, backend=backend
            )
            wanted = readings[torch.from_numpy(batch.targets)]
            if not torch.equal(read[:, 1:, 0, 0], wanted):
                at = int((read[:, 1:, 0, 0] != wanted).any(0).nonzero()[0])
                return Finding(False, counterexample=f"S_{size}, {backend}, token {at}")
    return Finding(True, scope=f"S_3, S_4, S_5, words of length {length:,}, both backends, float64")


@claim(
    "E3",
    "unit keys, as the mixers make them",
    statement=(
        "With keys (e_i - e_j)/sqrt 2 and beta = 2 the states are integers up to rounding, and "
        "rounding the reading to the nearest integer still names the product."
    ),
    conditions="accumulate; T = n - 1; beta = 2; start (1..n) given",
    scope="S_5, two words of length 2,048, both backends, float64",
    source="derivation",
    evidence="float64",
    mutants={
        "rescan": {"semantics": "rescan"},
        "T = n - 2": {"missing": 1},
        "beta = 2 - 1/100": {"beta_scale": 0.995},
        "no start": {"given": 0.0},
    },
)
def unit_keys(
    *, fast: bool, missing: int = 0, beta_scale: float = 1.0, given: float = 1.0, **wrong: Any
) -> Finding:
    """Margin: one half less the largest error of a reading."""
    length, size = 128 if fast else 2048, 5
    elements = list(itertools.permutations(range(size)))
    batch = GroupWord(group="S5").batch(stage=length, seed=3, size=2)
    words = torch.from_numpy(batch.inputs)
    joined = token_factors(elements, words, loops=size - 1 - missing, unit=True, **wrong)
    assert joined.beta is not None, "token_factors always sets it"
    start = given * torch.arange(1, size + 1, dtype=torch.float64)[None, None, :, None]
    worst = 0.0
    for backend in BACKENDS:
        read = linear_recurrence(
            (6.0 ** torch.arange(size, dtype=torch.float64)).expand(joined.q.shape),
            joined.k,
            joined.v,
            beta=beta_scale * joined.beta,
            write=joined.write,
            scale=1.0,
            initial_state=start.expand(2, 1, size, 1),
            backend=backend,
        )
        wanted = _readings(elements, 6)[torch.from_numpy(batch.targets)]
        worst = max(worst, float((read[..., 0, 0] - wanted).abs().max()))
    scope = f"S_5, two words of length {length:,}, both backends; largest error {worst:.1e}"
    return Finding(worst < 0.5, margin=0.5 - worst, scope=scope)


def _readings(elements: Sequence[Sequence[int]], base: int) -> Tensor:
    """The integer that the query reads in the state of every element: digit i+1 at place g(i)."""
    size = len(elements[0])
    numbers = [sum((i + 1) * base ** images[i] for i in range(size)) for images in elements]
    return torch.tensor(numbers, dtype=torch.float64)


CLAIMS: tuple[Claim, ...] = (tokens_are_matrices, long_words, unit_keys)
