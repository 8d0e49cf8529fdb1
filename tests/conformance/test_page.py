"""The record of the marked tests, and the page that is made of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lt2theory.mixers import MIXERS
from tests.conformance.page import PAGE, IncompleteError, entry_of, main, read, render
from tests.conformance.table import ANY_BACKEND, OF_MIXERS, PROPERTIES, backends, why_empty

ROOT = Path(__file__).parents[2]


def whole() -> dict[str, dict[str, object]]:
    """A record in which one test shows every cell that has to have one."""
    columns = {ANY_BACKEND: OF_MIXERS} | dict.fromkeys(backends(), PROPERTIES)
    cells = [
        [mixer, backend, name]
        for backend, names in columns.items()
        for mixer in MIXERS
        for name in names
        if why_empty(mixer, backend, name) is None
    ]
    return {"tests/test_a.py::test_all": {"cells": cells, "outcome": "passed"}}


def written(folder: Path, **sessions: dict[str, dict[str, object]]) -> Path:
    for name, tests in sessions.items():
        (folder / f"{name}.json").write_text(json.dumps(tests))
    return folder


def test_a_full_record_makes_a_page(tmp_path: Path) -> None:
    page = render(read(written(tmp_path, fast=whole()).glob("*.json")))
    for mixer in MIXERS:
        assert f"| `{mixer}` | " in page
    for name, meaning in (PROPERTIES | OF_MIXERS).items():
        assert f"**{name}**: {meaning}." in page
    assert "\n- `tests/test_a.py::test_all`" in page
    assert "| yes |" in page
    assert "|  |" not in page


@pytest.mark.parametrize("name", [*PROPERTIES, *OF_MIXERS])
def test_a_cell_that_lost_its_test_is_named(tmp_path: Path, name: str) -> None:
    record = whole()
    (entry,) = record.values()
    backend = "reference" if name in PROPERTIES else ANY_BACKEND
    entry["cells"] = [cell for cell in entry["cells"] if cell != ["gdn", backend, name]]
    with pytest.raises(IncompleteError, match=f"^gdn, {backend}, {name}: no test shows it"):
        render(read(written(tmp_path, fast=record).glob("*.json")))


def test_a_failure_counts_more_than_a_pass(tmp_path: Path) -> None:
    cell = ["gdn", "chunked", "values"]
    failed = {"tests/test_b.py::test_b[1]": {"cells": [cell], "outcome": "failed"}}
    cells = read(written(tmp_path, fast=whole(), slow=failed).glob("*.json"))
    with pytest.raises(IncompleteError, match=r"gdn, chunked, values: failed in .*test_b\[1\]"):
        render(cells)


def test_a_test_skipped_in_one_session_was_run_in_another(tmp_path: Path) -> None:
    name, cell = "tests/test_b.py::test_b", ("gdn", "chunked", "values")
    skipped = {name: {"cells": [cell], "outcome": "skipped"}}
    passed = {name: {"cells": [cell], "outcome": "passed"}}
    folder = written(tmp_path, a=skipped)
    assert entry_of(read(folder.glob("*.json")), *cell) == "GPU"
    written(tmp_path, b=passed, c=skipped)
    assert entry_of(read(folder.glob("*.json")), *cell) == "yes"


def test_the_command_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, folder = tmp_path / "page.md", tmp_path / "record"
    folder.mkdir()
    monkeypatch.setattr("tests.conformance.page.PAGE", page)
    assert main([str(folder)]) == 1
    assert "no test shows it" in capsys.readouterr().err
    written(folder, fast=whole())
    assert main([str(folder), "--check"]) == 1  # there is no page yet
    assert main([str(folder)]) == 0
    assert main([str(folder), "--check"]) == 0
    page.write_text(page.read_text().replace("yes", "no", 1))
    assert main([str(folder), "--check"]) == 1
    assert "is not what the tests gave" in capsys.readouterr().err


SESSION = """
import pytest

@pytest.fixture
def broken():
    raise OSError

@pytest.mark.conforms("values", "gradients", mixer=("full", "window"), backend="chunked")
def test_passes(): pass

@pytest.mark.conforms("causality")
@pytest.mark.parametrize(("mixer", "backend"), [("gdn", "fla"), (None, "fla")])
def test_fails(mixer, backend): assert False

@pytest.mark.conforms("packing", mixer=lambda given: given["x"], backend="reference")
@pytest.mark.parametrize("x", ["kda"])
def test_cannot_start(x, broken): pass

@pytest.mark.conforms("padding", mixer="gla", backend="reference")
@pytest.mark.skip
def test_skipped(): pass
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_session_is_recorded(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_session.py").write_text(SESSION)
    conftest = "from tests.conftest import *\n"
    (tmp_path / "conftest.py").write_text(conftest)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers]
    where = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)]
    subprocess.run(
        [*command, *where, "--conformance", str(tmp_path / "a" / "b.json")],
        cwd=ROOT, check=False, capture_output=True,
    )  # fmt: skip
    tests = json.loads((tmp_path / "a" / "b.json").read_text())
    found = {name.split("::")[1]: (t["cells"], t["outcome"]) for name, t in tests.items()}
    both = [[m, "chunked", p] for m in ("full", "window") for p in ("values", "gradients")]
    assert found == {
        "test_passes": (both, "passed"),
        "test_fails[gdn-fla]": ([["gdn", "fla", "causality"]], "failed"),
        "test_cannot_start[kda]": ([["kda", "reference", "packing"]], "failed"),
        "test_skipped": ([["gla", "reference", "padding"]], "skipped"),
    }


def test_every_mixer_is_on_the_committed_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in MIXERS if f"`{name}`" not in page] == []
