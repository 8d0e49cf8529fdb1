import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import tasks
from tests.tasks.oracles import WIDTHS, labels_of, needles_of

KINDS = ("word", "number", "hex")


def check_labels(task, stage, size=2):
    inputs, targets, mask = task.batch(stage=stage, size=size)
    assert inputs.shape == (size, stage)
    for row, labels in zip(inputs, targets, strict=True):
        names = task.decode(row)
        assert task.decode(labels) == labels_of(row, task)
        found = needles_of(names, task)
        assert len(dict(found)) == len(found) == task.needles
        hay = names[: names.index("QUERY")]
        filler = sum(name[0] == "~" for name in hay)
        assert len(hay) - filler == task.needles * (2 + WIDTHS[task.key] + WIDTHS[task.value])
        for (*key, _), _ in found:
            assert all(name[0] == "w" for name in key) == (task.key == "word" or not key)
    np.testing.assert_array_equal(mask, targets >= 0)


@pytest.mark.parametrize(("key", "value"), list(itertools.product(KINDS, KINDS)))
@pytest.mark.parametrize("needles", [1, 3])
def test_labels_equal_looking_up_the_key(needles, key, value):
    task = tasks.create("needle", needles=needles, key=key, value=value)
    for stage in (task._least, task._least + 13, *task.stages[:3]):
        check_labels(task, stage)


@pytest.mark.parametrize("haystack", ["random", "repeated"])
@pytest.mark.parametrize("stage", tasks.create("needle").stages)
def test_labels_at_every_stage(stage, haystack):
    check_labels(tasks.create("needle", haystack=haystack), stage)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 32), st.sampled_from(KINDS), st.sampled_from(KINDS), st.integers(0, 50))
def test_labels_at_odd_sizes(needles, key, value, more):
    task = tasks.create("needle", needles=needles, key=key, value=value)
    check_labels(task, task._least + more)


def test_filler():
    random = tasks.create("needle").batch(stage=64, size=20_000).inputs
    assert chisquare(np.bincount(random[random >= 276])[276:]).pvalue > 1e-4
    repeated = tasks.create("needle", haystack="repeated").batch(stage=64, size=20).inputs
    for row in repeated:
        places = np.flatnonzero(row >= 276)
        np.testing.assert_array_equal(row[places] - 276, places % 16)
    # The haystack is no part of the instance.
    same = tasks.create("needle").batch(stage=64, size=20)
    np.testing.assert_array_equal(same.targets[:, -7:], repeated_targets())


def repeated_targets():
    return tasks.create("needle", haystack="repeated").batch(stage=64, size=20).targets[:, -7:]


def test_depths_keys_and_values_are_uniform():
    task = tasks.create("needle", needles=2, key="number", value="hex")
    inputs, targets, _ = task.batch(stage=80, size=20_000)
    rows, places = np.nonzero(inputs == 1)
    first, second = places[0::2], places[1::2]
    assert (rows[0::2] == rows[1::2]).all()
    room = int(first.max()) + 1
    # The two places, less the first needle, are the smaller and the larger of two uniform ones.
    pairs = np.bincount(first * room + second - 17, minlength=room * room).reshape(room, room)
    assert (np.tril(pairs, -1) == 0).all()
    expected = np.triu(np.full((room, room), 2.0), 1) + np.eye(room)
    upper = expected > 0
    chance = expected[upper] / expected.sum()
    assert chisquare(pairs[upper], chance * 20_000).pvalue > 1e-4
    for column in (-8, -1):
        assert chisquare(np.bincount(targets[:, column])[4:]).pvalue > 1e-4
    asked = inputs[:, -15:-8] == inputs[np.arange(20_000)[:, None], first[:, None] + range(1, 8)]
    assert abs(asked.all(axis=1).mean() - 0.5) < 5 * 0.5 / 20_000**0.5


@pytest.mark.parametrize(
    "knobs",
    [{}, {"needles": 4}, {"needles": 3, "value": "word"}, {"value": "hex"}, {"value": "word"}],
)
def test_shortcuts_score_their_floors(knobs):
    task, size = tasks.create("needle", **knobs), 4000
    stage = task.stages[0]
    inputs, targets, mask = task.batch(stage=stage, size=size)
    np.testing.assert_array_equal(task.scored(task.batch(stage=stage, size=size)), mask)
    width, right = WIDTHS[task.value], {}
    symbols = {"word": range(20, 276), "number": range(4, 14), "hex": range(4, 20)}[task.value]
    every_name = task.token_names
    names = [every_name[symbol] for symbol in symbols]
    for row in range(size):
        found = needles_of([every_name[token] for token in inputs[row]], task)
        answer = [every_name[token] for token in targets[row, -width:]]
        shown = [token for _, value in found for token in value]
        guesses = {
            "uniform": [names[(7 * row + j) % len(names)] for j in range(width)],
            "majority": names[:1] * width,
            "most_frequent_token": [max(sorted(set(shown)), key=shown.count)] * width,
            "any_needle": found[row % len(found)][1],
        }
        for name, guess in guesses.items():
            share = np.mean([a == b for a, b in zip(guess, answer, strict=True)])
            right.setdefault(name, []).append(share)
    floors = task.floors(stage)
    assert set(floors) <= set(right)
    assert ("any_needle" in floors) == (task.needles > 1)
    assert ("most_frequent_token" in floors) == (task.needles > 1 or width > 1)
    for name, accuracy in floors.items():
        spread = max(np.std(right[name]), 0.05)
        assert abs(np.mean(right[name]) - accuracy) < 5 * spread / size**0.5, name


def test_contract():
    task = tasks.create("needle")
    assert (task.needles, task.key, task.value, task.haystack) == (1, "word", "number", "random")
    assert task.stages == (64, 128, 256, 512, 1024, 2048, 4096)
    assert task.vocab_size == 340
    assert task.instance_count(64) == 256 * 10**7
    pair = tasks.create("needle", needles=2, key="hex", value="word")
    assert pair.instance_count(64) == 2**32 * (2**32 - 1) * 256**2 * 2
    floors = task.position_floors(64)
    assert np.flatnonzero(~np.isnan(floors)).tolist() == list(range(57, 64))


def test_impossible_sizes_are_refused():
    message = r"stage: 18 is not allowed \(must be a sequence length in 19 .. 65536 for needle"
    with pytest.raises(ValueError, match=message):
        tasks.create("needle").batch(stage=18, size=1)
    with pytest.raises(ValueError, match=r"needles: 33 is not allowed \(must be in 1 .. 32"):
        tasks.create("needle", needles=33)
    with pytest.raises(ValueError, match=r"value: 'uuid' is not allowed .choose from word, "):
        tasks.create("needle", value="uuid")
    with pytest.raises(ValueError, match=r"size: 20000 is not allowed \(must be <= "):
        tasks.create("needle", value="word").batch(stage=32, split="test", size=20_000)
