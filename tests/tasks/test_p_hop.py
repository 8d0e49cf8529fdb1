import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import tasks
from tasks.streams import Stream
from tests.tasks.oracles import hopped, labels_of

STAGES = tasks.create("p_hop").stages


def check_labels(task, stage, size=2):
    inputs, targets, mask = task.batch(stage=stage, size=size)
    for row, labels in zip(inputs.tolist(), targets.tolist(), strict=True):
        first, *string = task.decode(row)
        assert first == f"HOPS{stage}"
        assert all(a != b for a, b in itertools.pairwise(string))
        assert task.decode(labels) == labels_of(row, task)
    np.testing.assert_array_equal(mask, targets >= 0)


@pytest.mark.parametrize("stage", [3, *STAGES, 32])
def test_labels_equal_hopping_by_name_at_every_stage(stage):
    check_labels(tasks.create("p_hop"), stage)


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 61), st.integers(3, 26), st.integers(1, 19))
def test_labels_at_odd_sizes(length, letters, hops):
    task = tasks.create("p_hop", length=length, letters=letters, max_hops=19)
    check_labels(task, hops, size=3)


def shortcut_answers(task, inputs):
    """The answers of hopping less often than asked, and of a constant."""
    strings = [task.decode(row)[1:] for row in inputs]
    hops = int(inputs[0, 0]) - task.letters
    guesses = {"no_hop": 0}
    if hops > 1:
        guesses["one_hop"] = 1
    if hops > 3:
        guesses["two_hops_short"] = hops - 2
    names = task.token_names
    answers = {
        name: np.array([names.index(hopped(string, taken)) for string in strings])
        for name, taken in guesses.items()
    }
    size = len(inputs)
    other = (inputs[:, -1] - 1 + 1 + np.arange(size) % (task.letters - 1)) % task.letters + 1
    return {
        **answers,
        "another_letter": other,
        "uniform": np.arange(size) * 7 % (task.letters + 1),
    }


@pytest.mark.parametrize(
    ("knobs", "stage"),
    [({}, stage) for stage in STAGES]
    + [
        ({}, 32),
        ({"length": 17}, 3),
        ({"length": 17}, 7),
        ({"length": 9, "letters": 3}, 4),
        ({"length": 40, "letters": 7}, 5),
    ],
)
def test_shortcuts_score_their_floors(knobs, stage):
    task, size = tasks.create("p_hop", **knobs), 8000
    inputs, targets, _ = task.batch(stage=stage, size=size)
    answer, floors = targets[:, -1], task.floors(stage)
    answers = shortcut_answers(task, inputs)
    assert set(floors) == {"majority", *answers}
    for name, guess in answers.items():
        assert abs((guess == answer).mean() - floors[name]) < 5 * 0.5 / size**0.5, name
    counts = np.bincount(answer, minlength=task.letters + 1)
    assert abs(counts.max() / size - floors["majority"]) < 5 * 0.5 / size**0.5


def test_chances_equal_exhaustive_enumeration():
    task = tasks.create("p_hop", length=9, letters=3, max_hops=5)
    codes = task._at(np.arange(task.instance_count(1)), 1)
    for stage in (1, 2, 3, 4, 5):
        _, targets = task._render(codes, stage, Stream("unused"))
        for position in range(1, 9):
            counts = np.bincount(targets[:, position], minlength=4)
            chance = counts.max() / len(codes)
            assert task.position_floors(stage)[position] == pytest.approx(chance)
        strings = codes_to_strings(codes)
        floors = task.floors(stage)
        for name, taken in (("no_hop", 0), ("one_hop", 1), ("two_hops_short", stage - 2)):
            if name in floors:
                right = [hopped(s, taken) == hopped(s, stage) for s in strings]
                assert floors[name] == pytest.approx(np.mean(right)), (stage, name)


def codes_to_strings(codes):
    """The strings of codes over three letters."""
    letters = np.cumsum(codes.astype(int) + 1, axis=1) - 1
    return ["".join("abc"[i % 3] for i in row) for row in letters]


def test_letters_are_uniform_and_evaluation_rows_are_distinct():
    task = tasks.create("p_hop")
    inputs = task.batch(stage=4, split="eval", size=5000).inputs
    assert len(np.unique(inputs, axis=0)) == 5000
    for position in (1, 2, 50, 99):
        assert chisquare(np.bincount(inputs[:, position])[1:5]).pvalue > 1e-4
    pairs = np.bincount(5 * inputs[:, 30] + inputs[:, 31])
    assert np.count_nonzero(pairs) == 12
    assert chisquare(pairs[pairs > 0]).pvalue > 1e-4


def test_contract():
    task = tasks.create("p_hop")
    assert (task.length, task.letters, task.max_hops) == (100, 4, 32)
    assert task.stages == (1, 2, 4, 8, 16)
    assert tasks.create("p_hop", length=256).stages == (1, 2, 4, 8, 16, 32)
    assert tasks.create("p_hop", length=4, letters=26).stages == (1,)
    assert task.vocab_size == 37
    assert task.instance_count(1) == 4 * 3**98


def test_more_hops_than_tokens_are_refused():
    message = r"stage: 33 is not allowed \(must be a number of hops in 1 .. 32 for p_hop"
    with pytest.raises(ValueError, match=message):
        tasks.create("p_hop").batch(stage=33, size=1)


@pytest.mark.parametrize(
    "knobs", [{"length": 3}, {"length": 4097}, {"letters": 2}, {"letters": 27}, {"max_hops": 0}]
)
def test_knobs_have_ranges(knobs):
    ((name, value),) = knobs.items()
    with pytest.raises(ValueError, match=f"{name}: {value} is not allowed .must be in "):
        tasks.create("p_hop", **knobs)
