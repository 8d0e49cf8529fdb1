import numpy as np
import pytest

import tasks
from lt2theory.bench import naive_tasks
from lt2theory.bench import tasks as bench
from lt2theory.bench.tasks import Workload, bench_tasks
from tests.tasks.oracles import LABELS, labels_of

VALID = {"question": "valid"}


def test_naive_recall_is_the_task():
    inputs, targets = naive_tasks.mqar(np.random.default_rng(0), 40, 5, 64)
    memory = dict(zip(inputs[0:10:2].tolist(), inputs[1:10:2].tolist(), strict=True))
    asked = np.flatnonzero(targets >= 0)
    assert len(asked) == 5
    assert (asked >= 10).all()
    assert [memory[token] for token in inputs[asked].tolist()] == targets[asked].tolist()
    assert (inputs[10:][targets[10:] < 0] == 0).all()


def test_naive_words_agree_with_the_task_s_table():
    task = tasks.create("group_word")
    inputs, targets = naive_tasks.word(np.random.default_rng(0), 33, 5)
    codes = inputs.astype(np.uint8)[None]
    np.testing.assert_array_equal(task._products(codes.T)[:, 0], targets)


@pytest.mark.parametrize("name", LABELS)
def test_naive_examples_are_the_task(name):
    task, rng = tasks.create(name), np.random.default_rng(0)
    stage = task.stages[1]
    examples = [naive_tasks.NAIVE[name](rng, stage) for _ in range(300)]
    inputs, targets = (np.stack(part) for part in zip(*examples, strict=True))
    drawn = task.batch(stage=stage, size=300)
    assert inputs.shape == targets.shape == drawn.inputs.shape
    for row in range(5):
        assert task.decode(targets[row]) == labels_of(inputs[row], task)
    # The same tokens at the same places, and as many labels, up to chance.
    counted = [
        np.bincount(rows.reshape(-1), minlength=task.vocab_size) for rows in (inputs, drawn[0])
    ]
    assert abs(counted[0] - counted[1]).max() < 8 * counted[1].max() ** 0.5 + 8
    known = (targets >= 0).mean(axis=0), drawn.mask.mean(axis=0)
    assert abs(known[0] - known[1]).max() < 6 * 0.5 * (2 / 300) ** 0.5
    if name == "dyck":
        heights = np.cumsum(np.where(inputs <= task.types, 1, -1), axis=1)
        assert (heights[:, -1] == task.num_open(stage)).all()
        assert (heights.max(axis=1) == task.depth).all()


def test_table_has_a_row_a_generator_with_rates_and_gains():
    workloads = (Workload("mqar", 64), Workload("parity", 17), Workload("dyck", 16, VALID))
    table = bench_tasks(seconds=0.4, workers=1, size=256, workloads=workloads)
    assert table.task.tolist() == ["mqar", "mqar", "parity", "dyck"]
    assert table.generator.tolist() == ["per_example", "batch", "batch", "batch"]
    assert table.length.tolist() == [256, 256, 17, 16]
    assert table.examples_per_s.to_numpy() == pytest.approx(table.examples / table.seconds)
    assert table.tokens_per_s.to_numpy() == pytest.approx(table.examples_per_s * table.length)
    assert table.gain[0] == 1
    assert table.gain[1] == pytest.approx(table.examples_per_s[1] / table.examples_per_s[0])
    assert table.gain[1] > 3  # 20 when it was written
    # Baselines are of default knobs.
    assert table.gain.isna().tolist() == [False, False, True, True]
    assert table.target.isna().tolist() == [True, False, True, False]
    assert (table.seconds >= 0.4).all()


def test_workloads_cover_every_task_and_the_promised_settings():
    assert {workload.task for workload in bench.WORKLOADS} == set(tasks.catalogue())
    recall, word = bench.WORKLOADS[:2]
    recall_task = tasks.create(recall.task, **recall.knobs)
    assert (recall_task.sequence_length(recall.stage), recall.stage) == (256, 64)
    assert recall_task.vocab_size == 8192
    assert (word.task, word.stage, word.knobs) == ("group_word", 128, {})
