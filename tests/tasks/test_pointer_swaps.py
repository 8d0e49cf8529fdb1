import numpy as np
import pytest
from scipy.stats import chisquare

import tasks
from tasks.streams import Stream


def label(task, prefix):
    """The label after a prefix: carry out its swaps by name, then look."""
    tokens = [task.token_names[token] for token in prefix]
    holds = {chr(ord("a") + i): str(i) for i in range(task.pointers)}
    steps = tokens[: tokens.index("QUERY")] if "QUERY" in tokens else tokens
    for x, y in zip(steps[0::2], steps[1::2], strict=False):
        assert x != y
        holds[x], holds[y] = holds[y], holds[x]
    if "QUERY" in tokens[:-1]:
        return task.token_names.index(holds[tokens[-1]], 1 + task.pointers)
    if task.supervision == "dense" and tokens[-1] != "QUERY" and len(tokens) % 2 == 0:
        return task.token_names.index(holds[tokens[-2]], 1 + task.pointers)
    return -100


@pytest.mark.parametrize("supervision", ["final", "dense"])
@pytest.mark.parametrize("pointers", [2, 5, 26])
@pytest.mark.parametrize("stage", [4, 10, *tasks.create("pointer_swaps").stages])
def test_labels_equal_swapping_by_name(supervision, pointers, stage):
    task = tasks.create("pointer_swaps", pointers=pointers, supervision=supervision)
    inputs, targets, mask = task.batch(stage=stage, size=2)
    for row, labels in zip(inputs, targets, strict=True):
        assert labels.tolist() == [label(task, row[: t + 1]) for t in range(stage)]
        assert (row == 0).sum() == 1
        assert row[-2] == 0
    np.testing.assert_array_equal(mask, targets >= 0)


def test_supervision_changes_labels_and_nothing_else():
    final, dense = (
        tasks.create("pointer_swaps", supervision=s).batch(stage=32, split="eval", size=50)
        for s in ("final", "dense")
    )
    np.testing.assert_array_equal(final.inputs, dense.inputs)
    np.testing.assert_array_equal(final.targets[:, -1], dense.targets[:, -1])
    scored = tasks.create("pointer_swaps", supervision="dense").scored(dense)
    np.testing.assert_array_equal(scored, final.mask)


def shortcut_accuracies(pointers, inputs, targets):
    answer, asked = targets[:, -1] - 1 - pointers, inputs[:, -1] - 1
    named = (inputs[:, :-2] == inputs[:, -1:]).any(axis=1)
    other = (asked + 1) % pointers
    at_home = np.where(named, other, asked) == answer
    return {
        "no_tracking": (asked == answer).mean(),
        # After a swap, staying at home or going elsewhere, whichever is better.
        "never_named": max(at_home.mean(), (asked == answer).mean()),
        "majority": np.bincount(answer).max() / len(answer),
        "uniform": ((asked * 7 + np.arange(len(answer))) % pointers == answer).mean(),
    }


@pytest.mark.parametrize("swap_count", [1, 2, 3])
@pytest.mark.parametrize("pointers", [2, 3, 5])
def test_shortcuts_score_their_floors_over_the_whole_space(swap_count, pointers):
    task, stage = tasks.create("pointer_swaps", pointers=pointers), 2 * swap_count + 2
    codes = task._at(np.arange(task.instance_count(stage)), stage)
    accuracies = shortcut_accuracies(pointers, *task._render(codes, stage, Stream("unused")))
    for name in ("no_tracking", "never_named", "majority"):
        assert task.floors(stage)[name] == pytest.approx(accuracies[name], abs=1e-12), name


@pytest.mark.parametrize("swap_count", [4, 7, 31])
def test_shortcuts_score_their_floors_on_drawn_batches(swap_count):
    task, stage, size = tasks.create("pointer_swaps"), 2 * swap_count + 2, 30_000
    batch = task.batch(stage=stage, size=size)
    floors = task.floors(stage)
    for name, accuracy in shortcut_accuracies(5, batch.inputs, batch.targets).items():
        assert abs(accuracy - floors[name]) < 5 * 0.5 / size**0.5, name


def test_answers_are_uniform():
    task = tasks.create("pointer_swaps")
    targets = task.batch(stage=16, size=20_000).targets[:, -1]
    assert chisquare(np.bincount(targets)[6:]).pvalue > 1e-4
    assert task.floors(16)["majority"] == 0.2
    dense = tasks.create("pointer_swaps", supervision="dense").position_floors(16)
    assert np.flatnonzero(~np.isnan(dense)).tolist() == [1, 3, 5, 7, 9, 11, 13, 15]


def test_contract():
    task = tasks.create("pointer_swaps")
    assert task.pointers == 5
    assert task.sequence_length(128) == 128
    assert task.num_swaps(128) == 63
    assert task.instance_count(6) == 20**2 * 5
    assert task.vocab_size == 11


def test_impossible_sizes_are_refused():
    task = tasks.create("pointer_swaps")
    message = r"stage: 15 is not allowed \(must be an even sequence length in 4 .. 16384 for"
    with pytest.raises(ValueError, match=message):
        task.batch(stage=15, size=1)
    with pytest.raises(ValueError, match=r"pointers: 27 is not allowed \(must be in 2 .. 26"):
        tasks.create("pointer_swaps", pointers=27)
