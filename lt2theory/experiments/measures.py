"""What is measured on the demo's own trained models, after training."""

from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Bool, Int
from torch import Tensor

import tasks
from lt2theory.analysis import (
    ComposedFactors,
    DPLROperator,
    Influence,
    beyond_token,
    composed_factors,
    loop_transitions,
    measured_influence,
)
from lt2theory.models import LoopTrace
from lt2theory.training import load_model

INSTANCES = 64

# Dense products of transitions of norm <= 1 are right to some 1e-15 in float64.
ROUNDING = 1e-12
# By R4 the least singular value is at least this over 1 + 2 T, so well above `ROUNDING`.
VISIBLE = 1e-10


def held_out_tokens(task: tasks.Task, stage: int) -> Int[Tensor, "b t"]:
    """Inputs that no run was trained on.

    Args:
        task: The task.
        stage: Its difficulty.

    Returns:
        Token ids of evaluation instances (index 1,000, which no promotion has used).
    """
    batch = task.batch(stage=stage, split="eval", seed=0, index=1000, size=INSTANCES)
    return torch.from_numpy(batch.inputs)


def held_out_trace(folder: Path, stage: int) -> LoopTrace:
    """What happens in a run's model on held-out inputs, in float64.

    Args:
        folder: The run.
        stage: Difficulty of the inputs.

    Returns:
        The trace of 64 instances, without gradients.
    """
    model, config = load_model(folder)
    with torch.no_grad():
        return model.double().trace(held_out_tokens(config.task.create(), stage))


def transition_ranks(trace: LoopTrace) -> pd.DataFrame:
    """Ranks of the composed loop transitions.

    Args:
        trace: As `held_out_trace` gives it.

    Returns:
        `lt2theory.analysis.loop_transitions` of the trace, and two columns that do not rest on the
        closed form behind it: `product_rank`, the rank of the gate baseline less the transitions
        multiplied out as dense matrices, and `keys_independent`, whether the loops' keys and their
        strengths leave a least singular value that float64 can show (theory R4).
    """
    composed = list(composed_factors(trace))
    return loop_transitions(trace).assign(
        product_rank=torch.cat([product_rank(one).ravel() for one in composed]).numpy(),
        keys_independent=torch.cat([_independent(one).ravel() for one in composed]).numpy(),
    )


def last_loop_beyond_token(trace: LoopTrace) -> float:
    """How far the last loop's transitions are from functions of the token.

    Args:
        trace: As `held_out_trace` gives it, of a model with one layer.

    Returns:
        The median over heads of `lt2theory.analysis.beyond_token`, over all tokens.
    """
    *_, last = composed_factors(trace)
    return float(beyond_token(last, trace.tokens).median())


def product_rank(composed: ComposedFactors) -> Int[Tensor, "b n h"]:
    """Rank of `prod D - A_T ... A_1`, with the transitions multiplied out one after the other.

    Args:
        composed: Factors of T loops, with T at least 1.

    Returns:
        How many singular values of the dense difference exceed rounding, `[b n h]`.
    """
    width = composed.keys.shape[-1]
    product = baseline = torch.eye(width, dtype=composed.keys.dtype)
    for index, key in enumerate(composed.keys.unbind(-2)):
        beta = None if composed.betas is None else composed.betas[..., index]
        decay = None if composed.log_decays is None else composed.log_decays.select(3, index)
        gate = DPLROperator.from_factor(key, None, decay, composed.order)
        step = DPLROperator.from_factor(key, beta, decay, composed.order)
        product, baseline = step.to_dense() @ product, gate.to_dense() @ baseline
    rank: Tensor = (torch.linalg.svdvals(baseline - product) > ROUNDING).sum(-1)
    return rank


def _independent(composed: ComposedFactors) -> Bool[Tensor, "b n h"]:
    if composed.betas is None or composed.keys.shape[-2] > composed.keys.shape[-1]:
        return torch.zeros(composed.keys.shape[:-2], dtype=torch.bool)
    least = torch.linalg.svdvals(composed.keys)[..., -1]
    visible: Tensor = least.square() * composed.betas.abs().amin(-1) > VISIBLE
    return visible


def last_token_influence(folder: Path, stage: int) -> Influence:
    """Influence of every token on the last one's logits in a run's model, in float64.

    Args:
        folder: The run.
        stage: Length of the inputs.

    Returns:
        The influence, from exact Jacobians of 64 held-out instances.
    """
    model, config = load_model(folder)
    model = model.double()
    tokens = held_out_tokens(config.task.create(), stage)
    return measured_influence(model, tokens, tokens.shape[1] - 1, read_out=model.read_out)


def median_by_loops(ranks: pd.DataFrame, column: str) -> dict[int, float]:
    """Median of a rank over tokens and heads, for every number of loops.

    Args:
        ranks: As `transition_ranks` gives it.
        column: Which rank.

    Returns:
        Loops -> median.
    """
    groups = ranks.groupby("num_loops")[column].median()
    return {int(str(loops)): float(value) for loops, value in groups.items()}
