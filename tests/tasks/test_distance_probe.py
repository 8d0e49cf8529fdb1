import numpy as np
import pytest
from scipy.stats import chisquare

import tasks


def marked_bit(names, prefix):
    """The label after a prefix, read from the token names."""
    tokens = [names[token] for token in prefix]
    if tokens[-1] != "QUERY":
        return -100
    (marked,) = [token for token in tokens if token.startswith("*")]
    return int(marked[1])


@pytest.mark.parametrize("symbols", [2, 9])
@pytest.mark.parametrize("distance", [1, 7, 16, 200])
def test_labels_equal_the_marked_bit_at_every_stage(distance, symbols):
    task = tasks.create("distance_probe", distance=distance, symbols=symbols)
    for stage in (max(distance + 1, 5), distance + 4, *task.stages):
        inputs, targets, mask = task.batch(stage=stage, size=2)
        for row, labels in zip(inputs, targets, strict=True):
            expected = [marked_bit(task.token_names, row[: t + 1]) for t in range(stage)]
            assert labels.tolist() == expected
            marks = np.flatnonzero((row == symbols) | (row == symbols + 1))
            assert marks.tolist() == [stage - 1 - distance]
            assert row[-1] == symbols + 2
        np.testing.assert_array_equal(mask, targets >= 0)


def test_without_a_distance_the_first_token_is_marked():
    task = tasks.create("distance_probe", distance=None, symbols=8)
    for stage in (2, 8, 9, *task.stages):
        if stage > 2:
            inputs, targets, _ = task.batch(stage=stage, size=5)
            assert ((inputs[:, 0] == 8) | (inputs[:, 0] == 9)).all()
            assert (targets[:, -1] == inputs[:, 0] - 8).all()
            assert (inputs[:, 1:-1] < 8).all()
        assert task.instance_count(stage) == 2 * 8 ** (stage - 2)


def test_filler_says_nothing_about_the_answer():
    task = tasks.create("distance_probe", distance=5)
    size = 20_000
    inputs, targets, _ = task.batch(stage=12, size=size)
    answer = targets[:, -1]
    assert chisquare(np.bincount(answer)).pvalue > 1e-4
    for position in (0, 5, 7, 10):
        agreement = (inputs[:, position] == answer).mean()
        assert abs(agreement - 0.5) < 5 * 0.5 / size**0.5
    assert set(task.floors(12).values()) == {0.5}


def test_contract():
    task = tasks.create("distance_probe", distance=40)
    assert task.stages == (64, 128, 256, 512)
    assert task.sequence_length(64) == 64
    assert task.vocab_size == 5
    assert task.instance_count(64) == 2**63
    floors = task.position_floors(64)
    assert floors[-1] == 0.5
    assert np.isnan(floors[:-1]).all()


def test_a_sequence_shorter_than_the_distance_is_refused():
    task = tasks.create("distance_probe", distance=40)
    message = r"stage: 40 is not allowed \(must be a sequence length in 41 .. 65536 for"
    with pytest.raises(ValueError, match=message):
        task.batch(stage=40, size=1)
    with pytest.raises(ValueError, match="distance: 0 is not allowed"):
        tasks.create("distance_probe", distance=0)
    with pytest.raises(ValueError, match="symbols: 1 is not allowed"):
        tasks.create("distance_probe", symbols=1)
