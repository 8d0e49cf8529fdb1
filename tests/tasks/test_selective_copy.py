import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import tasks
from tests.tasks.oracles import labels_of

STAGES = tasks.create("selective_copy").stages


def check_labels(task, stage, size=2):
    inputs, targets, mask = task.batch(stage=stage, size=size)
    assert inputs.shape == (size, stage)
    for row, labels in zip(inputs, targets, strict=True):
        names = task.decode(row)
        assert task.decode(labels) == labels_of(row, task)
        cue = names.index("COPY")
        assert sum(name != "." for name in names[:cue]) == task.symbols
        assert set(names[cue + 1 :]) == {"."}
        assert stage - cue - 1 == task.symbols
    np.testing.assert_array_equal(mask, targets >= 0)
    np.testing.assert_array_equal(mask, task.scored(task.batch(stage=stage, size=size)))


@pytest.mark.parametrize("stage", [33, 101, *STAGES])
def test_labels_equal_crossing_out_the_blanks(stage):
    check_labels(tasks.create("selective_copy"), stage)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 23), st.integers(4, 300), st.integers(0, 40))
def test_labels_at_odd_sizes(symbols, vocab, more):
    check_labels(
        tasks.create("selective_copy", symbols=symbols, vocab=vocab), 2 * symbols + 1 + more
    )


def test_every_choice_of_places_is_as_likely():
    task = tasks.create("selective_copy", symbols=2)
    inputs = task.batch(stage=8, size=20_000).inputs[:, :5]
    counts = np.unique(inputs > 0, axis=0, return_counts=True)[1]
    assert counts.size == 10
    assert chisquare(counts).pvalue > 1e-4


def test_symbols_are_uniform_and_independent_of_their_places():
    task = tasks.create("selective_copy", symbols=5, vocab=9)
    inputs, targets, _ = task.batch(stage=20, size=20_000)
    assert chisquare(np.bincount(targets[:, -1])[2:]).pvalue > 1e-4
    for place in (0, 7, 13):
        seen = inputs[:, place]
        assert chisquare(np.bincount(seen[seen > 0])[2:]).pvalue > 1e-4
    assert abs((inputs[:, 13] > 0).mean() - 5 / 14) < 5 * 0.5 / 20_000**0.5


@pytest.mark.parametrize(
    ("knobs", "stage"),
    [
        ({}, 64),
        ({}, 33),
        ({}, 256),
        ({"symbols": 3, "vocab": 30}, 16),
        ({"symbols": 1, "vocab": 9000}, 9),
    ],
)
def test_shortcuts_score_their_floors(knobs, stage):
    task, size = tasks.create("selective_copy", **knobs), 20_000
    inputs, targets, _ = task.batch(stage=stage, size=size)
    n, region, kinds = task.symbols, stage - 1 - task.symbols, task.vocab - 2
    answers, shown = targets[:, region + 1 :], inputs[:, :region]
    counts = (answers[:, :, None] == np.arange(kinds) + 2).sum(axis=1)
    frequent = np.repeat(counts.argmax(axis=1)[:, None] + 2, n, axis=1)
    guess = (np.arange(size)[:, None] * 5 + np.arange(n)) % kinds + 2
    # The best fixed place of each blank, found by counting.
    standing = np.sort(np.argsort(shown == 0, axis=1, kind="stable")[:, :n], axis=1)
    best = [np.bincount(standing[:, j], minlength=region).argmax() for j in range(n)]
    copied = shown[:, best]
    guesses = {
        "uniform": guess,
        "majority": np.full_like(guess, 2),
        "most_frequent_symbol": frequent,
        "fixed_places": np.where(copied == 0, guess, copied),
    }
    floors = task.floors(stage)
    assert set(floors) == set(guesses)
    for name, given_answers in guesses.items():
        right = (given_answers == answers).mean(axis=1)
        assert abs(right.mean() - floors[name]) < 5 * max(right.std(), 0.01) / size**0.5, name


def test_contract():
    task = tasks.create("selective_copy")
    assert (task.symbols, task.vocab) == (16, 16)
    assert task.stages == (64, 128, 256, 512, 1024)
    assert tasks.create("selective_copy", symbols=96).stages[0] == 512
    assert tasks.create("selective_copy", symbols=1024).stages[-1] <= 65536
    assert task.instance_count(64) == 14**16
    floors = task.position_floors(64)
    assert np.flatnonzero(~np.isnan(floors)).tolist() == list(range(48, 64))


def test_too_few_strings_are_refused():
    task = tasks.create("selective_copy", symbols=3, vocab=4)
    with pytest.raises(ValueError, match=r"size: 9 is not allowed \(must be <= "):
        task.batch(stage=20, split="eval", size=9)


@pytest.mark.parametrize(
    ("knobs", "stage", "message"),
    [
        ({}, 32, r"stage: 32 is not allowed \(must be a sequence length in 33 .. 65536 for"),
        ({"symbols": 0}, 9, "symbols: 0 is not allowed .must be in 1 .. 1024"),
        ({"vocab": 3}, 9, "vocab: 3 is not allowed .must be in 4 .. 65536"),
    ],
)
def test_impossible_sizes_are_refused(knobs, stage, message):
    with pytest.raises(ValueError, match=message):
        tasks.create("selective_copy", **knobs).batch(stage=stage, size=1)
