import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import tasks
from tests.tasks.oracles import followed, labels_of

ORDERS = ("forward", "shuffled")


def check_labels(task, stage, size=2):
    inputs, targets, mask = task.batch(stage=stage, size=size)
    assert inputs.shape == (size, task.sequence_length(stage))
    for row, labels in zip(inputs, targets, strict=True):
        names = task.decode(row)
        assert task.decode(labels) == labels_of(row, task)
        assert followed(names)[1] == stage
        made, sources = names[0:-2:2], names[1:-2:2]
        assert len(set(made)) == len(made) == task.chains * (stage + 1)
        assert len(set(sources)) == len(sources)
        assert sum(source[0] == "v" for source in sources) == task.chains
        if task.order == "forward":
            known = set()
            for target, source in zip(made, sources, strict=True):
                assert source[0] == "v" or source in known
                known.add(target)
    np.testing.assert_array_equal(mask, targets >= 0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("stage", [3, 63, *tasks.create("multi_hop_variables").stages])
def test_labels_equal_looking_up_in_turn(stage, order):
    check_labels(tasks.create("multi_hop_variables", order=order), stage)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 16), st.integers(1, 9), st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_labels_at_odd_sizes(chains, hops, more, values, forward):
    task = tasks.create(
        "multi_hop_variables",
        chains=chains,
        variables=chains * (hops + 1) + more,
        values=chains + values,
        order=ORDERS[not forward],
    )
    check_labels(task, hops)


def test_order_changes_the_presentation_only():
    forward, shuffled = (tasks.create("multi_hop_variables", order=order) for order in ORDERS)
    wanted = {"stage": 4, "split": "test", "size": 50}
    np.testing.assert_array_equal(forward.instances(**wanted), shuffled.instances(**wanted))
    a, b = forward.batch(**wanted), shuffled.batch(**wanted)
    assert not np.array_equal(a.inputs, b.inputs)
    np.testing.assert_array_equal(np.sort(a.inputs, axis=1), np.sort(b.inputs, axis=1))


def pattern(task, row):
    """Which chain stands where, chains numbered by where they begin, as a tuple."""
    chain, seen = {}, []
    names = task.decode(row)
    for target, source in zip(names[0:-2:2], names[1:-2:2], strict=True):
        chain[target] = chain.get(source, len(set(chain.values())))
        seen.append(chain[target])
    return tuple(seen)


def test_every_interleaving_is_as_likely():
    task = tasks.create("multi_hop_variables", chains=2, variables=9)
    patterns = Counter(pattern(task, row) for row in task.batch(stage=2, size=8000).inputs)
    assert len(patterns) == 10  # six over three, chains alike
    assert chisquare(list(patterns.values())).pvalue > 1e-4


def test_shuffled_assignments_stand_anywhere():
    task = tasks.create("multi_hop_variables", chains=2, variables=9, order="shuffled")
    inputs = task.batch(stage=2, size=12_000).inputs
    values = [tuple(np.flatnonzero(row[1:-2:2] > 9)) for row in inputs]
    counts = Counter(values)
    assert len(counts) == 15
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_values_and_variables_are_uniform():
    inputs, targets, _ = tasks.create("multi_hop_variables").batch(stage=2, size=20_000)
    assert chisquare(np.bincount(targets[:, -1])[257:]).pvalue > 1e-4
    for column in (0, -1):
        assert chisquare(np.bincount(inputs[:, column])[1:]).pvalue > 1e-4


def best_by_place(chains, hops):
    """The floor by exhaustive enumeration of the interleavings."""
    word = [chain for chain in range(chains) for _ in range(hops + 1)]
    patterns = set(itertools.permutations(word))
    places = {}
    for found in patterns:
        last = max(i for i, chain in enumerate(found) if chain == 0)
        rank = len(set(found[: found.index(0)]))
        places.setdefault(last, Counter())[rank] += 1
    return sum(max(ranks.values()) for ranks in places.values()) / len(patterns)


@pytest.mark.parametrize(("chains", "hops"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)])
def test_the_floor_by_place_equals_exhaustive_enumeration(chains, hops):
    task = tasks.create("multi_hop_variables", chains=chains)
    assert task.floors(hops)["place_of_last"] == pytest.approx(best_by_place(chains, hops))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("chains", "stage"), [(4, 1), (4, 8), (3, 5)])
def test_shortcuts_score_their_floors(order, chains, stage):
    task, size = tasks.create("multi_hop_variables", order=order, chains=chains), 5000
    inputs, targets, _ = task.batch(stage=stage, size=size)
    answers, rows = targets[:, -1], np.arange(size)
    sources, made = inputs[:, 1:-2:2], inputs[:, 0:-2:2]
    values = sources[sources > task.variables].reshape(size, chains)
    guesses = {
        "uniform": 1 + task.variables + rows * 7 % task.values,
        "majority": np.full(size, 1 + task.variables),
        "any_chain": values[rows, rows % chains],
    }
    if order == "forward":
        # The best rank for each place, found by counting.
        last = np.argmax(made == inputs[:, -1:], axis=1)
        rank = np.argmax(values == answers[:, None], axis=1)
        best = {place: np.bincount(rank[last == place]).argmax() for place in set(last.tolist())}
        guesses["place_of_last"] = values[rows, [best[place] for place in last.tolist()]]
    floors = task.floors(stage)
    assert set(floors) == set(guesses)
    for name, guess in guesses.items():
        slack = 0.02 if name == "place_of_last" else 0  # counting fits the noise a little
        assert abs((guess == answers).mean() - floors[name]) < 5 * 0.5 / size**0.5 + slack, name


def test_contract():
    task = tasks.create("multi_hop_variables")
    assert (task.chains, task.variables, task.values, task.order) == (4, 256, 64, "forward")
    assert task.stages == (1, 2, 4, 8, 16, 32)
    assert task.sequence_length(4) == 42
    assert task.vocab_size == 321
    small = tasks.create("multi_hop_variables", chains=2, variables=5, values=3)
    assert small.instance_count(1) == 5 * 4 * 3 * 2 * 3 * 2 * 2
    codes = small._at(np.arange(small.instance_count(1)), 1)
    assert len(np.unique(codes, axis=0)) == len(codes)


@pytest.mark.parametrize(
    ("knobs", "stage", "message"),
    [
        ({}, 64, r"stage: 64 is not allowed \(must be a number of hops in 1 .. 63 for"),
        ({"chains": 1}, 1, r"chains: 1 is not allowed \(must be in 2 .. 16"),
        ({"variables": 7}, 1, r"variables: 7 is not allowed \(must be in 8 .. 1024"),
        ({"values": 3}, 1, r"values: 3 is not allowed \(must be in 4 .. 4096"),
        ({"order": "back"}, 1, "order: 'back' is not allowed"),
    ],
)
def test_impossible_sizes_are_refused(knobs, stage, message):
    with pytest.raises(ValueError, match=message):
        tasks.create("multi_hop_variables", **knobs).batch(stage=stage, size=1)
