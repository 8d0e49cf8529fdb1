"""Every cell is made, trained for a step a stage, measured and written before a GPU sees it."""

import json
from pathlib import Path

import pytest

from lt2theory.experiments.cell_folder import ROWS
from lt2theory.experiments.linearization.carry import EVALUATION, run_cell
from lt2theory.experiments.linearization.cells import (
    LinearCell,
    SelectionWork,
    StudentWork,
    with_needs,
)
from lt2theory.experiments.linearization.minutes import cell_seconds
from lt2theory.experiments.linearization.studies import study_cells
from lt2theory.experiments.linearization.table import linear_table
from lt2theory.experiments.linearization.teachers import teacher_of
from lt2theory.runs import RunFolder
from tests.experiments.linearization.cut import cut, make_materials

CELLS = {cell.name: cell for cell in study_cells("all")}
SAMPLE = (
    "mixers-mlstm-tiled-s0",
    "starts-inputs-student-s0",
    "gates-additive-grouped-s0",
    "instruction-distillation-s0",
)
"""One of each study that is quick."""


def what_is_left(cell: LinearCell) -> str:
    """What tells a cut cell from the others of its study, whose names may still be others."""
    one = cut(cell)
    return repr((one.study, one.work, *(need.work for need in one.needs)))


ARMS = list({what_is_left(cell): name for name, cell in CELLS.items() if cell.seed == 0}.values())
"""One cell an arm; arms of other budgets alone are the same when cut."""


@pytest.fixture(scope="module")
def materials_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("materials") / "shared"


def carry_out(cell: LinearCell, folder: Path, root: Path) -> None:
    """A cut cell and what it needs, and its rows of the table."""
    materials = make_materials(folder, root)
    cells = with_needs([cell])
    for one in cells:
        run_cell(one, root / one.run().folder, materials)
    own = root / cell.run().folder
    assert RunFolder.open(own).status == "done"
    assert not [path for path in own.rglob("*.safetensors") if EVALUATION not in path.parts]
    table = linear_table(cells, root)
    rows = table[table["cell"] == cell.name]
    assert set(rows["status"]) == {"done"}
    parts = set(rows["part"])
    if isinstance(cell.work, SelectionWork):
        assert {"selection", "stage", "curve", "cost"} <= parts
        assert (rows["metric"] == "chosen").sum() >= teacher_of(cell).num_layers
        return
    assert {"recovery", "cloze", "needle", "mqar", "speed", "stage", "curve", "cost"} == parts
    measured = rows[rows["metric"] == "found"]
    assert measured["floor"].notna().all()
    assert measured["low"].notna().all()
    assert set(measured["model"]) == {"teacher", "student"}


@pytest.mark.parametrize("name", SAMPLE)
def test_a_cell_of_every_kind_runs(name: str, materials_folder: Path, tmp_path: Path) -> None:
    carry_out(cut(CELLS[name]), materials_folder, tmp_path / "study")


@pytest.mark.slow
def test_layers_that_a_selection_has_chosen_are_kept(
    materials_folder: Path, tmp_path: Path
) -> None:
    cell = cut(CELLS["hybrids-selected-s0"])
    carry_out(cell, materials_folder, tmp_path / "study")
    assert cell.selection is not None
    root = tmp_path / "study"
    chosen = RunFolder.open(root / cell.selection.run().folder).summary()["chosen"]
    pattern = RunFolder.open(root / cell.run().folder).summary()["pattern"].split(",")
    assert [i for i, mixer in enumerate(pattern) if mixer == "full"] == chosen
    assert len(chosen) == 2
    teacher = root / CELLS["teacher-7m"].run().folder
    assert not teacher.exists(), "the cut teacher is another"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("study", sorted({cell.study for cell in CELLS.values()}))
def test_every_arm_runs(study: str, materials_folder: Path, tmp_path: Path) -> None:
    """In one folder, so that teachers are trained once."""
    for name in ARMS:
        if CELLS[name].study != study:
            continue
        cell = cut(CELLS[name])
        if study == "teachers":
            run_cell(cell, tmp_path / cell.run().folder, make_materials(materials_folder, tmp_path))
            rows = json.loads((tmp_path / cell.run().folder / ROWS).read_text())["rows"]
            assert {row["model"] for row in rows if row["part"] == "needle"} == {"teacher"}
            assert [row["floor"] for row in rows if row["metric"] == "bits_per_byte"]
            continue
        carry_out(cell, materials_folder, tmp_path)


@pytest.mark.parametrize("name", CELLS)
def test_recipes_fit_their_teachers(name: str) -> None:
    """The models of all stages can be made, and an estimate of the time exists."""
    cell = CELLS[name]
    if isinstance(cell.work, StudentWork | SelectionWork):
        assert cell.work.recipe.students(teacher_of(cell))
    assert 1 < cell_seconds(cell) < 25 * 60, "a cell fits into a slot"
