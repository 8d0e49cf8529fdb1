"""Sessions of the study: killed and continued, timed, packed and unpacked."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from lt2theory.experiments.language import carry
from lt2theory.experiments.language.arms import BASE, language_cells
from lt2theory.experiments.language.carry import TRAINED, Materials, run_cell
from lt2theory.experiments.language.minutes import PRICES, cell_seconds, price_kind
from lt2theory.experiments.language.session import carry_out_language, language_plan
from lt2theory.experiments.language.table import (
    TABLE,
    language_table,
    merge_language,
    read_language_table,
)
from lt2theory.experiments.serial import SerialSession
from lt2theory.experiments.study_travel import pack, unpack
from lt2theory.runs import RunFolder, run_status
from lt2theory.runs.jsonl import read_lines
from lt2theory.runs.layout import METRICS
from lt2theory.training.lm.records import LmSummary
from lt2theory.training.sharing import SESSIONS
from lt2theory.training.text import Corpus, CorpusConfig, prepare
from tests.experiments.language.cut import cut, make_materials
from tests.experiments.language.killed import small_cells

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("text") / "corpus"
    make_materials(made, made)
    return made


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("undisturbed") / "root"
    cells = small_cells()
    ends = carry_out_language(cells, cells, SerialSession(), make_materials(corpus, root))
    assert {name: (end.state, end.message) for name, end in ends.items()} == {
        cell.name: ("done", "") for cell in cells
    }
    return root


def told(path: Path) -> pd.DataFrame:
    """The rows of a table but for times, and what differs between machines."""
    table = read_language_table(path)
    kept = table[~table["part"].isin(["speed", "cost"])].reset_index(drop=True)
    return kept.drop(columns=["sessions", "source"])


@pytest.mark.filterwarnings("ignore:.* is resumed at step:UserWarning")  # the source changes
def test_killed_and_continued_gives_the_same_bytes(
    corpus: Path, undisturbed: Path, tmp_path: Path
) -> None:
    """Cells of three steps: killed in the second, and again in the second cell's."""
    cells = small_cells()
    command = [sys.executable, "-m", "tests.experiments.language.killed"]
    for step in ("2", "4"):
        done = subprocess.run([*command, corpus, tmp_path, step], cwd=ROOT, check=False)
        assert done.returncode == -9
    assert [run_status(tmp_path / cell.run().folder) for cell in cells] == ["done", "unfinished"]
    ends = carry_out_language(cells, cells, SerialSession(), make_materials(corpus, tmp_path))
    assert {end.state: end.message for end in ends.values()} == {"done": ""}
    pd.testing.assert_frame_equal(told(tmp_path), told(undisturbed))
    for cell in cells:
        own, theirs = (
            (root / cell.run().folder / TRAINED / METRICS).read_bytes()
            for root in (tmp_path, undisturbed)
        )
        assert own == theirs


def test_what_is_done_is_not_done_again(corpus: Path, undisturbed: Path) -> None:
    cells = small_cells()
    again = carry_out_language(cells, cells, SerialSession(), make_materials(corpus, undisturbed))
    assert again == {}
    table = read_language_table(undisturbed)
    assert set(table["cell"]) == {cell.name for cell in cells}
    pd.testing.assert_frame_equal(table, merge_language([table, table]))


def test_time_that_is_over_leaves_a_checkpoint(corpus: Path, tmp_path: Path) -> None:
    cells = small_cells()
    ends = carry_out_language(
        cells, cells, SerialSession(seconds=1e-6), make_materials(corpus, tmp_path)
    )
    assert {end.state for end in ends.values()} <= {"stopped", "waiting"}
    assert read_language_table(tmp_path)["status"].isin(["unfinished"]).all()


def test_rows_travel(undisturbed: Path, tmp_path: Path) -> None:
    packed = pack(undisturbed, tmp_path / "packed")
    assert (packed.runs, packed.weights, packed.left) == (2, (), ())
    unpack(tmp_path / "packed", tmp_path / "there")
    cells = small_cells()
    assert [row["status"] for row in language_plan(cells, tmp_path / "there")] == ["done", "done"]
    pd.testing.assert_frame_equal(
        read_language_table(tmp_path / "there" / TABLE), read_language_table(undisturbed)
    )
    pd.testing.assert_frame_equal(
        language_table(cells, tmp_path / "there"), read_language_table(undisturbed)
    )


def test_prices_follow_what_finished_cells_took(undisturbed: Path) -> None:
    known = {cell.name: cell for cell in language_cells()}
    done, left = small_cells()[0], known["ratio-1to1-s1"]
    assert price_kind(done) == price_kind(left)
    taken = sum(x["device_seconds"] for x in read_lines(undisturbed / done.run().folder / SESSIONS))
    factor = taken / cell_seconds(done)
    assert PRICES.factors([done, left], undisturbed) == {"full-gdn-rescan": pytest.approx(factor)}
    (row,) = language_plan((left,), undisturbed)
    assert row["gpu_minutes"] == pytest.approx(cell_seconds(left) / 60)
    accumulating, plain = known["state-accumulate-s0"], known["ratio-0to1-s0"]
    assert cell_seconds(accumulating) > 1.3 * cell_seconds(plain)


def test_a_run_that_diverges_is_done_without_bits(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_in = carry.train_in

    def diverging(*given, **named) -> LmSummary:  # type: ignore[no-untyped-def]
        summary: LmSummary = train_in(*given, **named)
        return summary.model_copy(update={"status": "diverged", "not_finite": 6})

    monkeypatch.setattr(carry, "train_in", diverging)
    cell = small_cells()[1]
    run_cell(cell, tmp_path / cell.run().folder, make_materials(corpus, tmp_path))
    table = language_table((cell,), tmp_path)
    assert set(table["outcome"]) == {"diverged"}
    values = table[table["part"] == "training"].set_index("metric")["value"]
    assert (values["diverged"], values["not_finite"]) == (1.0, 6.0)
    assert not table["part"].isin(["document", "speed", "loop_gate"]).any()


def test_graphs_buffers_give_a_cell_too(corpus: Path, tmp_path: Path) -> None:
    """As on a GPU; on a CPU the same buffers without graphs."""
    known = {cell.name: cell for cell in language_cells()}
    cell = cut(known[f"{BASE}-s0"])
    run_cell(cell, tmp_path / "cell", make_materials(corpus, tmp_path, cuda_graph=True))
    assert RunFolder.open(tmp_path / "cell").status == "done"


def test_another_text_is_refused(undisturbed: Path, tmp_path: Path) -> None:
    """Wherever it lies: equal bytes are the same text."""
    cell = small_cells()[0]
    folder = undisturbed / cell.run().folder
    run_cell(cell, folder, make_materials(tmp_path / "same", undisturbed))
    text, other = tmp_path / "same-text", tmp_path / "other"
    (text / "0.txt").write_text("Another note.\n")
    prepare(CorpusConfig(sources=(str(text),), eval_share=0.2, test_share=0.2), other)
    with pytest.raises(ValueError, match="of another configuration"):
        run_cell(cell, folder, Materials(undisturbed, Corpus(other)))
