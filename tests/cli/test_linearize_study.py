"""`lt2 linearize study` and `merge` from arguments to a table, and their refusals in one line."""

import json
from pathlib import Path

import pytest

from lt2theory.cli import main
from lt2theory.cli.errors import BAD_USAGE, CHECK_FAILED, DONE, INTERRUPTED
from lt2theory.experiments.linearization import carry, studies
from lt2theory.experiments.linearization.cells import LinearCells
from lt2theory.experiments.linearization.table import TABLE, read_linear_table
from tests.experiments.linearization.cut import cut, make_materials

NAMES = ("starts-conv-width-0-s0", "starts-decay-own-s0")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Two cut cells under the name of a study, and the arguments for them."""
    known = {cell.name: cell for cell in studies.study_cells("starts")}
    cells = tuple(cut(known[name]) for name in NAMES)

    def study_cells(name: str, *, tokens: int | None = None) -> LinearCells:
        assert name == "starts"
        return cells

    monkeypatch.setattr(studies, "study_cells", study_cells)
    materials = make_materials(tmp_path / "materials", tmp_path / "materials")
    given = ["--text", str(materials.text), "--teacher", str(materials.real)]
    return ["linearize", "study", "starts", *given, "--device", "cpu", "--out", str(tmp_path / "o")]


def test_a_study_goes_on_until_its_table_is_whole(
    small: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = tmp_path / "said.json"
    assert main([*small, "--dry-run"]) == DONE
    assert "left: 2 of 2 cells" in capsys.readouterr().out
    assert not (tmp_path / "o").exists()
    assert main([*small, "--minutes", "1e-9"]) == INTERRUPTED
    assert "0 of 2 cells are done" in capsys.readouterr().out
    assert main([*small, "--cells", NAMES[1]]) == DONE
    assert main([*small, "--json", str(said)]) == DONE
    assert capsys.readouterr().out.endswith(f"2 of 2 cells are done\n{tmp_path / 'o'}\n")
    assert [row["status"] for row in json.loads(said.read_text())["cells"]] == ["done", "done"]
    table = read_linear_table(tmp_path / "o")
    assert set(table["cell"]) == set(NAMES)
    merged = tmp_path / TABLE
    for _ in range(2):
        assert (
            main(["linearize", "merge", "--out", str(merged), "--sources", str(tmp_path / "o")])
            == 0
        )
    assert len(read_linear_table(merged)) == len(table)
    assert "2 cells" in capsys.readouterr().out


def test_a_cell_that_fails_spares_the_others(
    small: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_recipe = carry.run_recipe

    def broken(recipe, *given, **named):  # type: ignore[no-untyped-def]
        if recipe.changes.get("conv_width") == 0:
            raise RuntimeError("no such kernel")
        return run_recipe(recipe, *given, **named)

    monkeypatch.setattr(carry, "run_recipe", broken)
    assert main(small) == CHECK_FAILED
    out = capsys.readouterr().out
    assert f"{NAMES[0]}: failed" in out
    assert "RuntimeError: no such kernel" in out
    assert "1 of 2 cells are done" in out
    assert f"left (1): {NAMES[0]}" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["study"], "study: no name given (choose from mixers, hybrids"),
        (
            ["study", "mixer"],
            "study: 'mixer' is not allowed, perhaps you meant mixers (choose from mixers",
        ),
        (["study", "mixers", "--device", "cpu"], "--text: no value given"),
        (["study", "mixers", "--text", "x"], "--teacher: no value given, which 18 cells need"),
        (["study", "mixers", "--cells"], "cells: got no pattern, allowed are one or more (such as"),
        (["study", "mixers", "--cells", "nix*"], "cells: 'nix*' names none of the 18 cells"),
        (["study", "mixers", "--minutes", "0"], "minutes: got 0.0"),
        (["study", "mixers", "--tokens", "0"], "tokens: got 0"),
        (["study", "mixers", "--tokens", "9"], "tokens: 9 are not enough"),
        (["study", "all", "--tokens", "9"], "tokens: is not allowed with 'all'"),
        (["study", "sizes", "--device", "cpu", "--text", "/nix", "--out", "o"], "done"),
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
    code = main(["linearize", *arguments])
    said = capsys.readouterr()
    if message == "done":  # every cell says so itself
        assert code == CHECK_FAILED
        assert "ValueError: text: '/nix' is not there" in said.out
        return
    assert code == BAD_USAGE
    assert message in said.err
    assert "\n" not in said.err.strip()
