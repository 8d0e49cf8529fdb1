import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs import environment as environments
from lt2theory.runs.environment import capture, differences, record, source_revision


@pytest.fixture
def environment() -> dict[str, Any]:
    return capture(threads=1)


def test_capture_names_versions_and_nobody(environment: dict[str, Any]) -> None:
    import socket

    import torch

    text = json.dumps(environment)
    assert environment["packages"]["torch"] == torch.__version__
    assert environment["threads"] == 1
    assert socket.gethostname() not in text
    assert str(Path.home()) not in text or str(Path.home()) == "/"


def test_same_environment_has_no_differences(environment: dict[str, Any]) -> None:
    assert differences(environment, capture(threads=1)) == []


def test_differences_are_named(environment: dict[str, Any]) -> None:
    packages = environment["packages"] | {"torch": "0.1"}
    other = environment | {"threads": 2, "packages": packages}
    now = environment["packages"]["torch"]
    assert differences(other, environment) == ["threads: 2 -> 1", f"torch: 0.1 -> {now}"]


def test_a_resume_under_other_versions_warns_once_and_is_kept(
    tmp_path: Path, environment: dict[str, Any]
) -> None:
    assert record(tmp_path, environment, step=0) == []
    assert record(tmp_path, environment, step=5) == []
    other = environment | {"threads": 7}
    with pytest.warns(UserWarning, match=r"resumed at step 9 .*threads: 1 -> 7"):
        assert record(tmp_path, other, step=9) == ["threads: 1 -> 7"]
    assert record(tmp_path, other, step=12) == []
    found = json.loads((tmp_path / "environment.json").read_text())
    assert found["created"] == environment
    assert [entry["step"] for entry in found["resumed"]] == [9]


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_revision_is_that_of_our_own_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "lt2theory" / "runs"
    package.mkdir(parents=True)
    monkeypatch.setattr(environments, "__file__", str(package / "environment.py"))
    git(tmp_path, "init", "-q")
    assert source_revision() is None  # inside somebody else's repository

    root = tmp_path / "site"
    git(root, "init", "-q")
    assert source_revision() is None  # without a commit
    (root / "a").write_text("1")
    git(root, "add", "a")
    git(root, "commit", "-q", "-m", "one")
    assert source_revision() == git(root, "rev-parse", "HEAD")
    (root / "a").write_text("2")
    assert source_revision() == git(root, "rev-parse", "HEAD") + "+changes"


@pytest.mark.parametrize(
    "text",
    ["{}", '{"created": 1, "resumed": []}', '{"created": {}, "resumed": 3}',
     '{"created": {}, "resumed": [{"step": 1}]}', '{"created": {}, "resumed": [1]}'],
)  # fmt: skip
def test_a_damaged_record_is_named(text: str, tmp_path: Path, environment: dict[str, Any]) -> None:
    path = tmp_path / "environment.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"environment\.json is damaged: it does not hold"):
        record(tmp_path, environment, step=1)
    assert path.read_text() == text
