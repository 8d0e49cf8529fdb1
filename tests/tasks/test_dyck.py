import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import tasks
from tasks.streams import Stream
from tests.tasks.oracles import labels_of, read_brackets

STAGES = tasks.create("dyck").stages
QUESTIONS = ("closing", "valid")


def check_labels(task, stage, size=3):
    inputs, targets, mask = task.batch(stage=stage, size=size)
    assert inputs.shape == (size, stage)
    assert mask.all()
    for row, labels in zip(inputs, targets, strict=True):
        names = task.decode(row)
        assert task.decode(labels) == labels_of(row, task)
        heights = np.cumsum([1 if name[0] == "(" else -1 for name in names])
        assert heights.min() >= 0
        assert heights.max() == task.depth
        left = task.num_open(stage)
        assert heights[-1] == left
        assert left - task.depth // 2 in (0, 1)
        last = task.depth - left
        assert heights[-last:].tolist() == list(range(task.depth - 1, left - 1, -1))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("stage", [12, 13, 45, *STAGES])
def test_labels_equal_a_stack_of_names(stage, question):
    check_labels(tasks.create("dyck", question=question), stage)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 128), st.integers(3, 17), st.integers(0, 40), st.sampled_from(QUESTIONS))
def test_labels_at_odd_sizes(types, depth, more, question):
    task = tasks.create("dyck", types=types, depth=depth, question=question)
    check_labels(task, task._least + more)


@pytest.mark.parametrize("stage", [513, 514, 515])
def test_one_of_256_closing_brackets_is_spoilt(stage):
    """Numbers of closing brackets below 256 fit in a byte, and the last number does not."""
    task = tasks.create("dyck", depth=3, question="valid")
    bad = task.token_names.index("BAD")
    _, targets, _ = task.batch(stage=stage, size=2048)
    assert not (targets[:, 0] == bad).any()
    check_labels(task, stage, size=64)


@pytest.mark.parametrize(("types", "depth", "stage"), [(2, 3, 7), (2, 3, 8), (3, 4, 8)])
@pytest.mark.parametrize("question", QUESTIONS)
def test_listed_words_are_all_words(types, depth, stage, question):
    task = tasks.create("dyck", types=types, depth=depth, question=question)
    count = task.instance_count(stage)
    codes = task._at(np.arange(count), stage)
    inputs, _ = task._render(codes, stage, Stream("unused"))
    words = {tuple(task.decode(row)) for row in inputs if read_brackets(task.decode(row))[0]}
    last = task.depth - task.num_open(stage)
    found = set()
    for word in itertools.product("ud", repeat=stage - last):
        heights = np.cumsum([1 if step == "u" else -1 for step in word])
        if heights.min() >= 0 and heights.max() <= depth and heights[-1] == depth:
            found.add((*word, *"d" * last))
    opened = stage - task._closings(stage)
    assert len(words) == len(found) * types**opened
    assert count == len(words) * (2 if question == "valid" else 1)
    assert len(np.unique(codes, axis=0)) == count


def test_drawn_and_listed_codes_agree():
    """Words of a drawn space are the codes that a listing would give."""
    for question in QUESTIONS:
        task = tasks.create("dyck", types=2, depth=3, question=question)
        listed = task._at(np.arange(task.instance_count(8)), 8)
        drawn = task._draw(Stream("draw"), 8, 40_000)
        assert drawn.dtype == listed.dtype
        found, counts = np.unique(drawn, axis=0, return_counts=True)
        np.testing.assert_array_equal(found, np.unique(listed, axis=0))
        assert chisquare(counts).pvalue > 1e-4


def test_half_of_the_words_are_spoilt_at_a_uniform_bracket():
    task = tasks.create("dyck", question="valid")
    inputs, targets, _ = task.batch(stage=32, size=20_000)
    bad = targets[:, -1] == task.vocab_size - 1
    assert abs(bad.mean() - 0.5) < 5 * 0.5 / 20_000**0.5
    where = np.argmax(targets[bad] == task.vocab_size - 1, axis=1)
    closing = inputs[bad] > task.types
    order = np.cumsum(closing, axis=1)[np.arange(bad.sum()), where]
    counts = np.bincount(order)[1:]
    assert counts.size == task._closings(32)
    assert chisquare(counts).pvalue > 1e-4


def near_answers(task, names):
    """The answer of somebody who sees the last sixteen tokens only; None for a guess."""
    depth = 0
    for name in reversed(names[-16:]):
        depth += 1 if name[0] == "(" else -1
        if depth == 1:
            return f"){name[1:]}"
    return None


def adjacent_answer(names):
    """BAD if a bracket is closed wrongly right after it was opened."""
    pairs = itertools.pairwise(names)
    wrong = any(a[0] == "(" and b[0] == ")" and a[1:] != b[1:] for a, b in pairs)
    return "BAD" if wrong else "OK"


@pytest.mark.parametrize(("knobs", "stage"), [({}, 32), ({}, 47), ({"types": 3, "depth": 3}, 64)])
def test_closing_shortcuts_score_their_floors(knobs, stage):
    task, size = tasks.create("dyck", **knobs), 6000
    inputs, targets, _ = task.batch(stage=stage, size=size)
    every, right = task.token_names, {"uniform": 0, "majority": 0, "last_sixteen": 0}
    for row in range(size):
        answer = every[targets[row, -1]]
        guess = f"){row % task.types}"
        near = near_answers(task, [every[token] for token in inputs[row]]) or guess
        right["uniform"] += answer == guess
        right["majority"] += answer == ")0"
        right["last_sixteen"] += answer == near
    floors = task.floors(stage)
    assert set(floors) == set(right)
    for name, count in right.items():
        assert abs(count / size - floors[name]) < 5 * 0.5 / size**0.5, name


@pytest.mark.parametrize(("knobs", "stage"), [({}, 16), ({}, 33), ({"types": 9, "depth": 3}, 64)])
def test_valid_shortcuts_score_their_floors(knobs, stage):
    task, size = tasks.create("dyck", question="valid", **knobs), 6000
    inputs, targets, _ = task.batch(stage=stage, size=size)
    every = task.token_names
    answers = [every[token] for token in targets[:, -1]]
    seen = [adjacent_answer([every[token] for token in row]) for row in inputs]
    share = np.mean([a == b for a, b in zip(answers, seen, strict=True)])
    floors = task.floors(stage)
    assert set(floors) == {"uniform", "majority", "adjacent_pairs"}
    assert abs(share - floors["adjacent_pairs"]) < 5 * 0.5 / size**0.5
    assert abs(answers.count("OK") / size - floors["majority"]) < 5 * 0.5 / size**0.5


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("stage", [12, 33])
def test_position_floors_equal_counting(question, stage):
    task, size = tasks.create("dyck", question=question), 20_000
    targets = task.batch(stage=stage, size=size).targets
    floors = task.position_floors(stage)
    for position in range(stage):
        largest = np.bincount(targets[:, position]).max() / size
        assert abs(largest - floors[position]) < 6 * 0.5 / size**0.5


def test_without_room_for_a_window_there_is_no_such_floor():
    assert "last_sixteen" not in tasks.create("dyck").floors(16)
    assert tasks.create("dyck", depth=32).floors(128)["last_sixteen"] == 0.25


def test_contract():
    task = tasks.create("dyck")
    assert (task.types, task.depth, task.question) == (4, 8, "closing")
    assert task.stages == (16, 32, 64, 128, 256, 512)
    assert task.vocab_size == 11
    assert (task.num_open(16), task.num_open(17)) == (4, 5)


@pytest.mark.parametrize(
    ("knobs", "stage", "message"),
    [
        ({}, 11, r"stage: 11 is not allowed \(must be a length in 12 .. 4096 for dyck"),
        ({"types": 1}, 16, r"types: 1 is not allowed \(must be in 2 .. 128"),
        ({"depth": 2}, 16, r"depth: 2 is not allowed \(must be in 3 .. 256"),
        ({"question": "open"}, 16, "question: 'open' is not allowed"),
    ],
)
def test_impossible_sizes_are_refused(knobs, stage, message):
    with pytest.raises(ValueError, match=message):
        tasks.create("dyck", **knobs).batch(stage=stage, size=1)
