"""Measures on models that took one step, and ranks of products known by hand."""

import math
from typing import Any

import pytest
import torch

from lt2theory.analysis import ComposedFactors, reach
from lt2theory.experiments.measures import (
    INSTANCES,
    held_out_tokens,
    held_out_trace,
    last_token_influence,
    median_by_loops,
    product_rank,
    transition_ranks,
)
from lt2theory.experiments.recipes import distance_probe, word_problem
from lt2theory.training import CurriculumConfig


def loops_of(pattern: str, num_loops: int, loop_state: str) -> CurriculumConfig:
    fields = {"pattern": pattern, "num_loops": num_loops, "loop_state": loop_state}
    base = word_problem(num_loops=2).model_dump()
    return CurriculumConfig.model_validate(
        base | {"model": base["model"] | fields | {"num_heads": 4, "width": 32, "ffn_width": 32}}
    )


@pytest.mark.parametrize(
    ("pattern", "num_loops", "loop_state"),
    [
        ("deltanet", 2, "accumulate"),
        ("deltanet", 3, "rescan"),
        ("gdn", 3, "accumulate"),
        ("kda", 2, "accumulate"),
    ],
)
def test_ranks_never_exceed_the_loops(
    pattern: str, num_loops: int, loop_state: str, saved_run: Any
) -> None:
    folder = saved_run(loops_of(pattern, num_loops, loop_state))
    table = transition_ranks(held_out_trace(folder, 16))
    assert len(table) == INSTANCES * 16 * 4 * num_loops
    assert (table["product_rank"] <= table["num_loops"]).all()
    free = table[table["keys_independent"]]
    assert len(free) > 0.9 * len(table)
    assert (free["product_rank"] == free["num_loops"]).all()
    # The closed form agrees, but where a singular value is below its relative tolerance.
    assert (free["rank"] <= free["product_rank"]).all()
    assert (free["rank"] == free["product_rank"]).mean() > 0.9
    assert median_by_loops(table, "product_rank") == {
        loops: loops for loops in range(1, num_loops + 1)
    }


def test_mixers_without_erasure_have_rank_zero(saved_run: Any) -> None:
    """Theory R8."""
    folder = saved_run(loops_of("linear_attention", 2, "rescan"))
    table = transition_ranks(held_out_trace(folder, 16))
    assert not table["product_rank"].any()
    assert not table["keys_independent"].any()


def composed(keys: Any, betas: Any, log_decays: Any = None) -> ComposedFactors:
    """One product of factors at one place."""
    as_one = lambda values: torch.tensor(values, dtype=torch.float64)[None, None, None]  # noqa: E731
    gates = None if log_decays is None else as_one(log_decays)
    return ComposedFactors(0, len(keys), as_one(keys), as_one(betas), gates, "decay_first")


X, Y, SLANT = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.8, 0.0]
HALF = [math.log(0.5)] * 2


@pytest.mark.parametrize(
    ("keys", "betas", "log_decays", "rank"),
    [
        ([X, Y], [1.0, 1.0], None, 2),
        ([X, SLANT], [2.0, 0.5], None, 2),
        ([X, X], [1.0, 0.5], None, 1),  # R5: collinear keys
        ([X, X], [2.0, 2.0], None, 0),  # R5: two reflections are the identity
        ([X, Y, SLANT], [2.0, 2.0, 2.0], None, 1),  # R5: three reflections in a plane
        ([X, Y], [1.0, 0.0], None, 1),
        ([X, SLANT], [2.0, 0.5], HALF, 2),  # R6: scalar gates; R10: not d
        # R7: identical keys reach rank 2 under two different decays.
        ([SLANT, SLANT], [1.0, 1.0], [[0.0, -math.log(2), 0.0]] * 2, 2),
    ],
)
def test_ranks_known_by_hand(keys: Any, betas: Any, log_decays: Any, rank: int) -> None:
    assert product_rank(composed(keys, betas, log_decays)).item() == rank


@pytest.mark.parametrize(("loops", "window"), [(1, 4), (3, 4), (2, 6)])
def test_the_receptive_field_is_that_of_w1(loops: int, window: int, saved_run: Any) -> None:
    config = distance_probe(num_loops=loops, window=window)
    edge = reach(1, loops, window)
    assert edge == loops * (window - 1) + 1 == config.stages[-1]
    field = last_token_influence(saved_run(config), int(edge) + 4)
    assert set(field.reach.tolist()) == {edge}
    assert field.support[:, : int(edge)].all()
    assert field.is_exact
    assert field.norm.shape == (INSTANCES, edge + 4)


def test_held_out_tokens_are_none_of_the_training_or_the_promotion() -> None:
    task = word_problem().task.create()
    tokens = held_out_tokens(task, 16)
    assert tokens.shape == (INSTANCES, 16)
    assert tokens.equal(held_out_tokens(task, 16))
    rows = {tuple(row) for row in tokens.tolist()}
    trained = task.batch(stage=16, split="train", seed=0, index=0, size=4096).inputs.tolist()
    assert not rows & {tuple(row) for row in trained}
