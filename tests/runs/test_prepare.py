import errno
from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs import RunFolder

RECORD = {"step": 1, "stage": 8, "split": "train", "metrics": {"loss": 0.5}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"config": {"width": 9}},
            r"a curriculum run of another configuration \(width: 8 there, 9 asked for; label: ",
        ),
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


def test_where_configurations_differ_is_said(tmp_path: Path, writing: Any) -> None:
    stages = [{"rate": 0.1, "name": "a"}, {"rate": 0.2, "name": "b"}]
    config = {"stages": stages, "seed": 0, "text": "x" * 99, "gate": None, "one": 1, "two": 2}
    changed = {"stages": (stages[0], {"rate": 0.3, "name": "b"}), "seed": 0, "text": "x" * 98}
    with writing(tmp_path / "run", config=config):
        pass
    said = (
        r"\(stages\.1\.rate: 0\.2 there, 0\.3 asked for; text: \"x{39}\.\.\. there, "
        r"\"x{39}\.\.\. asked for; gate: null there, nothing asked for; one: 1 there, "
        r"nothing asked for; and 1 more\)"
    )
    with (
        pytest.raises(ValueError, match=said),
        writing(tmp_path / "run", config=changed),
    ):
        pytest.fail("opened another run's folder")


def test_a_file_system_that_cannot_be_written_is_named(
    tmp_path: Path, writing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with (
        pytest.raises(ValueError, match="run cannot be created: Read-only file system"),
        writing(tmp_path / "run"),
    ):
        pytest.fail("made a folder on it")


def test_a_checkpoint_that_a_kill_left_over_is_dropped(run: RunFolder, writing: Any) -> None:
    for step in (1, 2):
        run.save_checkpoint(step, {"a": b"1"})
    oldest = run.path / "checkpoints" / "000000-step-0"
    oldest.mkdir()
    (run.path / "lock").unlink()
    with writing() as again:
        assert not oldest.exists()
        assert len(again.checkpoints()) == 2
