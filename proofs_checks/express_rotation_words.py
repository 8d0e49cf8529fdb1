"""E8: the word problems of S_4 and A_5 run through the recurrence with two factors a token."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from flint import arb
from torch import Tensor

from lt2theory.ops import Factors, linear_recurrence
from proofs_checks.claim import Claim, Finding, Variants, claim
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


def _token_factors(
    name: str,
    words: Tensor,
    *,
    loops: int,
    beta_norm: float,
    unit: bool,
    value: float,
    semantics: str,
    later_first: bool,
    decay: float,
    query: Sequence[int],
) -> Factors:
    """What the last loop's op receives: each loop applies one reflection of its token."""
    made = rotations(name)
    keys = torch.tensor(made.mirrors, dtype=torch.float64) @ ROOT
    if unit:
        keys = keys / keys.norm(dim=-1, keepdim=True)
    betas = beta_norm / keys.square().sum(-1)
    chosen = torch.tensor(made.pairs)[words]
    if later_first:
        chosen = chosen.flip(-1)
    joined: Factors | None = None
    for loop in range(loops):
        k = keys[chosen[..., loop]][:, :, None, None]
        beta = betas[chosen[..., loop]][:, :, None, None]
        now = Factors(
            torch.tensor(query).to(k).expand(*words.shape, 1, 3),
            k,
            torch.full_like(k[..., :1], value),
            None if decay == 1 else torch.full_like(beta, math.log(decay)),
            beta=beta,
            write=torch.full_like(beta, float(value != 0)),
            scale=1.0,
        )
        joined = now.after(joined) if semantics == "accumulate" else now
    assert joined is not None, "loops >= 1"
    return joined


def _read(name: str, words: Tensor, backend: str, *, given: bool, **dealt: Any) -> Tensor:
    joined = _token_factors(name, words, **dealt)
    start = torch.tensor([1.0, 2.0, 5.0]).double()[None, None, :, None] * float(given)
    return linear_recurrence(
        joined.q,
        joined.k,
        joined.v,
        log_decay=joined.log_decay,
        beta=joined.beta,
        write=joined.write,
        scale=1.0,
        initial_state=start.expand(len(words), 1, 3, 1),
        backend=backend,
    )[..., 0, 0]


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
    batch = GroupWord(group="S4").batch(stage=length, seed=8, size=2)
    wanted = readings[torch.from_numpy(batch.targets)]
    words = torch.from_numpy(batch.inputs)
    for backend in ("reference", "chunked"):
        read = _read(
            "S4",
            words,
            backend,
            semantics=semantics,
            loops=loops,
            later_first=later_first,
            decay=decay,
            value=value,
            given=given,
            beta_norm=beta_norm,
            unit=unit,
            query=query,
        )
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
    batch = GroupWord(group="A5").batch(stage=length, seed=8, size=2)
    readings = _readings("A5", query)
    wanted = readings[torch.from_numpy(batch.targets)]
    half = float(readings.sort().values.diff().min()) / 2
    worst = 0.0
    for backend in ("reference", "chunked"):
        words = torch.from_numpy(batch.inputs)
        read = _read(
            "A5",
            words,
            backend,
            semantics=semantics,
            loops=loops,
            later_first=later_first,
            decay=decay,
            value=value,
            given=given,
            beta_norm=beta_norm,
            unit=True,
            query=query,
        )
        worst = max(worst, float((read - wanted).abs().max()))
    scope = f"two words of length {length:,}, both backends; largest error {worst:.1e}"
    return Finding(worst < half, margin=half - worst, scope=scope)


CLAIMS: tuple[Claim, ...] = (cube_words, icosahedron_words)
