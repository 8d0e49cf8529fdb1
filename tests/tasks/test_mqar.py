import numpy as np
import pytest
from scipy.stats import chisquare, spearmanr

import tasks


def label(task, stage, prefix):
    """The label after a prefix: look the last token up among the pairs before it."""
    if len(prefix) <= 2 * stage or prefix[-1] == 0:
        return -100
    memory = dict(zip(prefix[0 : 2 * stage : 2], prefix[1 : 2 * stage : 2], strict=True))
    return memory[prefix[-1]]


def check_labels(task, stage, size=3):
    inputs, targets, mask = task.batch(stage=stage, split="eval", size=size)
    assert inputs.shape[1] == task.sequence_length(stage)
    for row, labels in zip(inputs.tolist(), targets.tolist(), strict=True):
        assert labels == [label(task, stage, row[: t + 1]) for t in range(len(row))]
    np.testing.assert_array_equal(mask, targets >= 0)
    return inputs, targets, mask


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("length", [None, 1100])
@pytest.mark.parametrize("stage", [3, *tasks.create("mqar").stages])
def test_labels_equal_looking_up_the_last_value(stage, length, overwrite):
    task = tasks.create("mqar", length=length, overwrite=overwrite)
    inputs, _, mask = check_labels(task, stage)
    keys, values = inputs[:, 0 : 2 * stage : 2], inputs[:, 1 : 2 * stage : 2]
    assert keys.min() >= 1
    assert keys.max() < 4096 <= values.min()
    assert values.max() < 8192
    live = (stage + 1) // 2 if overwrite else stage
    for row in range(len(inputs)):
        assert len(set(values[row])) == stage
        assert len(set(keys[row])) == live
        # Every live key is asked exactly once, and nothing else stands after the context.
        asked = inputs[row, 2 * stage :]
        assert sorted(asked[asked != 0]) == sorted(set(keys[row]))
        assert (inputs[row][mask[row]] != 0).all()
        assert (np.flatnonzero(mask[row]) % 2 == 0).all()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("vocab", [8, 16])
def test_small_vocabularies_are_listed_and_labelled(vocab, overwrite):
    task = tasks.create("mqar", vocab=vocab, overwrite=overwrite)
    for stage in (1, 2):
        codes = task._at(np.arange(task.instance_count(stage)), stage)
        assert len(np.unique(codes, axis=0)) == task.instance_count(stage)
    check_labels(task, 2, size=3)
    assert task.split_count(2, "eval") > 0


def test_counts_are_exact():
    assert tasks.create("mqar", vocab=8).instance_count(2) == (3 * 2) * (4 * 3)
    assert tasks.create("mqar", vocab=8, overwrite=True).instance_count(3) == (3 * 2) * 2 * 24
    assert tasks.create("mqar").instance_count(2) == 4095 * 4094 * 4096 * 4095


def asked_places(task, stage, size):
    """For every example, at which offset after the context each key of the context is asked."""
    inputs = task.batch(stage=stage, size=size).inputs
    keys = inputs[:, 0 : 2 * stage : 2]
    region = inputs[:, 2 * stage :]
    return np.argmax(region[:, None, :] == keys[:, :, None], axis=2)


@pytest.mark.parametrize(("length", "stage"), [(None, 64), (256, 16), (64, 4), (512, 64)])
def test_query_order_does_not_leak_key_order(length, stage):
    offsets = asked_places(tasks.create("mqar", length=length), stage, 1500)
    order = np.tile(np.arange(stage), (1500, 1))
    # Rows are independent; within a row the ranks are a permutation.
    correlation = np.mean([spearmanr(a, b)[0] for a, b in zip(order, offsets, strict=True)])
    deviation = 1 / ((stage - 1) * 1500) ** 0.5
    assert abs(correlation) < 4 * deviation
    means = offsets.mean(axis=0)
    spread = offsets.std() / 1500**0.5
    assert abs(means[0] - means[-1]) < 6 * spread


def test_gaps_follow_the_power_law():
    length, stage, size = 64, 4, 20_000
    room = (length - 2 * stage) // 2
    offsets = asked_places(tasks.create("mqar", length=length), stage, size)
    assert (offsets % 2 == 0).all()
    used = np.bincount(offsets.ravel() // 2, minlength=room) / size
    weights = np.arange(1, room + 1) ** -0.99
    rng = np.random.default_rng(0)
    naive = np.zeros(room)
    for _ in range(size):
        naive[rng.choice(room, stage, replace=False, p=weights / weights.sum())] += 1 / size
    np.testing.assert_allclose(used, naive, atol=6 * (2 * 0.25 / size) ** 0.5)
    assert used[0] > 4 * used[10]


def test_keys_values_and_answers_are_uniform():
    task = tasks.create("mqar", vocab=64)
    inputs, targets, mask = task.batch(stage=8, size=20_000)
    for column, answers in ((inputs[:, 0] - 1, 31), (inputs[:, 1] - 32, 32)):
        assert chisquare(np.bincount(column, minlength=answers)).pvalue > 1e-4
    first = targets[np.arange(len(mask)), np.argmax(mask, axis=1)]
    assert chisquare(np.bincount(first)[32:]).pvalue > 1e-4
    assert task.floors(8)["majority"] == 1 / 32
    floors = task.position_floors(8)
    assert np.flatnonzero(~np.isnan(floors)).tolist() == list(range(16, 32, 2))


@pytest.mark.parametrize("stage", [7, 16])
@pytest.mark.parametrize("overwrite", [False, True])
def test_shortcuts_score_their_floors(stage, overwrite):
    task, size = tasks.create("mqar", overwrite=overwrite), 4000
    batch = task.batch(stage=stage, size=size)
    live = task.num_keys(stage)
    rows, places = np.nonzero(batch.mask)
    np.testing.assert_array_equal(task.scored(batch), batch.mask)
    keys, values = batch.inputs[:, 0 : 2 * stage : 2], batch.inputs[:, 1 : 2 * stage : 2]
    answers, asked = batch.targets[rows, places], batch.inputs[rows, places]
    pick = (7 * rows + 3 * places + rows * rows) % stage
    guesses = {"context_value": values[rows, pick]}
    if overwrite:
        guesses["last_value"] = values[rows, -1]
        guesses["first_value"] = values[rows, np.argmax(keys[rows] == asked[:, None], axis=1)]
    floors = task.floors(stage)
    assert set(floors) == {"uniform", "majority", *guesses}
    for name, guess in guesses.items():
        # Answers of one example are dependent: examples, not queries, are counted.
        right = (guess == answers).reshape(size, live).mean(axis=1)
        assert abs(right.mean() - floors[name]) < 5 * max(right.std(), 0.01) / size**0.5, name


def test_contract():
    task = tasks.create("mqar")
    assert (task.length, task.vocab, task.overwrite) == (None, 8192, False)
    assert task.vocab_size == 8192
    assert task.sequence_length(64) == 256
    assert tasks.create("mqar", length=512).sequence_length(64) == 512
    assert tasks.create("mqar", length=64).stages == (1, 2, 4, 8, 16)


def test_the_context_of_a_batch_does_not_depend_on_the_length():
    short, long = tasks.create("mqar"), tasks.create("mqar", length=300)
    same = [task.batch(stage=16, split="test", size=20).inputs[:, :32] for task in (short, long)]
    np.testing.assert_array_equal(*same)


@pytest.mark.parametrize(
    ("knobs", "stage", "allowed"),
    [
        ({"length": 64}, 17, "in 1 .. 16"),
        ({"vocab": 16}, 8, "in 1 .. 7"),
        ({"vocab": 16, "overwrite": True}, 9, "in 1 .. 8"),
        ({}, 4096, "in 1 .. 4095"),
    ],
)
def test_impossible_sizes_are_refused(knobs, stage, allowed):
    task = tasks.create("mqar", **knobs)
    message = f"stage: {stage} is not allowed .must be a number of pairs {allowed} for mqar"
    with pytest.raises(ValueError, match=message):
        task.batch(stage=stage, size=1)


@pytest.mark.parametrize("knobs", [{"vocab": 9}, {"vocab": 2}, {"length": 3}, {"length": 70_000}])
def test_knobs_have_ranges(knobs):
    (name,) = knobs
    with pytest.raises(ValueError, match=f"{name}: {knobs[name]} is not allowed"):
        tasks.create("mqar", **knobs)
