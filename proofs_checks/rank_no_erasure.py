"""R8: mixers that do not erase gain no rank from looping."""

import itertools
from typing import Literal

import torch
from sympy import Expr

from lt2theory.analysis import loop_transitions
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.letters import letters, scalars, vanishes

NOT_ERASING = ("linear attention", "RetNet", "Mamba2", "GLA", "HGRN2")


@claim(
    "R8",
    "mixers that do not erase",
    statement=(
        "Over T loops the state of linear attention, RetNet, Mamba2, GLA and HGRN2 goes through "
        "prod(D) alone: A_T...A_1 - prod(D) = 0 for every T."
    ),
    scope="all",
    source="derivation from the mixers' updates",
    evidence="symbolic",
    hypotheses={
        "the mixer erases nothing": {
            "DeltaNet among them": {"more": ("DeltaNet",)},
            "GDN among them": {"more": ("GDN",)},
            "KDA among them": {"more": ("KDA",)},
        },
        "the baseline is the product of its decays": {"baseline I": {"named_baseline": False}},
    },
    where="any state, keys, values and decays",
)
def without_erasure(
    *, fast: bool, more: tuple[str, ...] = (), named_baseline: bool = True
) -> Finding:
    """Induction on T: the map so far is `P S + W`; one more update is applied to S and to 0."""
    P, S, W, D, one, k, kt, vt = letters("P S W D one k kt vt")
    a, b, g, step = scalars("a b g step")

    def update(mixer: str, state: Expr) -> Expr:
        return {
            "linear attention": state + k * vt,
            "RetNet": g * state + k * vt,
            "Mamba2": a * state + step * k * vt,
            "GLA": D * state + k * vt,
            "HGRN2": D * state + (1 - D) * one * vt,
            "DeltaNet": (1 - b * k * kt) * state + b * k * vt,
            "GDN": (1 - b * k * kt) * a * state + b * k * vt,
            "KDA": (1 - b * k * kt) * D * state + b * k * vt,
        }[mixer]

    decays = {"RetNet": g, "Mamba2": a, "GLA": D, "HGRN2": D, "GDN": a, "KDA": D}
    for mixer in (*NOT_ERASING, *more):
        linear = update(mixer, P * S + W) - update(mixer, W)
        baseline = decays.get(mixer, 1) if named_baseline else 1
        if not vanishes(linear - baseline * P * S):
            return Finding(False, counterexample=mixer)
    return Finding(True)


@claim(
    "R8",
    "the op and the analyser without erasure",
    statement=(
        "linear_recurrence without beta moves the state by prod(D) alone, and loop_transitions of "
        "a looped linear attention, RetNet, Mamba2, GLA or HGRN2 reports rank 0 at every T, under "
        "rescan and accumulate."
    ),
    scope="decays none, scalar and by channel, T = 4, d = 5, tolerance 1e-14; toy models, T <= 3",
    source="lt2theory.ops, lt2theory.models, lt2theory.analysis",
    evidence="float64",
    hypotheses={
        "no beta (for the op)": {"beta given": {"erases": True}},
        "the mixer erases nothing (for the model)": {"DeltaNet": {"mixers": ("deltanet",)}},
    },
)
def project_without_erasure(
    *,
    fast: bool,
    erases: bool = False,
    mixers: tuple[str, ...] = ("linear_attention", "retnet", "mamba2", "gla", "hgrn2"),
) -> Finding:
    """The transition is read off by starting from the identity and from zero."""
    generator = torch.Generator().manual_seed(8)
    count, width = 4, 5
    k, v = torch.randn(2, 1, 1, count, 1, width, generator=generator, dtype=torch.float64)
    shapes = {"none": None, "scalar": (1, 1, count, 1), "channel": (1, 1, count, 1, width)}
    worst = 0.0
    for shape in shapes.values():
        logs = None
        product = torch.ones(width, dtype=torch.float64)
        if shape is not None:
            logs = -torch.rand(shape, generator=generator, dtype=torch.float64)
            product = product * logs.sum(2)[0, 0, 0].exp()
        ends = [
            linear_recurrence(
                k.new_zeros(1, 1, 1, width),
                k,
                v,
                log_decay=logs,
                beta=torch.full_like(k[..., 0], 0.5) if erases else None,
                initial_state=start[None, None],
                return_state=True,
            )[1]
            for start in (torch.eye(width, dtype=k.dtype), torch.zeros(width, width, dtype=k.dtype))
        ]
        error = (ends[0] - ends[1])[0, 0] - torch.diag(product)
        worst = max(worst, float(error.abs().max()))
    models = itertools.product(mixers, STATES)
    silent = all(_ranks(*model) == {(1, 0), (2, 0), (3, 0)} for model in models)
    return Finding(worst < 1e-14 and silent, margin=1e-14 - worst)


STATES: tuple[Literal["rescan", "accumulate"], ...] = ("rescan", "accumulate")


def _ranks(mixer: str, loop_state: Literal["rescan", "accumulate"]) -> set[tuple[int, int]]:
    """Every number of loops of a toy model, with every rank that is reported there."""
    config = LoopedConfig(
        num_layers=1, num_loops=3, pattern=mixer, loop_state=loop_state, width=16, num_heads=2
    )
    table = loop_transitions(LoopedModel(config).trace(torch.arange(6)[None]))
    return {(int(t), int(rank)) for t, rank in zip(table["num_loops"], table["rank"], strict=True)}


CLAIMS: tuple[Claim, ...] = (without_erasure, project_without_erasure)
