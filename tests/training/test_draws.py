from typing import Any

import numpy as np
import pytest

from lt2theory.training.draws import (
    confirmation_batch,
    evaluation_batch,
    held_out_batch,
    rows_in,
    training_batch,
)
from tasks import Batch


def rows(batch: Batch) -> set[bytes]:
    return {row.tobytes() for row in batch.inputs}


def test_confirmation_shares_nothing_with_its_evaluation(make_config: Any) -> None:
    """Parity 14 holds some 1,640 instances for evaluation: two free draws would overlap."""
    config = make_config(evaluation_size=512, confirmation_size=1024)
    task = config.task.create()
    for step in (20, 40):
        evaluation = evaluation_batch(task, config, 14, step)
        confirmation, others = confirmation_batch(task, config, 14, step)
        assert others
        assert len(rows(evaluation)) == 512
        assert len(rows(confirmation)) == 1024
        assert not rows(evaluation) & rows(confirmation)


def test_a_large_space_gives_disjoint_draws_too(make_config: Any) -> None:
    config = make_config()
    task = config.task.create()
    confirmation, others = confirmation_batch(task, config, 40, 20)
    assert others
    assert len(confirmation.inputs) == config.confirmation_size
    assert not rows(confirmation) & rows(evaluation_batch(task, config, 40, 20))


def test_small_splits_are_used_whole_and_marked(make_config: Any) -> None:
    config = make_config(evaluation_size=64, confirmation_size=128)
    task = config.task.create()
    held = task.split_count(10, "eval")
    assert held is not None
    assert 64 < held < 192
    batch, others = confirmation_batch(task, config, 10, 20)
    assert not others
    assert len(batch.inputs) == min(held, 128)
    held = task.split_count(8, "test")
    assert len(held_out_batch(task, config, 8).inputs) == held


def test_draws_are_pure_and_fresh_at_every_step(make_config: Any) -> None:
    config = make_config()
    task = config.task.create()
    for draw in (training_batch, evaluation_batch):
        first, again, later = (draw(task, config, 24, step) for step in (20, 20, 40))
        np.testing.assert_array_equal(first.inputs, again.inputs)
        assert rows(first) != rows(later)


def test_seeds_share_the_test_but_not_the_training(make_config: Any) -> None:
    one, two = make_config(seed=1), make_config(seed=2)
    task = one.task.create()
    assert rows(held_out_batch(task, one, 24)) == rows(held_out_batch(task, two, 24))
    assert rows(training_batch(task, one, 24, 0)) != rows(training_batch(task, two, 24, 0))


def test_the_splits_do_not_meet(make_config: Any) -> None:
    config = make_config(batch_size=2000)
    task = config.task.create()
    train = rows(training_batch(task, config, 12, 0))
    assert not train & rows(evaluation_batch(task, config, 12, 0))
    assert not train & rows(held_out_batch(task, config, 12))


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_equals_a_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    some, others = (rng.integers(0, 3, (n, 3), dtype=np.uint64) for n in (23, 7))
    expected = [any((row == other).all() for other in others) for row in some]
    assert list(rows_in(some, others)) == expected
