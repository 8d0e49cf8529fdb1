"""What a release must agree on: versions, types, and what a source distribution holds."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import lt2theory

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TARGETS = PROJECT["tool"]["hatch"]["build"]["targets"]


def test_versions_agree() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.search(r"^version: (\S+)$", citation, re.MULTILINE)
    assert cited is not None
    assert PROJECT["project"]["version"] == lt2theory.__version__ == cited[1]


def test_changes_since_the_last_release_have_a_place() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## Unreleased$", changes, re.MULTILINE)


def test_every_package_is_typed() -> None:
    packages = TARGETS["wheel"]["packages"]
    assert all((ROOT / name / "py.typed").exists() for name in packages)


def test_a_source_distribution_holds_the_tree() -> None:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    tree = {name.split("/")[0] for name in listing.stdout.split("\0") if name}
    given = {"pyproject.toml", ".gitignore"}  # hatchling adds these by itself
    assert {name.removeprefix("/") for name in TARGETS["sdist"]["include"]} == tree - given
