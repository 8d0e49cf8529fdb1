"""`lt2 train study` and `merge` from arguments to a table, and their refusals in one line."""

import json
from pathlib import Path

import pytest

from lt2theory.cli import main
from lt2theory.cli.errors import BAD_USAGE, CHECK_FAILED, DONE, INTERRUPTED
from lt2theory.experiments.language import arms, carry
from lt2theory.experiments.language.table import TABLE, read_language_table
from tests.experiments.language.cut import make_corpus
from tests.experiments.language.killed import small_cells


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Two cut cells under the name of the study, and the arguments for them."""
    monkeypatch.setattr(arms, "language_cells", small_cells)
    data = make_corpus(tmp_path / "corpus")
    given = ["--data", str(data), "--device", "cpu", "--out", str(tmp_path / "o")]
    return ["train", "study", "language", *given]


def test_a_study_goes_on_until_its_table_is_whole(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names, said = [cell.name for cell in small_cells()], tmp_path / "said.json"
    assert main([*small, "--dry-run"]) == DONE
    assert "left: 2 of 2 cells" in capsys.readouterr().out
    assert not (tmp_path / "o").exists()
    assert main([*small, "--minutes", "1e-9"]) == INTERRUPTED
    assert "0 of 2 cells are done" in capsys.readouterr().out
    assert main([*small, "--cells", "loops-1"]) == DONE
    assert main([*small, "--json", str(said)]) == DONE
    assert capsys.readouterr().out.endswith(f"2 of 2 cells are done\n{tmp_path / 'o'}\n")
    assert [row["status"] for row in json.loads(said.read_text())["cells"]] == ["done", "done"]
    assert set(read_language_table(tmp_path / "o")["cell"]) == set(names)
    merged = tmp_path / TABLE
    for _ in range(2):
        given = ["--out", str(merged), "--sources", str(tmp_path / "o")]
        assert main(["train", "merge", *given]) == DONE
    assert set(read_language_table(merged)["cell"]) == set(names)
    assert "2 cells" in capsys.readouterr().out


def test_a_cell_that_fails_spares_the_others(
    small: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train_in = carry.train_in

    def broken(session, config, *given, **named):  # type: ignore[no-untyped-def]
        if config.model.num_loops == 1:
            raise RuntimeError("no such kernel")
        return train_in(session, config, *given, **named)

    monkeypatch.setattr(carry, "train_in", broken)
    assert main(small) == CHECK_FAILED
    out = capsys.readouterr().out
    assert "loops-1-s0: failed" in out
    assert "RuntimeError: no such kernel" in out
    assert "left (1): loops-1-s0" in out


def test_all_cells_have_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "study", "language", "--dry-run"]) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 58
    assert all("26,214,400 tokens" in line and "estimated" in line for line in lines[:-1])
    assert lines[-1].startswith("left: 57 of 57 cells, ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["study"], "study: no name given (choose from language)"),
        (["study", "languages"], "study: 'languages' is not allowed, perhaps you meant language"),
        (["study", "language", "--device", "cpu"], "--data: no value given"),
        (["study", "language", "--device", "cpu", "--data", "/nix"], "/nix"),
        (["study", "language", "--cells", "nix*"], "cells: 'nix*' names none of the 57 cells"),
        (["study", "language", "--minutes", "0"], "minutes: got 0.0"),
        (["study", "language", "--checkpoint-every", "0"], "checkpoint-every: got 0"),
        (["merge", "--out", "a.csv"], "--out: 'a.csv' is not allowed"),
        (["merge", "--out", "a.parquet"], "--sources: no value given"),
    ],
)
def test_refusals(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == BAD_USAGE
    said = capsys.readouterr()
    assert message in said.err
    assert "\n" not in said.err.strip()
