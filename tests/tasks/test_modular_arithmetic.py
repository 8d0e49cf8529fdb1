from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import tasks
from tasks import expressions
from tasks.streams import Stream
from tests.tasks.oracles import arithmetic_value, labels_of

FORMS = (False, True)


def check_labels(task, stage, size=3):
    inputs, targets, mask = task.batch(stage=stage, size=size)
    assert inputs.shape == (size, stage)
    for row, labels in zip(inputs, targets, strict=True):
        names = task.decode(row)
        assert task.decode(labels) == labels_of(row, task)
        signs = sum(name in "+-*" for name in names)
        assert names.count("(") == names.count(")") == (signs if task.brackets else 0)
        assert set(names) & {"+", "-", "*"} <= set(task.operators)
    np.testing.assert_array_equal(mask, targets >= 0)


@pytest.mark.parametrize(
    ("brackets", "stage"),
    [
        (brackets, stage)
        for brackets in FORMS
        for stage in (6, 22, *tasks.create("modular_arithmetic", brackets=brackets).stages)
    ],
)
def test_labels_equal_evaluating_the_text(brackets, stage):
    check_labels(tasks.create("modular_arithmetic", brackets=brackets), stage)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 32), st.booleans(), st.booleans(), st.integers(1, 40))
def test_labels_at_odd_sizes(modulus, brackets, times, operations):
    operators = "+-*" if times else "+-"
    task = tasks.create(
        "modular_arithmetic", modulus=modulus, brackets=brackets, operators=operators
    )
    check_labels(task, 4 * operations + 2 if brackets else 2 * operations + 2)


def test_table():
    for n in (2, 5, 32):
        table = expressions.table(n)
        for a in range(n):
            for b in range(n):
                assert table[:, a, b].tolist() == [(a + b) % n, (a - b) % n, a * b % n]


def listed(task, stage):
    """All instances of a stage, as texts and labels."""
    codes = task._at(np.arange(task.instance_count(stage)), stage)
    inputs, targets = task._render(codes, stage, Stream("unused"))
    every = task.token_names
    return [[every[token] for token in row] for row in inputs], targets[:, -1]


def right_part(names):
    """The text of the outermost operation's right part."""
    depth = 0
    for i, name in enumerate(names[:-1]):
        depth += {"(": 1, ")": -1}.get(name, 0)
        if depth == 1 and name in "+-*":
            return names[i + 1 : -2]
    raise AssertionError(names)


def left_to_right(names):
    """The value with all operators binding alike."""
    total = int(names[0])
    for sign, operand in zip(names[1:-2:2], names[2:-1:2], strict=True):
        number = int(operand)
        total = {"+": total + number, "-": total - number, "*": total * number}[sign]
    return total


@pytest.mark.parametrize(
    ("knobs", "stage"),
    [
        ({"modulus": 2}, 8),
        ({"modulus": 3}, 6),
        ({"modulus": 4}, 4),
        ({"modulus": 5}, 6),
        ({"modulus": 3, "operators": "+-"}, 8),
        ({"modulus": 2, "brackets": True}, 14),
        ({"modulus": 3, "brackets": True}, 10),
        ({"modulus": 4, "brackets": True}, 6),
        ({"modulus": 3, "brackets": True, "operators": "+-"}, 14),
    ],
)
def test_floors_equal_exhaustive_enumeration(knobs, stage):
    task = tasks.create("modular_arithmetic", **knobs)
    n = task.modulus
    texts, answers = listed(task, stage)
    assert len({tuple(text) for text in texts}) == len(texts) == task.instance_count(stage)
    guesses = {
        "last_operand": [int([t for t in text if t.isdigit()][-1]) for text in texts],
        "majority": [Counter(answers.tolist()).most_common(1)[0][0]] * len(texts),
    }
    if task.brackets:
        guesses["right_part"] = [arithmetic_value(right_part(text)) % n for text in texts]
    elif "*" in task.operators:
        guesses["left_to_right"] = [left_to_right(text) % n for text in texts]
    floors = task.floors(stage)
    assert floors.pop("uniform") == 1 / n
    assert set(floors) == set(guesses)
    for name, guess in guesses.items():
        assert floors[name] == pytest.approx(np.mean(guess == answers)), name


@pytest.mark.parametrize("brackets", FORMS)
@pytest.mark.parametrize("modulus", [5, 12])
def test_shortcuts_of_drawn_rows_score_their_floors(brackets, modulus):
    task, size = tasks.create("modular_arithmetic", brackets=brackets, modulus=modulus), 8000
    stage = 34 if brackets else 16
    inputs, targets, _ = task.batch(stage=stage, size=size)
    answers, floors = targets[:, -1], task.floors(stage)
    counts = np.bincount(answers, minlength=modulus) / size
    assert abs(counts[0] - floors["majority"]) < 5 * 0.5 / size**0.5
    tokens = inputs[:, ::-1]
    last = tokens[np.arange(size), np.argmax(tokens < modulus, axis=1)]
    assert abs((last == answers).mean() - floors["last_operand"]) < 5 * 0.5 / size**0.5


def test_every_tree_is_as_likely():
    task = tasks.create("modular_arithmetic", brackets=True)
    inputs = task.batch(stage=18, size=20_000).inputs
    kinds = np.where(inputs < 5, 0, np.where(inputs < 8, 1, inputs))
    counts = np.unique(kinds, axis=0, return_counts=True)[1]
    assert counts.size == 14
    assert chisquare(counts).pvalue > 1e-4
    for first, end in ((0, 5), (5, 8)):
        drawn = inputs[(inputs >= first) & (inputs < end)]
        assert chisquare(np.bincount(drawn, minlength=end)[first:end]).pvalue > 1e-4


def test_contract():
    row, tree = (tasks.create("modular_arithmetic", brackets=brackets) for brackets in FORMS)
    assert (row.modulus, row.brackets, row.operators) == (5, False, "+-*")
    assert row.stages == (16, 32, 64, 128, 256)
    assert tree.stages == (18, 34, 66, 130, 258)
    assert row.vocab_size == tree.vocab_size == 11
    assert row.instance_count(16) == 5**8 * 3**7
    assert tree.instance_count(18) == 14 * 5**5 * 3**4
    plain = tasks.create("modular_arithmetic", operators="+-")
    assert set(plain.floors(16)) == {"uniform", "majority", "last_operand"}
    assert max(plain.floors(16).values()) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("knobs", "stage", "message"),
    [
        ({}, 15, r"stage: 15 is not allowed \(must be an even sequence length in 4 .. 4096 for"),
        ({"brackets": True}, 16, r"stage: 16 is not allowed \(must be a sequence length 4m \+ 2"),
        ({"brackets": True}, 1030, r"stage: 1030 is not allowed .* m in 1 .. 256"),
        ({"modulus": 33}, 16, r"modulus: 33 is not allowed \(must be in 2 .. 32"),
        ({"operators": "*"}, 16, r"operators: '\*' is not allowed"),
    ],
)
def test_impossible_sizes_are_refused(knobs, stage, message):
    with pytest.raises(ValueError, match=message):
        tasks.create("modular_arithmetic", **knobs).batch(stage=stage, size=1)
