import shutil
import subprocess
from pathlib import Path

import pytest

from lt2theory.runs import revision
from lt2theory.runs.revision import BUILD_RECORD, source_revision


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
    monkeypatch.setattr(revision, "__file__", str(package / "revision.py"))
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
    ("record", "found"),
    [
        (None, None),
        ('{"source": "abc+changes"}', "abc+changes"),
        ('{"source": null}', None),
        ('["abc"]', None),
        ("{", None),
    ],
)
def test_a_built_package_says_what_it_was_built_from(
    record: str | None, found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revision, "__file__", str(tmp_path / "lt2theory" / "runs" / "revision.py"))
    (tmp_path / "lt2theory").mkdir()
    if record is not None:
        (tmp_path / "lt2theory" / BUILD_RECORD).write_text(record)
    assert source_revision() == found
