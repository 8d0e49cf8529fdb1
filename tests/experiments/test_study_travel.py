"""A study that travels: small, whole where it counts, and gone on with to the same bytes."""

from pathlib import Path

import pytest

from lt2theory.experiments.cells import Cell, Cells
from lt2theory.experiments.studies import smoke
from lt2theory.experiments.study import Session, carry_out
from lt2theory.experiments.study_travel import MIB, PART, pack, unpack
from lt2theory.experiments.study_words import words
from lt2theory.runs import RunFolder, run_status
from lt2theory.runs.lock import LOCK_NAME
from lt2theory.runs.store import METRICS
from lt2theory.training import CurriculumConfig, Job, share_device
from lt2theory.training.board import Board
from tests.experiments.conftest import TINY

HERE = Session("cpu")


def stopped(cell: Cell, folder: Path, steps: int = 30) -> None:
    """Carry out a cell for some steps."""

    def watch(board: Board, taken: tuple[int, ...]) -> None:
        board.stop.requested |= sum(taken) >= steps

    share_device([Job(cell.resolved, folder)], device="cpu", watch=watch)
    assert run_status(folder) == "unfinished"


@pytest.fixture
def cells() -> Cells:
    first, second, _ = smoke()
    slow = second.config.model_dump() | {"step_budget": 20_000, "min_steps": 20_000}
    endless = Cell(name="endless", block=2, config=CurriculumConfig.model_validate(slow))
    return first, endless


@pytest.fixture
def root(tmp_path: Path, cells: Cells) -> Path:
    """A study with a finished run and an unfinished one."""
    folder = tmp_path / "study"
    carry_out(cells, cells[:1], folder, HERE)
    stopped(cells[1], folder / cells[1].run().folder)
    carry_out(cells, cells[:1], folder, HERE)  # writes the table of both
    return folder


def test_a_packed_study_is_small_and_comes_back(tmp_path: Path, cells: Cells, root: Path) -> None:
    done, begun = (cell.run().folder for cell in cells)
    found = pack(root, tmp_path / "out")
    assert (found.runs, found.checkpoints, found.weights, found.left) == (2, (begun,), (), ())
    assert all(path.stat().st_size <= PART for path in found.files)
    assert found.size < 1.5 * MIB
    other = tmp_path / "other"
    assert unpack(tmp_path / "out", other) == sorted([done, begun])
    assert unpack(tmp_path / "out", other) == []
    assert not RunFolder.open(other / done).checkpoints()
    for name in (done, begun):
        assert (other / name / METRICS).read_bytes() == (root / name / METRICS).read_bytes()
    assert (other / "study.parquet").exists()
    assert not list(other.glob("*.tmp"))
    stop = RunFolder.open(root / begun).checkpoints()[0]
    came = RunFolder.open(other / begun).checkpoints()
    assert [folder.name for folder in came] == [stop.name]
    for path in stop.iterdir():
        assert (came[0] / path.name).read_bytes() == path.read_bytes()


def test_what_is_further_on_is_kept(tmp_path: Path, cells: Cells, root: Path) -> None:
    begun = cells[1].run().folder
    pack(root, tmp_path / "before")
    stopped(cells[1], root / begun)
    later = RunFolder.open(root / begun).checkpoints()[0].name
    assert unpack(tmp_path / "before", root) == []
    assert RunFolder.open(root / begun).checkpoints()[0].name == later
    unpack(tmp_path / "before", tmp_path / "other")
    pack(root, tmp_path / "after")
    assert unpack(tmp_path / "after", tmp_path / "other") == [begun]
    assert RunFolder.open(tmp_path / "other" / begun).checkpoints()[0].name == later


def test_what_does_not_fit_begins_anew(tmp_path: Path, cells: Cells, root: Path) -> None:
    begun = cells[1].run().folder
    found = pack(root, tmp_path / "out", mebibytes=0.1)
    assert (found.checkpoints, found.left) == ((), (begun,))
    unpack(tmp_path / "out", tmp_path / "other")
    assert run_status(tmp_path / "other" / begun) == "unfinished"
    stopped(cells[1], tmp_path / "other" / begun, steps=1)
    steps = [line["step"] for line in RunFolder.open(tmp_path / "other" / begun).metrics()]
    assert max(steps, default=0) <= 20


def test_weights_travel_where_they_are_still_to_be_measured(tmp_path: Path) -> None:
    config = CurriculumConfig.model_validate(
        words("S3", num_loops=1).model_dump() | TINY | {"stages": (8,), "test_stages": ()}
    )
    cell = Cell(name="word", block=2, config=config)
    carry_out((cell,), (cell,), tmp_path / "study", HERE)
    name = cell.run().folder
    assert pack(tmp_path / "study", tmp_path / "out").weights == (name,)
    unpack(tmp_path / "out", tmp_path / "other")
    (came,) = RunFolder.open(tmp_path / "other" / name).checkpoints()
    assert [path.name for path in came.iterdir()] == ["model.safetensors"]


def test_what_cannot_be_is_refused(tmp_path: Path, cells: Cells, root: Path) -> None:
    with pytest.raises(ValueError, match="is not a study"):
        pack(tmp_path, tmp_path / "out")
    with pytest.raises(ValueError, match="mebibytes: got 0"):
        pack(root, tmp_path / "out", mebibytes=0.0)
    with pytest.raises(ValueError, match="holds no packed study"):
        unpack(tmp_path, tmp_path / "other")
    found = pack(root, tmp_path / "out")
    unpack(tmp_path / "out", tmp_path / "other")
    begun = cells[1].run().folder
    stopped(cells[1], root / begun)
    pack(root, tmp_path / "out")
    (tmp_path / "other" / begun / LOCK_NAME).write_text("{}")
    with pytest.raises(ValueError, match="is being written"):
        unpack(tmp_path / "out", tmp_path / "other")
    found.files[0].write_bytes(found.files[0].read_bytes()[:100])
    with pytest.raises(ValueError, match="are damaged"):
        unpack(tmp_path / "out", tmp_path / "third")
