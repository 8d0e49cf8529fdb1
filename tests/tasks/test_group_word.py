import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

import tasks


def permutation(name):
    """Where an element in cycle notation sends each point that it moves; parts kept apart."""
    moved = {}
    for part, text in enumerate(name.split("x")):
        for cycle in text.strip("()").split(")("):
            points = [(part, p) for p in cycle.split()]
            moved.update(zip(points, points[1:] + points[:1], strict=True))
    return moved


def product_so_far(task, prefix):
    """Send every point through the named permutations, one token after the other."""
    names = task.token_names
    points = {point for name in names for point in permutation(name)}
    images = {}
    for point in points:
        image = point
        for token in prefix:
            image = permutation(names[token]).get(image, image)
        if image != point:
            images[point] = image
    return images


@pytest.mark.parametrize(
    ("knobs", "stages"),
    [
        ({"group": "S3"}, [1, 7, 8, 32]),
        ({}, [8, 16]),
        ({"group": "A4xZ5"}, [8, 17]),
        ({"group": "D5"}, [8, 16]),
        ({"group": "S5", "tokens": "transpositions"}, [8, 16]),
        ({"group": "S5", "tokens": "generators"}, [8, 16]),
        ({"group": "A4xZ5", "tokens": "generators"}, [16]),
    ],
)
def test_labels_equal_products_of_permutations(knobs, stages):
    task = tasks.create("group_word", **knobs)
    for stage in stages:
        inputs, targets, mask = task.batch(stage=stage, size=2)
        assert mask.all()
        for row, labels in zip(inputs, targets, strict=True):
            for t, label in enumerate(labels):
                assert permutation(task.token_names[label]) == product_so_far(task, row[: t + 1])


@pytest.mark.parametrize("stage", tasks.create("group_word").stages)
@pytest.mark.parametrize("tokens", ["all", "transpositions", "generators"])
def test_last_label_equals_the_product_at_every_stage(stage, tokens):
    task = tasks.create("group_word", tokens=tokens)
    inputs, targets, _ = task.batch(stage=stage, split="eval", size=2)
    for row, labels in zip(inputs, targets, strict=True):
        assert permutation(task.token_names[labels[-1]]) == product_so_far(task, row)


def test_contract():
    task = tasks.create("group_word")
    assert task.group == "S5"
    assert 128 in task.stages
    assert task.vocab_size == 120
    assert task.sequence_length(128) == 128
    assert task.instance_count(3) == 120**3
    assert task.token_names[0] == "()"


def test_transpositions_are_the_only_inputs():
    task = tasks.create("group_word", group="S4", tokens="transpositions")
    inputs = task.batch(stage=16, size=500).inputs
    names = {task.token_names[token] for token in np.unique(inputs)}
    assert names == {"(1 2)", "(1 3)", "(1 4)", "(2 3)", "(2 4)", "(3 4)"}
    assert chisquare(np.unique(inputs, return_counts=True)[1]).pvalue > 1e-4
    assert task.vocab_size == 24
    assert task.instance_count(2) == 36


@pytest.mark.parametrize(
    ("group", "letters"),
    [
        ("S5", ["()", "(1 2)", "(1 2 3 4 5)"]),
        ("S2", ["()", "(1 2)"]),
        ("A5", ["()", "(1 2 3)", "(1 2 3 4 5)"]),
        ("A4", ["()", "(1 2 3)", "(2 3 4)"]),
        ("A3", ["()", "(1 2 3)"]),
        ("Z4", ["()", "(1 2 3 4)"]),
        (
            "Z25",
            [
                "()",
                f"({' '.join(map(str, range(1, 26)))})",
                " ".join(
                    f"({' '.join(str(5 * i + j) for i in range(5))})" for j in range(1, 6)
                ).replace(") (", ")("),
            ],
        ),
        ("D4", ["()", "(1 4)(2 3)", "(1 2 3 4)"]),
        ("A4xZ5", ["()x()", "(1 2 3)x()", "(2 3 4)x()", "()x(1 2 3 4 5)"]),
    ],
)
def test_generators_and_the_identity_are_the_inputs_and_reach_every_element(group, letters):
    task = tasks.create("group_word", group=group, tokens="generators")
    batch = task.batch(stage=64, size=4000)
    seen, counts = np.unique(batch.inputs, return_counts=True)
    assert {task.token_names[token] for token in seen} == set(letters)
    assert chisquare(counts).pvalue > 1e-4
    assert task.alphabet_size == len(letters)
    assert np.unique(batch.targets).size == task.vocab_size


@pytest.mark.parametrize("group", ["S5", "A5", "Z60", "A4xZ5", "D5", "Z512"])
def test_short_words_over_generators_reach_every_element(group):
    task = tasks.create("group_word", group=group, tokens="generators")
    *_, chance = task._walk(46 if group == "Z512" else 16)
    assert (chance > 0).all()


def test_cyclic_groups_have_two_names_and_one_stream():
    one, other = (tasks.create("group_word", group=name) for name in ("C6", "Z6"))
    for a, b in zip(one.batch(stage=8, size=4), other.batch(stage=8, size=4), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("tokens", ["transpositions", "generators"])
@pytest.mark.parametrize("stage", [1, 2, 3, 16])
def test_majority_of_products_of_few_letters_is_measured(stage, tokens):
    task = tasks.create("group_word", group="S4", tokens=tokens)
    size = 40_000
    targets = task.batch(stage=32, size=size).targets[:, stage - 1]
    expected = task.floors(stage)["majority"]
    best = np.bincount(targets, minlength=24).max() / size
    # The measured best of several equally likely answers lies above the common probability.
    assert -3 < (best - expected) / (expected / size) ** 0.5 < 5
    assert task.position_floors(32)[stage - 1] == pytest.approx(expected)


def test_products_of_all_elements_are_uniform():
    task = tasks.create("group_word", group="S4")
    targets = task.batch(stage=8, size=40_000).targets
    for position in (0, 3, 7):
        assert chisquare(np.bincount(targets[:, position])).pvalue > 1e-4
    assert task.floors(8)["majority"] == 1 / 24


@pytest.mark.parametrize(("group", "floor"), [("S5", 1 / 60), ("A5", 1 / 60), ("A4xZ5", 1 / 4)])
def test_commutative_floor_is_one_over_the_commutators(group, floor):
    assert tasks.create("group_word", group=group).floors(8)["commutative"] == floor


def test_counting_signs_scores_the_commutative_floor():
    task = tasks.create("group_word", group="S3")
    size = 30_000
    inputs, targets, _ = task.batch(stage=16, size=size)
    odd = np.array([name.count(" ") % 2 for name in task.token_names])  # swaps of two points
    guess = np.where(odd[inputs].sum(axis=1) % 2, 1, 0)
    floor = task.floors(16)["commutative"]
    accuracy = (guess == targets[:, -1]).mean()
    assert abs(accuracy - floor) < 5 * (floor * (1 - floor) / size) ** 0.5


def test_floors_of_long_words_hold_one_distribution_at_a_time():
    task = tasks.create("group_word", group="S6", tokens="generators")
    task.floors(1)  # the group is built once
    tracemalloc.start()
    floors = task.floors(4000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4000 * task.vocab_size * 8 / 2
    assert floors["majority"] == pytest.approx(1 / 720)
    assert floors["commutative"] == pytest.approx(1 / 360)


@pytest.mark.parametrize("stage", [1, 3, 5])
@pytest.mark.parametrize("group", ["S3", "A4", "D4"])
def test_commutative_floor_of_few_letters_is_that_of_the_best_guess_by_class(group, stage):
    task = tasks.create("group_word", group=group, tokens="generators")
    letters, table = task._letters, task._group.cayley
    inverse = np.argmin(table, axis=1)
    everything = range(task.vocab_size)
    commutators = {table[table[inverse[a], inverse[b]], table[a, b]] for a in everything
                   for b in everything}  # fmt: skip
    counts = {}
    for word in itertools.product(letters, repeat=stage):
        product = 0
        for letter in word:
            product = table[product, letter]
        coset = frozenset(int(table[product, c]) for c in commutators)
        counts.setdefault(coset, Counter())[int(product)] += 1
    right = sum(max(counter.values()) for counter in counts.values())
    assert task.floors(stage)["commutative"] == pytest.approx(right / len(letters) ** stage)


@pytest.mark.parametrize("group", ["A5", "S2", "S3xZ2", "Z4"])
def test_only_symmetric_groups_have_transpositions(group):
    message = f"tokens: 'transpositions' is not allowed .must be 'all' for {group}"
    with pytest.raises(ValueError, match=message):
        tasks.create("group_word", group=group, tokens="transpositions")
