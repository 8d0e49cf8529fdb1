"""Listed spaces and their splits: counts, refusals, uniform draws."""

import math

import numpy as np
import pytest

import tasks


@pytest.mark.parametrize("split", ["eval", "test"])
def test_small_splits_say_how_many_instances_they_hold(split):
    task = tasks.create("parity")
    held = task.split_count(8, split)
    assert 10 < held < 45
    whole = task.batch(stage=8, split=split, size=held)
    assert len(np.unique(whole.inputs, axis=0)) == held
    message = (
        rf"size: {held + 1} is not allowed \(must be <= {held}: the {split} split of parity at"
    )
    with pytest.raises(ValueError, match=message):
        task.batch(stage=8, split=split, size=held + 1)
    assert len(task.batch(stage=8, split="train", size=5000).inputs) == 5000


def test_counts_add_up_where_the_space_is_listed():
    task = tasks.create("group_word", group="S3")
    counts = [task.split_count(6, split) for split in ("train", "eval", "test")]
    assert sum(counts) == task.instance_count(6) == 6**6
    for count, share in zip(counts, (0.8, 0.1, 0.1), strict=True):
        deviation = math.sqrt(share * (1 - share) * 6**6)
        assert abs(count - share * 6**6) < 5 * deviation
    assert task.split_count(32, "train") is None


def test_a_request_near_the_size_of_a_larger_space_is_met_or_refused(monkeypatch):
    monkeypatch.setattr("tasks.instances.ENUMERABLE", 0)
    task = tasks.create("parity")
    with pytest.raises(ValueError, match=r"size: 60 is not allowed .must be <= "):
        task.batch(stage=8, split="eval", size=60)
    assert len(task.batch(stage=8, split="train", size=60).inputs) == 60


def test_train_draws_uniformly_from_its_split():
    task = tasks.create("parity")
    codes = task.instances(stage=4, split="train", size=20_000)
    counts = np.unique(codes, axis=0, return_counts=True)[1]
    held = task.split_count(4, "train")
    assert counts.size == held
    assert abs(counts - 20_000 / held).max() < 5 * (20_000 / held) ** 0.5
