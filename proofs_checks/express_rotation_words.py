"""E8: the word problems of S_4 and A_5 run through the recurrence with two factors a token."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from flint import arb
from torch import Tensor

from lt2theory.ops import run_factors
from proofs_checks.claim import Claim, Finding, Variants, claim
from proofs_checks.dealt_factors import BACKENDS, deal
from proofs_checks.express_rotations import rotations
from proofs_checks.quadratic import surds
from tasks.group_word import GroupWord

ROOT = torch.tensor([1.0, 5.0**0.5], dtype=torch.float64)


FACTORS: Mapping[str, Variants] = {
    "accumulate": {"rescan": {"semantics": "rescan"}},
    "at least two loops": {"T = 1": {"loops": 1}},
    "later loops act later": {"later loops act first": {"later_first": True}},
    "no decay": {"a decay of 1/2": {"decay": 0.5}},
    "v = 0": {"values are written": {"value": 1.0}},
    "the start (1,2,5) is given": {"no start": {"given": False}},
}
"""What both word problems need of the factors that a token is given."""


def _reads(
    name: str,
    readings: Tensor,
    *,
    length: int,
    semantics: str,
    loops: int,
    later_first: bool,
    decay: float,
    value: float,
    given: bool,
    beta_norm: float,
    unit: bool,
    query: Sequence[int],
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Backends, with what is read along two words and what should be."""
    made = rotations(name)
    mirrors = torch.tensor(made.mirrors, dtype=torch.float64) @ ROOT
    if unit:
        mirrors = mirrors / mirrors.norm(dim=-1, keepdim=True)
    pairs = torch.tensor(made.pairs)
    keys = mirrors[pairs.flip(-1) if later_first else pairs][:, :loops]
    betas = beta_norm / keys.square().sum(-1)
    batch = GroupWord(group=name).batch(stage=length, seed=8, size=2)
    words = torch.from_numpy(batch.inputs)
    joined = deal(keys, betas, words, semantics=semantics, value=value, decay=decay)
    joined = replace(joined, q=torch.tensor(query).to(keys).expand(*words.shape, 1, 3))
    start = torch.tensor([1.0, 2.0, 5.0]).double()[None, None, :, None] * float(given)
    for backend in BACKENDS:
        read, _ = run_factors(joined, initial_state=start.expand(2, 1, 3, 1), backend=backend)
        yield backend, read[..., 0, 0], readings[torch.from_numpy(batch.targets)]


def _readings(name: str, query: Sequence[int]) -> Tensor:
    """What the query reads in the state of every element."""
    start, row = surds(5, [[1], [2], [5]]), surds(5, [query])
    numbers = [row @ operator @ start for operator in rotations(name).operators]
    parts = [[float(arb(n.a[0, 0])), float(arb(n.b[0, 0]))] for n in numbers]
    return torch.tensor(parts, dtype=torch.float64) @ ROOT


@claim(
    "E8",
    "S_4 in the recurrence, integers only",
    statement=(
        "Two factors a token under accumulate, keys of the nine mirrors, solve the S_4 word "
        "problem: every state is an integer vector and one query (1, 11, 121) reads the element."
    ),
    scope="two words of the task group_word of length 4,096, both backends, float64 integers",
    source="derivation",
    evidence="exact",
    hypotheses={
        **FACTORS,
        "beta |k|^2 = 2": {"beta |k|^2 = 1": {"beta_norm": 1.0}},
        "integer keys": {"unit keys": {"unit": True}},
    },
    mutants={"the query (1, 1, 1)": {"query": (1, 1, 1)}},
)
def cube_words(
    *,
    fast: bool,
    semantics: str = "accumulate",
    loops: int = 2,
    later_first: bool = False,
    decay: float = 1.0,
    value: float = 0.0,
    given: bool = True,
    beta_norm: float = 2.0,
    unit: bool = False,
    query: tuple[int, int, int] = (1, 11, 121),
) -> Finding:
    """Equality of floats, which hold integers."""
    readings = _readings("S4", query)
    if len(readings.unique()) < len(readings):
        return Finding(False, counterexample=f"the query {query} reads two elements alike")
    length = 256 if fast else 4096
    for backend, read, wanted in _reads(
        "S4",
        readings,
        length=length,
        semantics=semantics,
        loops=loops,
        later_first=later_first,
        decay=decay,
        value=value,
        given=given,
        beta_norm=beta_norm,
        unit=unit,
        query=query,
    ):
        if not torch.equal(read, wanted):
            return Finding(False, counterexample=f"{backend}: another reading")
    return Finding(True, scope=f"two words of length {length:,}, both backends, float64 integers")


@claim(
    "E8",
    "A_5 in the recurrence",
    statement=(
        "Two factors a token under accumulate with unit keys of the 15 mirrors and beta = 2 solve "
        "the A_5 word problem in float64: the nearest of the 60 readings is the element."
    ),
    scope="two words of the task group_word of length 4,096, both backends",
    source="derivation",
    evidence="float64",
    hypotheses={**FACTORS, "beta = 2": {"beta = 2 - 1/100": {"beta_norm": 1.99}}},
    mutants={"the query (1, 1, 1)": {"query": (1, 1, 1)}},
)
def icosahedron_words(
    *,
    fast: bool,
    semantics: str = "accumulate",
    loops: int = 2,
    later_first: bool = False,
    decay: float = 1.0,
    value: float = 0.0,
    given: bool = True,
    beta_norm: float = 2.0,
    query: tuple[int, int, int] = (1, 11, 121),
) -> Finding:
    """Margin: half the least distance of two readings, less the largest error."""
    length = 256 if fast else 4096
    readings = _readings("A5", query)
    half = float(readings.sort().values.diff().min()) / 2
    worst = 0.0
    for _, read, wanted in _reads(
        "A5",
        readings,
        length=length,
        semantics=semantics,
        loops=loops,
        later_first=later_first,
        decay=decay,
        value=value,
        given=given,
        beta_norm=beta_norm,
        unit=True,
        query=query,
    ):
        worst = max(worst, float((read - wanted).abs().max()))
    scope = f"two words of length {length:,}, both backends; largest error {worst:.1e}"
    return Finding(worst < half, margin=half - worst, scope=scope)


CLAIMS: tuple[Claim, ...] = (cube_words, icosahedron_words)
