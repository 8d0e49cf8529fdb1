from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs import RunFolder

RECORD = {"step": 1, "stage": 8, "split": "train", "metrics": {"loss": 0.5}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"width": 9}}, "holds a curriculum run of another configuration"),
        ({"kind": "text"}, "holds a run of kind 'curriculum', not 'text'"),
    ],
)
def test_another_run_is_refused(writing: Any, changes: dict[str, Any], message: str) -> None:
    with writing():
        pass
    with pytest.raises(ValueError, match=message), writing(**changes):
        pytest.fail("opened another run's folder")


def test_overwrite_starts_afresh_and_spares_what_is_not_the_runs(writing: Any) -> None:
    with writing() as run:
        run.append_metrics(RECORD)
        run.append_timing({"seconds": 1})
        run.save_checkpoint(1, {"a": b"x"})
        run.write_summary({})
        (run.path / "report.html").write_text("kept")
    with writing(config={"width": 9}, overwrite=True) as run:
        assert run.status == "unfinished"
        assert run.config == {"width": 9}
        assert (run.metrics(), run.timing(), run.checkpoints()) == ([], [], [])
        assert (run.path / "report.html").read_text() == "kept"


def test_foreign_folders_are_not_touched(tmp_path: Path, writing: Any) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    for overwrite in (False, True):
        with (
            pytest.raises(ValueError, match=r"not empty and not a run \(it holds thesis\.tex\)"),
            writing(tmp_path, overwrite=overwrite),
        ):
            pytest.fail("wrote into a foreign folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path, writing: Any) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ValueError, match="a file is in its place"), writing(path):
            pytest.fail("made a folder of a file")


def test_a_half_written_checkpoint_is_not_seen_and_is_swept(run: RunFolder, writing: Any) -> None:
    run.save_checkpoint(1, {"a": b"1"})
    half = run.path / "checkpoints" / "000002-step-2.tmp"
    half.mkdir()
    (half / "a").write_bytes(b"")
    assert [entry.name for entry in run.checkpoints()] == ["000001-step-1"]
    (run.path / "lock").unlink()
    with writing():
        assert not half.exists()
