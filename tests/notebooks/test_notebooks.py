"""The notebooks: scripts and generated files agree, nothing is stored, and each has its frame.

`make notebooks` executes them all.
"""

import ast
import json
from pathlib import Path

import jupytext
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
SCRIPTS = sorted(FOLDER.glob("*.py"))
MOST_LINES = 120
"""Lines of code: a notebook calls the library."""

every_notebook = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def cells(path: Path) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in jupytext.read(path).cells]


def code(path: Path) -> str:
    lines = [line for kind, text in cells(path) if kind == "code" for line in text.splitlines()]
    return "\n".join(line for line in lines if not line.startswith("%"))


def test_there_are_notebooks() -> None:
    assert len(SCRIPTS) == 8
    assert [p.stem for p in SCRIPTS] == [p.stem for p in sorted(FOLDER.glob("*.ipynb"))]


@every_notebook
def test_generated_file_is_that_of_the_script(script: Path) -> None:
    assert cells(script.with_suffix(".ipynb")) == cells(script), "run: make notebooks-sync"


@every_notebook
def test_nothing_that_was_computed_is_stored(script: Path) -> None:
    stored = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
    code_cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code_cells)


@every_notebook
def test_opens_with_a_question_and_ends_with_what_to_try_next(script: Path) -> None:
    (first, question), *_, (last, ideas) = cells(script)
    assert (first, last) == ("markdown", "markdown")
    title = question.splitlines()[0]
    assert title.startswith("# ")
    assert title.endswith("?")
    assert ideas.startswith("## What to try next\n")
    assert ideas.count("\n- ") >= 3


@every_notebook
def test_calls_the_library_and_has_no_logic(script: Path) -> None:
    """No loops, branches or functions of its own; only 08 defines a class, the reader's mixer."""
    tree = ast.parse(code(script))
    kinds = ast.For | ast.While | ast.If | ast.Try | ast.With
    assert not [node for node in ast.walk(tree) if isinstance(node, kinds)]
    defined = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    assert len(defined) == (1 if script.stem.startswith("08") else 0)
    assert len([line for line in code(script).splitlines() if line.strip()]) <= MOST_LINES


@every_notebook
def test_takes_tiny_settings_in_the_checks(script: Path) -> None:
    assert "FAST = is_fast()" in code(script)
