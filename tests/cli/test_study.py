"""`lt2 curriculum study` and `merge`: listed, carried out in parts, merged, refused."""

import json
from pathlib import Path

import pytest
import torch

from lt2theory.cli import main
from lt2theory.experiments import studies as studies_of
from lt2theory.experiments.cells import Cell, Cells, in_order
from lt2theory.experiments.studies import smoke
from lt2theory.experiments.study import chosen, plan, published
from lt2theory.experiments.study_cells import loops
from lt2theory.experiments.study_table import read_study_table
from lt2theory.runs import run_status
from lt2theory.training import CurriculumConfig

STUDY = ["curriculum", "study", "smoke", "--device", "cpu"]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Cells:
    """The smoke study with cells that take minutes."""
    changes = {"step_budget": 100_000, "min_steps": 100_000}
    cells = tuple(
        Cell(
            name=cell.name,
            block=cell.block,
            config=CurriculumConfig.model_validate(cell.config.model_dump() | changes),
        )
        for cell in smoke()
    )
    monkeypatch.setattr(studies_of, "studies", lambda: {"smoke": lambda: cells})
    return cells


def test_a_dry_run_lists_costs_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = tmp_path / "study", tmp_path / "plan.json"
    arguments = ["--dry-run", "--out", str(folder), "--json", str(file)]
    assert main([*STUDY, "--cell", "parity-beta2-*", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = [line.split()[0] for line in lines[:4]]
    assert first == ["parity-beta2-s0", "parity-beta2-s1", "left:", "What"]
    assert "80 steps (cap 120)  4.1e+09 FLOPs (cap 6.2e+09)  GPU minutes 0.00" in lines[0]
    assert lines[2].startswith("left: 2 of 2 cells, 160 steps")
    assert lines[2].endswith("GPU minutes")
    assert "  steps by stage of other tasks: equally many on each, an assumption" in lines
    assert not any("of state-based recall" in line for line in lines)
    assert any("one block: of an H200, by task, mixer, loops and" in line for line in lines)
    assert not folder.exists()
    found = json.loads(file.read_text())
    assert [cell["status"] for cell in found["cells"]] == ["absent", "absent"]
    assert found["cells"][0]["steps_by_stage"] == {"8": 40, "12": 40}


def test_an_arm_is_all_its_seeds_and_published_cells_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["curriculum", "study", "loops", "--dry-run", "--out", str(tmp_path / "none")]
    file = tmp_path / "plan.json"
    assert main([*arguments, "--cells", "s5-t2-accumulate", "--json", str(file)]) == 0
    *cells, left, said = capsys.readouterr().out.splitlines()[:5]
    assert [line.split()[0] for line in cells] == [f"s5-t2-accumulate-s{n}" for n in range(3)]
    assert [line.split()[3] for line in cells] == ["published"] * 3
    assert left.startswith("left: 3 of 3 cells")
    assert said == "published: 3 of those left are finished in results/study.parquet"
    assert [row["status"] for row in json.loads(file.read_text())["cells"]] == ["published"] * 3
    # On another device it is another run, which no table has.
    assert main([*arguments, "--cells", "s5-t2-accumulate", "--device", "cpu"]) == 0
    assert "published" not in capsys.readouterr().out


def test_what_a_folder_has_is_not_called_published(tmp_path: Path) -> None:
    cell = smoke()[0]
    run = cell.run()
    everywhere = frozenset({run.hash})
    assert plan((cell,), tmp_path, elsewhere=everywhere)[0]["status"] == "published"
    assert plan((cell,), tmp_path)[0]["status"] == "absent"
    (tmp_path / run.folder).mkdir()
    (tmp_path / run.folder / "config.json").write_text("{}")
    assert plan((cell,), tmp_path, elsewhere=everywhere)[0]["status"] == "unfinished"
    assert published(tmp_path / "study.parquet") == frozenset()


def test_arms_and_patterns_name_cells() -> None:
    cells = tuple(cell for cell in loops() if cell.name.startswith("s5-t2"))
    for patterns, count in (
        (["s5-t2-rescan"], 3), (["s5-t2-rescan-s1"], 1), (["s5-t2-*-s1"], 6),
        (["s5-t2-rescan", "s5-t2-rescan-s1", "s5-t2-accumulate-s0"], 4), (["s5-t2-rescan*"], 9),
    ):  # fmt: skip
        assert len(chosen(cells, patterns)) == count, patterns
    with pytest.raises(ValueError, match="'s5-t2' names none"):
        chosen(cells, ["s5-t2"])


def test_a_dry_run_says_what_was_never_measured(capsys: pytest.CaptureFixture[str]) -> None:
    arms = ["recall-gla-t4-*", "s3-t1-s0"]
    arguments = ["curriculum", "study", "loops", "--dry-run", "--device", "cuda"]
    assert main([*arguments, "--cells", *arms]) == 0
    word, recall, left, *basis = capsys.readouterr().out.splitlines()
    assert recall.split()[0] == "recall-gla-t4-s0"
    assert recall.endswith("(estimated)")
    assert "GPU minutes" in word
    assert "estimated" not in word
    assert left.endswith("GPU minutes (estimated for 1 of them)")
    assert any("of state-based recall: as two finished cells" in line for line in basis)
    assert any("equally many on each, an assumption" in line for line in basis)
    assert any("for words and parity the mean of finished cells" in line for line in basis)
    assert "more blocks: of an H200, by steps and products as finished cells" in basis[-1]


def test_cells_in_parts_and_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, table = tmp_path / "one", tmp_path / "other", tmp_path / "table.parquet"
    assert main([*STUDY, "--cells", "*beta1*", "--out", str(one)]) == 0
    assert main([*STUDY, "--out", str(other), "--at-once", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(other)
    stamp = [path.stat().st_mtime_ns for path in sorted(other.glob("*/summary.json"))]
    assert main([*STUDY, "--out", str(other)]) == 0
    assert stamp == [path.stat().st_mtime_ns for path in sorted(other.glob("*/summary.json"))]
    merge = ["curriculum", "merge", "--out", str(table), "--sources", str(one), str(other)]
    assert main(merge) == 0
    first = read_study_table(table)
    assert first["config_hash"].nunique() == 3
    assert main(merge) == 0
    assert read_study_table(table).equals(first)


def test_the_end_of_the_time_is_resumable(
    tmp_path: Path, slow: Cells, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*STUDY, "--out", str(tmp_path), "--minutes", "0.02", "--json"]
    assert main([*arguments, str(tmp_path / "a.json")]) == 130
    first = in_order(slow)[0].run().folder
    assert run_status(tmp_path / first) == "unfinished"
    names = [cell.name for cell in in_order(slow)]
    said = capsys.readouterr().out.splitlines()[-3:]
    assert said[0] == f"begun, to be gone on with (1): {names[0]}"
    assert said[1] == f"not begun (2): {' '.join(names[1:])}"
    session = json.loads((tmp_path / "a.json").read_text())["session"]
    assert [end["state"] for end in session.values()] == ["stopped", "waiting", "waiting"]
    assert set(read_study_table(tmp_path)["status"]) == {"unfinished"}
    steps = read_study_table(tmp_path)["progress"].max()
    assert main([*arguments, str(tmp_path / "b.json")]) == 130
    assert read_study_table(tmp_path)["progress"].max() >= steps


def test_a_failed_cell_is_exit_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / smoke()[0].run().folder
    folder.mkdir()
    (folder / "notes.txt").write_text("not a run")
    assert main([*STUDY, "--out", str(tmp_path)]) == 1
    assert "is not empty and not a run" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["study", "smokes"],
            "study: 'smokes' is not allowed, perhaps you meant smoke (choose from loops, ",
        ),
        (["study", "smoke", "--minutes", "0"], "minutes: got 0.0, allowed are numbers > 0"),
        (["study", "smoke", "--at-once", "0"], "--at-once: got 0, allowed are whole numbers >= 1"),
        (["study", "smoke", "--cell", "b"], "cells: 'b' names none of the 3 cells (such as "),
        (["merge", "--out", "t.csv"], "--out: 't.csv' is not allowed (must end in .parquet)"),
        (["merge", "--out", "t.parquet"], "--sources: no value given"),
    ],
)
def test_bad_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["curriculum", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--cells", "--cell"])
def test_a_flag_without_a_pattern_is_refused_before_anything_is_written(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, file = tmp_path / "study", tmp_path / "plan.json"
    where = ["--out", str(folder), "--json", str(file)]
    for more in ([], ["--dry-run"]):
        assert main([*STUDY, flag, *where, *more]) == 2
        message = "cells: got no pattern, allowed are one or more (such as parity-beta1-s0, "
        assert message in capsys.readouterr().err
        assert not list(tmp_path.iterdir())
    assert main([*STUDY, *where, "--dry-run"]) == 0
    assert len(json.loads(file.read_text())["cells"]) == 3, "without the flag they are all meant"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_device_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    assert main(["curriculum", "study", "smoke", "--out", str(tmp_path / "s")]) == 2
    assert not (tmp_path / "s").exists()
