import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import tasks

# Every task, with the knobs that change what is shown, at a stage of its own.
CASES = [
    ("parity", {}, 16),
    ("modular_addition", {}, 16),
    ("group_word", {}, 16),
    ("group_word", {"group": "S4", "tokens": "transpositions"}, 16),
    ("group_word", {"group": "S5", "tokens": "generators"}, 16),
    ("pointer_swaps", {}, 16),
    ("pointer_swaps", {"supervision": "dense"}, 16),
    ("mqar", {}, 8),
    ("mqar", {"overwrite": True}, 8),
    ("distance_probe", {}, 32),
    ("state_based_recall", {}, 4),
    ("state_based_recall", {"supervision": "dense", "layout": "indexed"}, 4),
    ("state_based_recall", {"supervision": "all_pointers"}, 4),
    ("needle", {}, 64),
    ("needle", {"needles": 4, "key": "hex", "value": "word"}, 128),
    ("multi_hop_variables", {}, 1),
    ("multi_hop_variables", {"order": "shuffled"}, 4),
    ("dyck", {}, 16),
    ("dyck", {"question": "valid"}, 16),
    ("modular_arithmetic", {}, 16),
    ("modular_arithmetic", {"brackets": True}, 18),
]
# A new task is held to all of this as it is registered; knobs of its own are added above.
CASES += [
    (name, {}, tasks.create(name).stages[0])
    for name in tasks.catalogue()
    if name not in {name for name, _, _ in CASES}
]
IDS = ["-".join([name, *map(str, knobs.values())]) for name, knobs, _ in CASES]
every_case = pytest.mark.parametrize(("name", "knobs", "stage"), CASES, ids=IDS)

DIGESTS = """
import hashlib, sys, json, tasks
for name, knobs, stage in json.loads(sys.argv[1]):
    task = tasks.create(name, **knobs)
    digest = hashlib.sha256()
    for split, index in (("test", 4), ("train", 9), ("eval", 0)):
        batch = task.batch(stage=stage, split=split, seed=2, index=index, size=37)
        for array in batch:
            digest.update(array.tobytes())
    print(digest.hexdigest())
"""

# The data of version 1. A change here is a change of the data: raise the task's `version`.
GOLDEN = {
    "parity": (1, "d540fc75fc963667"),
    "modular_addition": (1, "431b8031b0ede51b"),
    "group_word": (1, "87377723120d8542"),
    "group_word-S4-transpositions": (1, "6d1665ed61b0e749"),
    "group_word-S5-generators": (1, "347cd31fc355e5f4"),
    "pointer_swaps": (1, "ac5729e95fc4ce06"),
    "pointer_swaps-dense": (1, "298d7f9b9c05d1c6"),
    "mqar": (1, "a0983fd9eef65fe6"),
    "mqar-True": (1, "5de7b4672c3c82d1"),
    "distance_probe": (1, "1afdf450365772ad"),
    "state_based_recall": (1, "62b5a7c0f7a1ff30"),
    "state_based_recall-dense-indexed": (1, "ee77998ae6ad27ff"),
    "state_based_recall-all_pointers": (1, "e5268c8d1c73f941"),
    "p_hop": (1, "58758703a7c35c91"),
    "selective_copy": (1, "fa76d5c8de065686"),
    "noisy_recall": (1, "d2e8f1ed9b44a234"),
    "needle": (1, "fdb049b99e013564"),
    "needle-4-hex-word": (1, "4e6a314286aacd8e"),
    "multi_hop_variables": (1, "2faa8f4855d93d3c"),
    "multi_hop_variables-shuffled": (1, "de8993fe48148219"),
    "dyck": (1, "12598d8e152a37e5"),
    "dyck-valid": (1, "24768e148d9a6bcd"),
    "modular_arithmetic": (1, "aa0bb5d864535340"),
    "modular_arithmetic-True": (1, "39d87ffc36267137"),
}


def digest_of(task, stage):
    digest = hashlib.sha256()
    for split, index in (("test", 4), ("train", 9), ("eval", 0)):
        batch = task.batch(stage=stage, split=split, seed=2, index=index, size=37)
        for array in batch:
            digest.update(array.tobytes())
    return digest.hexdigest()


def test_batches_are_the_same_bytes_in_another_process_and_under_another_hash_seed():
    environment = {**os.environ, "PYTHONHASHSEED": "4242"}
    command = [sys.executable, "-c", DIGESTS, json.dumps(CASES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    here = [digest_of(tasks.create(name, **knobs), stage) for name, knobs, stage in CASES]
    assert done.stdout.split() == here


@every_case
def test_data_have_not_changed_since_this_version(name, knobs, stage):
    task = tasks.create(name, **knobs)
    key = "-".join([name, *map(str, knobs.values())])
    found = (task.version, digest_of(task, stage)[:16])
    assert GOLDEN.get(key) == found, f"new data, or changed? GOLDEN of a new task: {key!r}: {found}"


@every_case
def test_batches_have_the_contract_s_shape_and_types(name, knobs, stage):
    task = tasks.create(name, **knobs)
    for some_stage in (stage, task.stages[-1]):
        batch = task.batch(stage=some_stage, size=3)
        assert batch._fields == ("inputs", "targets", "mask")
        for array, kind in zip(batch, (np.int64, np.int64, np.bool_), strict=True):
            assert array.shape == (3, task.sequence_length(some_stage))
            assert array.dtype == kind
            assert array.flags.c_contiguous
        assert 0 <= batch.inputs.min() <= batch.inputs.max() < task.vocab_size
        assert batch.targets[batch.mask].min() >= 0
        assert batch.targets.max() < task.vocab_size
        assert (batch.targets[~batch.mask] == -100).all()
        assert batch.mask.any(axis=1).all()
        scored = task.scored(batch)
        assert (scored & batch.mask == scored).all()
        assert scored.any(axis=1).all()


@every_case
def test_a_batch_depends_on_its_arguments_and_not_on_history(name, knobs, stage):
    task = tasks.create(name, **knobs)
    wanted = {"stage": stage, "split": "eval", "seed": 1, "index": 3, "size": 20}
    first = task.batch(**wanted)
    for change in ({"seed": 2}, {"index": 4}, {"split": "test"}):
        other = tasks.create(name, **knobs).batch(**{**wanted, **change})
        assert not np.array_equal(first.inputs, other.inputs)
    again = tasks.create(name, **knobs).batch(**wanted)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


@every_case
def test_splits_are_disjoint_and_evaluation_is_distinct(name, knobs, stage):
    task = tasks.create(name, **knobs)
    rows = {}
    for split in ("train", "eval", "test"):
        batches = [
            task.instances(stage=stage, split=split, seed=seed, index=index, size=400)
            for seed, index in ((0, 0), (0, 1), (5, 0))
        ]
        if split != "train":
            assert all(len(np.unique(codes, axis=0)) == 400 for codes in batches)
        rows[split] = {row.tobytes() for codes in batches for row in codes}
    assert not rows["train"] & rows["eval"]
    assert not rows["train"] & rows["test"]
    assert not rows["eval"] & rows["test"]


@every_case
def test_changing_the_future_leaves_earlier_labels_alone(name, knobs, stage):
    """Among equal prefixes every label at their end is equal: labels look back only."""
    task = tasks.create(name, **knobs)
    inputs, targets, mask = task.batch(stage=stage, size=4000)
    for position in range(inputs.shape[1]):
        known = mask[:, position]
        prefixes = np.unique(inputs[known, : position + 1], axis=0, return_inverse=True)[1]
        pairs = np.stack([prefixes.reshape(-1), targets[known, position]], axis=1)
        assert len(np.unique(pairs, axis=0)) == prefixes.max(initial=-1) + 1


@every_case
def test_floors_are_probabilities_and_positions_agree_with_the_majority(name, knobs, stage):
    task = tasks.create(name, **knobs)
    for some_stage in task.stages:
        floors = task.floors(some_stage)
        assert list(floors)[:2] == ["uniform", "majority"]
        assert all(0 <= accuracy <= 1 for accuracy in floors.values())
        positions = task.position_floors(some_stage)
        assert positions.shape == (task.sequence_length(some_stage),)
        last = positions[~np.isnan(positions)][-1]
        assert last == pytest.approx(floors["majority"])


@every_case
def test_readable_forms(name, knobs, stage):
    task = tasks.create(name, **knobs)
    assert len(task.token_names) == len(set(task.token_names))
    assert len(task.token_names) == task.vocab_size
    batch = task.batch(stage=stage, size=2)
    names = task.decode(batch.inputs[1])
    text = task.describe(batch, 1)
    *_, answer = text.split("\n")
    position = np.flatnonzero(task.scored(batch)[1])[-1]
    (label,) = task.decode([int(batch.targets[1, position])])
    assert answer.startswith("answer: ")
    assert answer.endswith(f"{names[position]} (position {position}) -> {label}")
    assert text.count("[") == batch.mask[1].sum()
    assert task.decode([-100]) == ["-"]
    card = json.loads(json.dumps(task.card()))
    assert card["task"] == name
    assert card["knobs"] == task.knobs
    assert card["stages"] == list(task.stages)
    assert card["lengths"] == [task.sequence_length(s) for s in task.stages]
    assert card["supervision"] == knobs.get("supervision", card["supervision"])
    assert card["layout"] == knobs.get("layout", "plain")


@every_case
@pytest.mark.parametrize("stage_given", [0, -4])
def test_stages_below_one_are_refused(name, knobs, stage, stage_given):
    task = tasks.create(name, **knobs)
    for call in (task.floors, task.position_floors, task.sequence_length, task.instance_count):
        with pytest.raises(
            ValueError, match=rf"stage: {stage_given} is not allowed .must be .* for"
        ):
            call(stage_given)


def test_bad_arguments_are_named():
    task = tasks.create("parity")
    batch = task.batch(stage=16, size=2)
    with pytest.raises(ValueError, match=r"split: 'dev' is not allowed .choose from train, "):
        task.batch(stage=16, split="dev", size=1)
    with pytest.raises(ValueError, match="split: 'dev' is not allowed"):
        task.split_count(16, "dev")
    for name in ("seed", "index"):
        with pytest.raises(
            ValueError, match=rf"{name}: -1 is not allowed \(must be an integer >= 0"
        ):
            task.batch(stage=16, size=1, **{name: -1})
    with pytest.raises(ValueError, match=r"size: 0 is not allowed \(must be an integer >= 1\)"):
        task.batch(stage=16, size=0)
    with pytest.raises(ValueError, match=r"row: 2 is not allowed \(must be in 0 .. 1\)"):
        task.describe(batch, 2)
    with pytest.raises(ValueError, match=r"tokens: 2 is not allowed \(must be in 0 .. 1\)"):
        task.decode([0, 2])


def test_tasks_are_values():
    assert tasks.create("parity") == tasks.create("parity")
    assert tasks.create("mqar", vocab=64) != tasks.create("mqar")
    assert len({tasks.create("mqar"), tasks.create("mqar"), tasks.create("parity")}) == 2
    with pytest.raises(AttributeError):
        tasks.create("mqar").vocab = 3
