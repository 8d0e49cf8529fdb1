import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import tasks
from tests.tasks.oracles import labels_of

STAGES = tasks.create("noisy_recall").stages


def check_labels(task, stage, size=2):
    inputs, targets, mask = task.batch(stage=stage, size=size)
    assert inputs.shape == (size, stage)
    for row, labels in zip(inputs, targets, strict=True):
        names = task.decode(row)
        assert task.decode(labels) == labels_of(row, task)
        slots = list(zip(names[0:-2:2], names[1:-2:2], strict=True))
        assert {a[0] + b[0] for a, b in slots} <= {"kv", "nn"}
        pairs = {pair for pair in slots if pair[0][0] == "k"}
        assert pairs
        assert len(dict(pairs)) == len(pairs)  # a key has one value
        assert names[-2] == "QUERY"
        assert names[-1] in dict(pairs)
    np.testing.assert_array_equal(mask, targets >= 0)


@pytest.mark.parametrize("supervision", ["every", "final"])
@pytest.mark.parametrize("stage", [4, 6, 102, *STAGES])
def test_labels_equal_looking_up_the_key(stage, supervision):
    check_labels(tasks.create("noisy_recall", supervision=supervision), stage)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 19),
    st.integers(2, 300),
    st.integers(1, 9),
    st.floats(0, 0.99),
    st.integers(2, 31),
)
def test_labels_at_odd_sizes(keys, values, noise_tokens, noise, slots):
    task = tasks.create(
        "noisy_recall", keys=keys, values=values, noise_tokens=noise_tokens, noise=noise
    )
    check_labels(task, 2 * slots)


def test_supervision_changes_labels_and_nothing_else():
    every, final = (
        tasks.create("noisy_recall", supervision=s).instances(stage=32, split="eval", size=50)
        for s in ("every", "final")
    )
    np.testing.assert_array_equal(every, final)


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.8])
def test_slots_are_noise_as_often_as_asked(noise):
    task, size = tasks.create("noisy_recall", noise=noise), 4000
    inputs = task.batch(stage=64, size=size).inputs
    noisy = inputs[:, 0:-2:2] > 16
    assert abs(noisy.mean() - noise * 30 / 31) < 5 * 0.5 / (31 * size) ** 0.5 + 1e-12
    assert (noisy.sum(axis=1) < 31).all()
    if noise:
        assert noisy.any(axis=0).all()  # no place is spared
        tokens = inputs[:, :-2][np.repeat(noisy, 2, axis=1)]
        assert chisquare(np.bincount(tokens)[17:]).pvalue > 1e-4


def test_keys_and_answers_are_uniform():
    inputs, targets, _ = tasks.create("noisy_recall").batch(stage=64, size=20_000)
    first = inputs[:, 0]
    assert chisquare(np.bincount(first[first < 9])[1:]).pvalue > 1e-4
    assert chisquare(np.bincount(inputs[:, -1])[1:]).pvalue > 1e-4
    assert chisquare(np.bincount(targets[:, -1])[9:]).pvalue > 1e-4


def test_the_query_is_uniform_among_the_keys_that_occurred():
    task = tasks.create("noisy_recall", keys=3, noise=0.0)
    inputs = task.batch(stage=8, size=30_000).inputs
    keys, asked = inputs[:, 0:6:2], inputs[:, -1]
    # One key twice and another once: both are asked as often.
    pattern = (keys[:, 0] == keys[:, 1]) & (keys[:, 1] != keys[:, 2])
    often = (asked == keys[:, 0])[pattern]
    assert abs(often.mean() - 0.5) < 5 * 0.5 / often.size**0.5


@pytest.mark.parametrize(
    ("knobs", "stage"),
    [
        ({}, 32),
        ({}, 128),
        ({}, 4),
        ({"noise": 0.8}, 18),
        ({"keys": 5, "values": 17, "noise": 0.0}, 8),
    ],
)
def test_shortcuts_score_their_floors(knobs, stage):
    task, size = tasks.create("noisy_recall", **knobs), 6000
    inputs, targets, _ = task.batch(stage=stage, size=size)
    answers, right = targets[:, -1], {}
    first_value = 1 + task.keys
    for row, tokens in enumerate(inputs):
        keys, values = tokens[0:-2:2], tokens[1:-2:2]
        memory = {k: v for k, v in zip(keys, values, strict=True) if 1 <= k <= task.keys}
        held = [memory[k] for k in sorted(memory)]
        guesses = {
            "uniform": first_value + 5 * row % task.values,
            "majority": first_value,
            "context_value": held[row % len(held)],
            "most_frequent_value": max(held, key=held.count),
        }
        for name, guess in guesses.items():
            right[name] = right.get(name, 0) + (guess == answers[row]) / size
    floors = task.floors(stage)
    assert set(floors) == set(right)
    for name, share in right.items():
        assert abs(share - floors[name]) < 5 * 0.5 / size**0.5, name


def test_position_floors_stand_where_labels_can_be():
    for supervision in ("every", "final"):
        task = tasks.create("noisy_recall", supervision=supervision)
        mask = task.batch(stage=32, size=2000).mask
        np.testing.assert_array_equal(~np.isnan(task.position_floors(32)), mask.any(axis=0))


def test_contract():
    task = tasks.create("noisy_recall")
    assert (task.keys, task.values, task.noise_tokens, task.noise) == (8, 8, 16, 0.2)
    assert task.vocab_size == 33
    assert task.stages == (32, 64, 128, 256, 512, 1024)
    assert task.instance_count(32) == 8**8


def test_too_few_tables_are_refused():
    with pytest.raises(ValueError, match=r"size: 9 is not allowed \(must be <= "):
        tasks.create("noisy_recall", keys=2, values=3).batch(stage=20, split="eval", size=9)


@pytest.mark.parametrize(
    ("knobs", "stage", "message"),
    [
        ({}, 33, r"stage: 33 is not allowed \(must be an even sequence length in 4 .. 65536 for"),
        ({"noise": 1.0}, 32, "noise: 1.0 is not allowed .must be at least 0 and below 1"),
        ({"noise": float("nan")}, 32, "noise: nan is not allowed"),
        ({"keys": 1}, 32, "keys: 1 is not allowed .must be in 2 .. 4096"),
        ({"values": 5000}, 32, "values: 5000 is not allowed .must be in 2 .. 4096"),
        ({"noise_tokens": 0}, 32, "noise_tokens: 0 is not allowed .must be in 1 .. 4096"),
    ],
)
def test_impossible_sizes_are_refused(knobs, stage, message):
    with pytest.raises(ValueError, match=message):
        tasks.create("noisy_recall", **knobs).batch(stage=stage, size=1)
