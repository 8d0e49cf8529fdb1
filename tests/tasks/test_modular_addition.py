import numpy as np
import pytest
from scipy.stats import chisquare

import tasks


@pytest.mark.parametrize("modulus", [2, 5, 300])
@pytest.mark.parametrize("stage", [1, 7, 16, 64, 256])
def test_labels_equal_the_sums_of_each_prefix(modulus, stage):
    task = tasks.create("modular_addition", modulus=modulus)
    inputs, targets, mask = task.batch(stage=stage, size=2)
    assert mask.all()
    for row, labels in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert labels == [sum(row[: t + 1]) % modulus for t in range(stage)]


def test_long_sums_do_not_overflow():
    task = tasks.create("modular_addition", modulus=1024)
    inputs, targets, _ = task.batch(stage=1 << 16, size=1)
    assert targets[0, -1] == sum(inputs[0].tolist()) % 1024


def test_answers_are_uniform():
    task = tasks.create("modular_addition")
    targets = task.batch(stage=32, size=20_000).targets
    assert chisquare(np.bincount(targets[:, -1])).pvalue > 1e-4
    assert chisquare(np.bincount(targets[:, 0])).pvalue > 1e-4
    assert task.floors(32) == {"uniform": 0.2, "majority": 0.2}
    assert task.vocab_size == 5


@pytest.mark.parametrize("modulus", [1, 1025, -3])
def test_moduli_have_a_range(modulus):
    with pytest.raises(
        ValueError, match=rf"modulus: {modulus} is not allowed .must be in 2 .. 1024"
    ):
        tasks.create("modular_addition", modulus=modulus)
