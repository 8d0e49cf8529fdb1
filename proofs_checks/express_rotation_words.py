"""E8: the word problems of S_4 and A_5 run through the recurrence with two factors a token."""

from typing import Any

import torch
from flint import arb
from torch import Tensor

from lt2theory.ops import Factors, linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.express_rotations import rotations
from proofs_checks.quadratic import surds
from tasks.group_word import GroupWord

ROOT = torch.tensor([1.0, 5.0**0.5], dtype=torch.float64)


def _token_factors(
    name: str, words: Tensor, loops: int, beta_norm: float, unit: bool, value: float
) -> Factors:
    """What `accumulate` gives the last loop: each loop applies one reflection of its token."""
    made = rotations(name)
    keys = torch.tensor(made.mirrors, dtype=torch.float64) @ ROOT
    if unit:
        keys = keys / keys.norm(dim=-1, keepdim=True)
    betas = beta_norm / keys.square().sum(-1)
    chosen = torch.tensor(made.pairs)[words]
    joined: Factors | None = None
    for loop in range(loops):
        k = keys[chosen[..., loop]][:, :, None, None]
        beta = betas[chosen[..., loop]][:, :, None, None]
        v = torch.full_like(k[..., :1], value)
        write = torch.full_like(beta, float(value != 0))
        query = torch.tensor([1.0, 11.0, 121.0]).to(k).expand(*words.shape, 1, 3)
        now = Factors(query, k, v, beta=beta, write=write, scale=1.0)
        joined = now.after(joined)
    assert joined is not None, "loops >= 1"
    return joined


def _read(
    name: str,
    words: Tensor,
    backend: str,
    *,
    loops: int = 2,
    beta_norm: float = 2.0,
    unit: bool = False,
    value: float = 0.0,
    given: bool = True,
) -> Tensor:
    joined = _token_factors(name, words, loops, beta_norm, unit, value)
    start = torch.tensor([1.0, 2.0, 5.0]).double()[None, None, :, None] * float(given)
    return linear_recurrence(
        joined.q,
        joined.k,
        joined.v,
        beta=joined.beta,
        write=joined.write,
        scale=1.0,
        initial_state=start.expand(len(words), 1, 3, 1),
        backend=backend,
    )[..., 0, 0]


def _readings(name: str) -> Tensor:
    """What the query reads in the state of every element."""
    start, query = surds(5, [[1], [2], [5]]), surds(5, [[1, 11, 121]])
    numbers = [query @ operator @ start for operator in rotations(name).operators]
    parts = [[float(arb(n.a[0, 0])), float(arb(n.b[0, 0]))] for n in numbers]
    return torch.tensor(parts, dtype=torch.float64) @ ROOT


@claim(
    "E8",
    "S_4 in the recurrence, integers only",
    statement=(
        "Two factors a token under accumulate, keys of the nine mirrors, solve the S_4 word "
        "problem: every state is an integer vector and one query (1, 11, 121) reads the element."
    ),
    conditions="beta |k|^2 = 2; T = 2; keys of integers; start (1,2,5) given; v = 0",
    scope="two words of the task group_word of length 4,096, both backends, float64 integers",
    source="derivation",
    evidence="exact",
    mutants={
        "T = 1": {"loops": 1},
        "beta |k|^2 = 1": {"beta_norm": 1.0},
        "unit keys": {"unit": True},
        "no start": {"given": False},
        "values are written": {"value": 1.0},
    },
)
def cube_words(*, fast: bool, **wrong: Any) -> Finding:
    """Equality of floats, which hold integers."""
    length = 256 if fast else 4096
    batch = GroupWord(group="S4").batch(stage=length, seed=8, size=2)
    wanted = _readings("S4")[torch.from_numpy(batch.targets)]
    words = torch.from_numpy(batch.inputs)
    for backend in ("reference", "chunked"):
        read = _read("S4", words, backend, **wrong)
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
    conditions="beta = 2; T = 2; start (1,2,5) given; v = 0",
    scope="two words of the task group_word of length 4,096, both backends",
    source="derivation",
    evidence="float64",
    mutants={
        "T = 1": {"loops": 1},
        "beta = 2 - 1/100": {"beta_norm": 1.99},
        "no start": {"given": False},
        "values are written": {"value": 1.0},
    },
)
def icosahedron_words(*, fast: bool, **wrong: Any) -> Finding:
    """Margin: half the least distance of two readings, less the largest error."""
    length = 256 if fast else 4096
    batch = GroupWord(group="A5").batch(stage=length, seed=8, size=2)
    readings = _readings("A5")
    wanted = readings[torch.from_numpy(batch.targets)]
    half = float(readings.sort().values.diff().min()) / 2
    worst = 0.0
    for backend in ("reference", "chunked"):
        words = torch.from_numpy(batch.inputs)
        read = _read("A5", words, backend, unit=True, **wrong)
        worst = max(worst, float((read - wanted).abs().max()))
    scope = f"two words of length {length:,}, both backends; largest error {worst:.1e}"
    return Finding(worst < half, margin=half - worst, scope=scope)


CLAIMS: tuple[Claim, ...] = (cube_words, icosahedron_words)
