"""E3: long words of S_n in the recurrence, with integer keys and with unit keys."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from lt2theory.ops import run_factors
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.dealt_factors import BACKENDS
from proofs_checks.express_words import FACTORS, token_factors
from tasks.group_word import GroupWord


@claim(
    "E3",
    "long words, start written by a first token",
    statement=(
        "A first token writes (1..n) with d_v = 1, the query (1, B, B^2, ...) reads it back as one "
        "integer, and after every later token that integer names the product of the word."
    ),
    scope="S_3, S_4, S_5, words of the task group_word of length 2,048, both backends, float64",
    source="derivation",
    evidence="exact",
    hypotheses={
        **FACTORS,
        "integer keys": {"unit keys, which round": {"unit": True}},
        "the state is zero before the first token": {"a state from before": {"before": 1.0}},
        "the first token's write strength is 1": {"nothing is written first": {"first_write": 0.0}},
        "B >= n (the reading is then injective)": {"B = 1": {"base": 1}},
        "n B^n below 2^53 (in float64)": {"B = n 2^20": {"times": 2**20}},
    },
)
def long_words(
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
    before: float = 0.0,
    first_write: float = 1.0,
    base: int | None = None,
    times: int = 1,
) -> Finding:
    """Every label of every word against the task's own, by Cayley table."""
    length = 128 if fast else 2048
    for size in (3, 4, 5):
        elements = list(itertools.permutations(range(size)))
        base_now = times * (size if base is None else base)
        readings = _readings(elements, base_now)
        if len(set(readings.tolist())) < len(elements):
            return Finding(False, counterexample=f"S_{size}, B = {base_now}: readings collide")
        batch = GroupWord(group=f"S{size}").batch(stage=length, seed=3, size=2)
        words = torch.from_numpy(np.concatenate([np.zeros((2, 1), np.int64), batch.inputs], 1))
        joined = token_factors(
            elements,
            words,
            loops=size - 1 - missing,
            idle_beta=idle_beta,
            later_first=later_first,
            value=value,
            semantics=semantics,
            unit=unit,
            busy=busy,
            decay=decay,
        )
        k, v, write = joined.k.clone(), joined.v.clone(), joined.write
        assert write is not None, "token_factors always sets it"
        k[:, 0, 0, 0] = torch.arange(1, size + 1, dtype=torch.float64)
        v[:, 0, 0], write[:, 0, 0] = 1.0, first_write
        q = (float(base_now) ** torch.arange(size, dtype=torch.float64)).expand(joined.q.shape)
        joined = replace(joined, q=q, k=k, v=v)
        start = before * torch.ones(2, 1, size, 1, dtype=torch.float64)
        for backend in BACKENDS:
            read, _ = run_factors(joined, initial_state=start, backend=backend)
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
    scope="S_5, two words of length 2,048, both backends, float64",
    source="derivation",
    evidence="float64",
    hypotheses={
        **FACTORS,
        "beta |k|^2 = 2 for the keys e_i - e_j": {"beta = 2 - 1/100": {"busy": 0.995}},
        "the start (1..n) is given": {"no start": {"given": 0.0}},
    },
    where="beta = 2 for unit keys",
)
def unit_keys(
    *,
    fast: bool,
    semantics: str = "accumulate",
    missing: int = 0,
    later_first: bool = False,
    busy: float = 1.0,
    idle_beta: float = 0.0,
    decay: float = 1.0,
    value: float = 0.0,
    given: float = 1.0,
) -> Finding:
    """Margin: one half less the largest error of a reading."""
    length, size = 128 if fast else 2048, 5
    elements = list(itertools.permutations(range(size)))
    batch = GroupWord(group="S5").batch(stage=length, seed=3, size=2)
    words = torch.from_numpy(batch.inputs)
    joined = token_factors(
        elements,
        words,
        loops=size - 1 - missing,
        idle_beta=idle_beta,
        later_first=later_first,
        value=value,
        semantics=semantics,
        unit=True,
        busy=busy,
        decay=decay,
    )
    start = given * torch.arange(1, size + 1, dtype=torch.float64)[None, None, :, None]
    q = (6.0 ** torch.arange(size, dtype=torch.float64)).expand(joined.q.shape)
    joined, start = replace(joined, q=q), start.expand(2, 1, size, 1)
    worst = 0.0
    for backend in BACKENDS:
        read, _ = run_factors(joined, initial_state=start, backend=backend)
        wanted = _readings(elements, 6)[torch.from_numpy(batch.targets)]
        worst = max(worst, float((read[..., 0, 0] - wanted).abs().max()))
    scope = f"S_5, two words of length {length:,}, both backends; largest error {worst:.1e}"
    return Finding(worst < 0.5, margin=0.5 - worst, scope=scope)


def _readings(elements: Sequence[Sequence[int]], base: int) -> Tensor:
    """The integer that the query reads in the state of every element: digit i+1 at place g(i)."""
    size = len(elements[0])
    numbers = [sum((i + 1) * base ** images[i] for i in range(size)) for images in elements]
    return torch.tensor(numbers, dtype=torch.float64)


CLAIMS: tuple[Claim, ...] = (long_words, unit_keys)
