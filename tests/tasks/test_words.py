import pytest

import tasks


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("parity", {}),
        ("modular_addition", {"modulus": 3}),
        ("group_word", {"group": "Z2"}),
        ("group_word", {"group": "S3", "tokens": "transpositions"}),
        ("group_word", {"group": "S5", "tokens": "generators"}),
        ("group_word", {}),
    ],
)
def test_listed_stages_have_room_for_thousands_of_evaluation_instances(name, knobs):
    task = tasks.create(name, **knobs)
    assert {32, 64, 128, 256} <= set(task.stages)
    smallest = task.stages[0]
    assert len(task.batch(stage=smallest, split="eval", size=4096).inputs) == 4096
    assert [task.sequence_length(stage) for stage in task.stages] == list(task.stages)


def test_the_last_label_is_scored():
    task = tasks.create("parity")
    batch = task.batch(stage=16, size=3)
    scored = task.scored(batch)
    assert scored[:, -1].all()
    assert scored.sum() == 3


def test_lengths_have_a_range():
    task = tasks.create("parity")
    with pytest.raises(ValueError, match=r"stage: 65537 is not allowed \(must be a length in 1 .."):
        task.batch(stage=65537, size=1)
