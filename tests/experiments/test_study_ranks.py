"""Ranks of trained models: measured once, kept in the run's folder, part of the study's table."""

from pathlib import Path
from typing import Any

import pytest

from lt2theory.experiments.cells import Cell
from lt2theory.experiments.study_cells import loops
from lt2theory.experiments.study_rank_rows import FILE, RANKS, rank_rows
from lt2theory.experiments.study_ranks import main, measure, measured
from lt2theory.experiments.study_table import TABLE, read_study_table, study_table
from lt2theory.experiments.study_words import exact_start
from lt2theory.runs import RunFolder, Study, read_json, write_json
from lt2theory.training import CurriculumConfig, load_model, run_curriculum
from tests.kernel_runs import name_kernels


@pytest.fixture
def trained(tmp_path: Path, tiny: Any) -> tuple[Cell, RunFolder]:
    """The exact start after a step of almost no length."""
    config = tiny(exact_start())
    still = {"learning_rate": 1e-9, "warmup_steps": 0}
    config = CurriculumConfig.model_validate(
        config.model_dump() | {"optimiser": still, "test_stages": ()}
    )
    cell = Cell(name="exact", block=2, config=config)
    Study.create(tmp_path, [cell.run()], kind="curriculum")
    run_curriculum(cell.resolved, tmp_path / cell.run().folder)
    return cell, RunFolder.open(tmp_path / cell.run().folder)


def test_a_model_is_measured_once(trained: tuple[Cell, RunFolder]) -> None:
    cell, run = trained
    assert list(rank_rows(run)) == []
    assert measure([run]) == 1
    found = read_json(run.path / FILE)
    # Heads that only one loop or none lets act have a rank below two, the drawn ones two.
    assert found["largest_rank"] == 2
    assert 1 < found["entropy_rank"] <= 2
    # The second loop's reflection follows the parity that the first has read (theory L6).
    assert found["beyond_token"] > 0.1
    assert found["transitions"] == 64 * 16 * cell.config.model.num_heads
    write_json(run.path / FILE, {"entropy_rank": 1.5})
    assert measure([run]) == 0
    table = study_table((cell,), run.path.parent)
    rows = table[table["split"] == RANKS]
    assert rows[["metric", "value", "cell"]].to_numpy().tolist() == [["entropy_rank", 1.5, "exact"]]


def test_a_model_is_loaded_once(
    trained: tuple[Cell, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []

    def load(folder: Path) -> Any:
        loaded.append(folder)
        return load_model(folder)

    monkeypatch.setattr("lt2theory.experiments.measures.load_model", load)
    _, run = trained
    assert measure([run]) == 1
    assert loaded == [run.path]


def test_a_model_that_a_gpu_trained_is_measured_on_the_cpu(trained: tuple[Cell, RunFolder]) -> None:
    _, run = trained
    expected = measured(run.path)
    name_kernels(run.path)
    assert measure([RunFolder.open(run.path)]) == 1
    assert read_json(run.path / FILE) == expected


def test_other_tasks_and_mixers_have_no_rank_to_measure(saved_run: Any) -> None:
    parity = next(cell.config for cell in loops() if cell.config.task.name == "parity")
    folder = saved_run(parity)
    assert measure([RunFolder.open(folder)]) == 0
    assert not (folder / FILE).exists()


def test_the_command_writes_the_table(
    trained: tuple[Cell, RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, run = trained
    monkeypatch.setattr("lt2theory.experiments.study_ranks.loops", lambda: (cell,))
    assert main([]) == 2
    assert main([str(run.path.parent)]) == 0
    table = read_study_table(run.path.parent / TABLE)
    assert (table["split"] == RANKS).sum() == 7
