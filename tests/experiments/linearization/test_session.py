"""Sessions of a study: killed and continued, in order of need, packed and unpacked."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pandas as pd
import pytest

from lt2theory.experiments.linearization.carry import run_cell
from lt2theory.experiments.linearization.cells import TeacherWork, with_needs
from lt2theory.experiments.linearization.materials import kept_model
from lt2theory.experiments.linearization.minutes import PRICES, cell_seconds
from lt2theory.experiments.linearization.session import (
    carry_out_linear,
    chosen_cells,
    linear_plan,
)
from lt2theory.experiments.linearization.studies import study_cells
from lt2theory.experiments.linearization.table import (
    TABLE,
    linear_table,
    merge_linear,
    read_linear_table,
)
from lt2theory.experiments.serial import SerialSession
from lt2theory.experiments.study_travel import pack, unpack
from lt2theory.runs import run_status, write_table
from lt2theory.runs.jsonl import read_lines
from lt2theory.runs.layout import SUMMARY
from lt2theory.runs.lock import locked
from lt2theory.training.sharing import SESSIONS
from tests.experiments.linearization.cut import cut, make_materials
from tests.experiments.linearization.killed import small_cells

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("session") / "materials"
    make_materials(made, made)
    return made


def told(path: Path) -> pd.DataFrame:
    """The rows of a table but for times, and what differs between machines."""
    table = read_linear_table(path)
    kept = table[~table["part"].isin(["speed", "cost"])].reset_index(drop=True)
    return kept.drop(columns=["sessions", "source"])


@pytest.mark.filterwarnings("ignore:.* is resumed at step:UserWarning")  # the source changes
def test_killed_and_continued_gives_the_same_rows(folder: Path, tmp_path: Path) -> None:
    """The first cell has six steps: killed in its third, and again in the second cell."""
    cells = small_cells()
    whole = tmp_path / "whole"
    ends = carry_out_linear(cells, cells, SerialSession(), make_materials(folder, whole))
    assert {end.state for end in ends.values()} == {"done"}
    broken = tmp_path / "broken"
    command = [sys.executable, "-m", "tests.experiments.linearization.killed"]
    for step in ("3", "5"):
        done = subprocess.run([*command, folder, broken, step], cwd=ROOT, check=False)
        assert done.returncode == -9
    assert [run_status(broken / cell.run().folder) for cell in cells] == ["done", "unfinished"]
    ends = carry_out_linear(cells, cells, SerialSession(), make_materials(folder, broken))
    assert {end.state: end.message for end in ends.values()} == {"done": ""}
    pd.testing.assert_frame_equal(told(broken), told(whole))
    rows = read_linear_table(whole)
    assert set(rows["cell"]) == {cell.name for cell in cells}
    assert rows["source"].notna().all()
    write_table(tmp_path / TABLE, rows.assign(source=pd.NA))
    assert set(read_linear_table(tmp_path)["source"]) == {"unknown"}
    assert not linear_table((), whole).size
    again = carry_out_linear(cells, cells, SerialSession(), make_materials(folder, whole))
    assert again == {}


def test_time_that_is_over_leaves_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    cells = small_cells()
    ends = carry_out_linear(
        cells, cells, SerialSession(seconds=1e-6), make_materials(folder, tmp_path)
    )
    assert {end.state for end in ends.values()} <= {"stopped", "waiting"}
    assert read_linear_table(tmp_path)["status"].isin(["unfinished"]).all()


def test_what_a_cell_needs_comes_before_it_and_travels(folder: Path, tmp_path: Path) -> None:
    """A teacher is trained, packed, and learnt from on another machine."""
    known = {cell.name: cell for cell in study_cells("sizes")}
    student = cut(known["sizes-gdn-1m-x1-s0"])
    cells = with_needs([student])
    teacher = cells[0]
    assert isinstance(teacher.work, TeacherWork)
    assert [cell.name for cell in chosen_cells(cells, ["sizes-*"])] == [c.name for c in cells]
    here, there = tmp_path / "here", tmp_path / "there"
    lonely = carry_out_linear(cells, (student,), SerialSession(), make_materials(folder, here))
    assert lonely[student.name].state == "waiting"
    assert lonely[student.name].message == "needs teacher-1m"
    carry_out_linear(cells, (teacher,), SerialSession(), make_materials(folder, here))
    packed = pack(here, tmp_path / "packed")
    assert packed.weights == (teacher.run().folder,)
    unpack(tmp_path / "packed", there)
    for own, other in zip(
        kept_model(here / teacher.run().folder).parameters(),
        kept_model(there / teacher.run().folder).parameters(),
        strict=True,
    ):
        assert own.equal(other)
    carry_out_linear(cells, cells, SerialSession(), make_materials(folder, there))
    assert [row["status"] for row in linear_plan(cells, there)] == ["done", "done"]
    merged = merge_linear([read_linear_table(here), read_linear_table(there / TABLE)])
    assert merged["config_hash"].nunique() == 2
    pd.testing.assert_frame_equal(merged, merge_linear([merged, merged]))


def test_a_cell_waits_for_what_another_process_works_on(folder: Path, tmp_path: Path) -> None:
    """Another process trains its teacher: that is not begun again, and the student comes after."""
    known = {cell.name: cell for cell in study_cells("sizes")}
    student = cut(known["sizes-gdn-1m-x1-s0"])
    cells = with_needs([student])
    teacher = tmp_path / cells[0].run().folder
    carry_out_linear(cells, cells[:1], SerialSession(), make_materials(folder, tmp_path))
    (teacher / SUMMARY).rename(tmp_path / "summary")
    ended = []

    def end() -> None:
        ended.append(run_status(tmp_path / student.run().folder))
        (tmp_path / "summary").rename(teacher / SUMMARY)
        release.set()

    release, timer = threading.Event(), threading.Timer(2.0, end)
    with locked(teacher):
        timer.start()
        session = SerialSession(seconds=600.0)
        ends = carry_out_linear(cells, cells, session, make_materials(folder, tmp_path))
    assert release.is_set()
    assert ended == ["absent"]
    assert {name: end.state for name, end in ends.items()} == {
        "teacher-1m": "waiting",
        student.name: "done",
    }


def test_prices_follow_what_finished_cells_took(folder: Path, tmp_path: Path) -> None:
    known = {cell.name: cell for cell in study_cells("mixers")}
    done, left = cut(known["mixers-gdn-s0"]), known["mixers-kda-s1"]
    cells = (done, left)
    assert PRICES.factors(cells, tmp_path) == {}
    plain = linear_plan((left,), tmp_path)[0]["gpu_minutes"]
    assert plain == pytest.approx(cell_seconds(left) / 60)
    carry_out_linear(cells, (done,), SerialSession(), make_materials(folder, tmp_path))
    taken = sum(x["device_seconds"] for x in read_lines(tmp_path / done.run().folder / SESSIONS))
    factor = taken / cell_seconds(done)
    assert PRICES.factors(cells, tmp_path) == {"student-real": pytest.approx(factor)}
    rows = linear_plan(cells, tmp_path)
    assert rows[1]["gpu_minutes"] == pytest.approx(plain * factor)
    own = study_cells("sizes")[0]
    assert linear_plan((own,), tmp_path)[0]["gpu_minutes"] == cell_seconds(own) / 60


def test_every_objective_of_the_studies_may_be_a_cuda_graph(folder: Path, tmp_path: Path) -> None:
    """As `lt2 linearize study` trains on a GPU; on a CPU the same buffers without graphs."""
    known = {cell.name: cell for cell in study_cells("all")}
    wanted = tuple(cut(known[name]) for name in ("hybrids-selected-s0", "instruction-tuning-s0"))
    cells = with_needs(wanted)
    materials = make_materials(folder, tmp_path, cuda_graph=True)
    ends = carry_out_linear(cells, cells, SerialSession(), materials)
    assert {name: (end.state, end.message) for name, end in ends.items()} == {
        cell.name: ("done", "") for cell in cells
    }


def test_another_text_is_refused(folder: Path, tmp_path: Path) -> None:
    cells = small_cells()[1:]
    materials = make_materials(folder, tmp_path)
    carry_out_linear(cells, cells, SerialSession(seconds=1e-6), materials)
    other = make_materials(folder, tmp_path)
    other.text = folder / "text"
    with pytest.raises(ValueError, match="of another configuration"):
        run_cell(cells[0], tmp_path / cells[0].run().folder, other)


def test_text_is_prepared_in_the_tokens_of_the_teacher(folder: Path, tmp_path: Path) -> None:
    materials = make_materials(folder, tmp_path / "root")
    materials.text = folder / "text"
    known = {cell.name: cell for cell in study_cells("all")}
    own, real = (materials.corpus(known[name]) for name in ("gates-delta-head-s0", "mixers-gdn-s0"))
    assert own.vocab_size == real.vocab_size == 258
    assert own.folder.parent == real.folder.parent == tmp_path / "root"
    materials.text = tmp_path / "nothing"
    assert materials.corpus(known["gates-delta-head-s0"]) is own
    chat = materials.conversations(known["instruction-tuning-s0"])
    assert chat is not None
    asked = [json.loads(line)["messages"][0]["content"] for line in chat.read_text().splitlines()]
    assert {text.split()[0] for text in asked} == {"Continue", "Repeat", "Which"}
    assert materials.conversations(known["mixers-gdn-s0"]) is None
    other = make_materials(folder, tmp_path / "other")
    other.text = tmp_path / "nothing"
    with pytest.raises(ValueError, match="is not there"):
        other.corpus(known["mixers-gdn-s0"])
