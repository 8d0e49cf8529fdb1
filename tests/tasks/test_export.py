import errno
import json
import os

import numpy as np
import pyarrow.parquet as pq
import pytest

import tasks
from tasks.export import data_card

TASK = tasks.create("state_based_recall", supervision="dense", layout="indexed")
NAMED = {"stage": 4, "split": "test", "seed": 3, "index": 2, "size": 17}


def check_card(text):
    card = json.loads(text)
    assert card == json.loads(json.dumps(data_card(TASK, **NAMED)))
    assert card["batch"] == NAMED
    assert card["supervision"] == "dense"
    assert card["layout"] == "indexed"
    assert card["floors"] == TASK.floors(4)
    assert card["vocabulary"][3:10] == ["0", "1", "a", "b", "c", "d", "e"]
    assert card["length"] == TASK.sequence_length(4)


def test_parquet_round_trip(tmp_path):
    data, card = tasks.export(TASK, tmp_path / "x.parquet", **NAMED)
    table = pq.read_table(data)
    for name, array in TASK.batch(**NAMED)._asdict().items():
        read = np.array(table[name].to_pylist())
        np.testing.assert_array_equal(read, array)
        assert read.dtype == array.dtype
    check_card(table.schema.metadata[b"card"])
    check_card(card.read_text())
    assert card.name == "x.parquet.card.json"


def test_archive_round_trip(tmp_path):
    data, card = tasks.export(TASK, str(tmp_path / "x.npz"), **NAMED)
    with np.load(data, allow_pickle=False) as archive:
        for name, array in TASK.batch(**NAMED)._asdict().items():
            np.testing.assert_array_equal(archive[name], array)
            assert archive[name].dtype == array.dtype
        check_card(str(archive["card"]))
    check_card(card.read_text())


def test_nothing_is_left_behind_when_writing_fails(tmp_path, monkeypatch):
    def full_disk(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match=r"No space left on device: .*x\.npz'") as full:
        tasks.export(TASK, tmp_path / "x.npz", **NAMED)
    assert (full.value.errno, full.value.filename) == (errno.ENOSPC, str(tmp_path / "x.npz"))
    assert list(tmp_path.iterdir()) == []


def test_other_endings_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(
        ValueError, match=r"path: .*x.csv' is not allowed \(must be a file name end"
    ):
        tasks.export(TASK, tmp_path / "x.csv", **NAMED)
    assert list(tmp_path.iterdir()) == []


def test_links_stay_and_what_is_no_file_is_not_replaced(tmp_path):
    task = tasks.create("parity")
    (tmp_path / "far").mkdir()
    for name in ("a.npz", "a.npz.card.json"):
        (tmp_path / name).symlink_to(f"far/{name}")
    tasks.export(task, tmp_path / "a.npz", stage=16, size=2)
    assert all((tmp_path / name).is_symlink() for name in ("a.npz", "a.npz.card.json"))
    assert len(np.load(tmp_path / "far" / "a.npz")["inputs"]) == 2
    os.mkfifo(tmp_path / "b.npz")
    with pytest.raises(OSError, match=r"no regular file: .*b\.npz"):
        tasks.export(task, tmp_path / "b.npz", stage=16, size=2)
    assert (tmp_path / "b.npz").is_fifo()
