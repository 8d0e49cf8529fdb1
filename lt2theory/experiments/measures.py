"""What is measured on the demo's own trained models, after training."""

from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

import tasks
from lt2theory.analysis import Influence, loop_transitions, measured_influence
from lt2theory.training import load_model

INSTANCES = 64


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


def transition_ranks(folder: Path, stage: int) -> pd.DataFrame:
    """Ranks of the composed loop transitions of a run's model, in float64.

    Args:
        folder: The run.
        stage: Difficulty of the inputs.

    Returns:
        `lt2theory.analysis.loop_transitions` of 64 held-out instances.
    """
    model, config = load_model(folder)
    with torch.no_grad():
        trace = model.double().trace(held_out_tokens(config.task.create(), stage))
        return loop_transitions(trace)


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
