"""Every cell is made, trained for two steps, measured and written before a GPU sees it."""

from pathlib import Path

import pytest

from lt2theory.experiments.language.arms import BASE, GDN, SEEDS, language_cells, questions
from lt2theory.experiments.language.carry import TRAINED, run_cell
from lt2theory.experiments.language.cells import LanguageCell
from lt2theory.experiments.language.minutes import cell_seconds
from lt2theory.experiments.language.page import language_page
from lt2theory.experiments.language.table import language_table
from lt2theory.models.parameters import parameter_count
from lt2theory.runs import RunFolder
from tests.experiments.language.cut import STEPS, cut, make_materials

CELLS = {cell.name: cell for cell in language_cells()}
ARMS = [cell.arm for cell in CELLS.values() if cell.config.seed == 0]
SAMPLE = ("placement-loop-gdn", "state-accumulate", "loop-gate-none")
"""One of each kind that differs in how it runs."""
PARTS = {"document", "held_out", "curve", "cost", "training", "stability", "profile", "speed"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("text") / "corpus"


def carry_out(cell: LanguageCell, corpus: Path, root: Path) -> None:
    """A cut cell, its rows of the table, and the page with them."""
    folder = root / cell.run().folder
    run_cell(cell, folder, make_materials(corpus, root))
    run = RunFolder.open(folder)
    assert run.status == "done"
    assert RunFolder.open(folder / TRAINED).status == "done"
    assert not list(folder.rglob("*.safetensors"))
    table = language_table((cell,), root)
    gate = {"loop_gate"} if cell.config.model.loop_gate else set()
    assert set(table["part"]) == PARTS | gate
    bits = table[table["metric"] == "bits_per_byte"]
    assert 4 < float(bits["value"].iloc[0]) < 12
    assert bits["low"].notna().all()
    assert set(table[table["part"] == "stability"]["step"]) == {1, STEPS}
    assert set(table[table["metric"] == "tokens_per_second"]["length"].dropna()) == {16, 24}
    assert set(table["outcome"]) == {"finished"}
    assert "not measured yet" not in language_page(table).split("## Cost")[0].split("## 1.")[0]


@pytest.mark.parametrize("arm", SAMPLE)
def test_a_cell_of_every_kind_runs(arm: str, corpus: Path, tmp_path: Path) -> None:
    carry_out(cut(CELLS[f"{arm}-s0"]), corpus, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm not in SAMPLE])
def test_every_arm_runs(arm: str, corpus: Path, tmp_path: Path) -> None:
    carry_out(cut(CELLS[f"{arm}-s1"]), corpus, tmp_path)


def test_what_is_compared_differs_in_one_thing() -> None:
    """Equal tokens, windows and rates; equal parameters but where blocks are added."""
    assert len({cell.tokens for cell in CELLS.values()}) == 1
    assert len({cell.run().hash for cell in CELLS.values()}) == len(CELLS)
    base = parameter_count(CELLS[f"{GDN}-s0"].config.model)
    for arm in ARMS:
        own = parameter_count(CELLS[f"{arm}-s0"].config.model)
        assert (abs(own / base - 1) < 0.007) != arm.endswith("-deep")
    for arm in ("loops-1-deep", "loops-2-deep"):
        own, theirs = (CELLS[f"{name}-s0"].columns() for name in (arm, BASE))
        assert own["flops_a_token"] == theirs["flops_a_token"]
        assert own["softmax_visits"] == theirs["softmax_visits"]
        assert 10e6 < own["parameters"] < 60e6


def test_ratios_are_what_they_are_called() -> None:
    counts = [CELLS[f"{arm}-s0"].columns()["softmax_visits"] // 4 for arm in questions()["ratio"]]
    assert counts == [15, 7, 3, 1, 0]
    bookend = CELLS["placement-bookend-s0"].columns()
    assert bookend["softmax_visits"] == CELLS[f"{BASE}-s0"].columns()["softmax_visits"]


def test_questions_come_in_order_and_fit_their_time() -> None:
    cells = tuple(CELLS.values())
    studies = list(dict.fromkeys(cell.study for cell in cells))
    assert studies == list(questions())
    ratio = [cell.config.seed for cell in cells if cell.study == "ratio"]
    assert ratio == [seed for seed in SEEDS for _ in range(5)]
    first = [c for c in cells if c.study in ("ratio", "placement") and c.config.seed == 0]
    assert 8 < sum(map(cell_seconds, first)) / 60 < 20
    assert 60 < sum(map(cell_seconds, cells)) / 60 < 95


def test_a_name_that_no_command_line_takes_is_refused() -> None:
    cell = CELLS[f"{BASE}-s0"]
    with pytest.raises(ValueError, match="arm: got 'a b', allowed are letters"):
        LanguageCell(arm="a b", study="ratio", block=1, config=cell.config)
