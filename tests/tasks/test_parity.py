import numpy as np
import pytest

import tasks

TASK = tasks.create("parity")


@pytest.mark.parametrize("stage", [1, 7, *TASK.stages])
def test_labels_equal_counting_the_ones_of_each_prefix(stage):
    inputs, targets, mask = TASK.batch(stage=stage, size=3)
    assert mask.all()
    for row, labels in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert set(row) <= {0, 1}
        assert labels == [row[: t + 1].count(1) % 2 for t in range(stage)]


def test_contract():
    assert 16 in TASK.stages
    assert TASK.vocab_size == 2
    assert TASK.sequence_length(16) == 16
    assert TASK.instance_count(16) == 2**16


def test_constant_answers_score_the_floors():
    targets = TASK.batch(stage=32, size=20_000).targets
    np.testing.assert_allclose(targets.mean(axis=0), 0.5, atol=5 * 0.5 / 20_000**0.5)
    assert TASK.floors(32) == {"uniform": 0.5, "majority": 0.5}
    np.testing.assert_array_equal(TASK.position_floors(32), np.full(32, 0.5))
