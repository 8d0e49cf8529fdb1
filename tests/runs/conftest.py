"""A run folder to write into, and what tests need to fill it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs import RunFolder

Writing = Callable[..., AbstractContextManager[RunFolder]]


@pytest.fixture(autouse=True)
def fixed_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit made while the tests run must not look like a change of environment."""
    monkeypatch.setattr("lt2theory.runs.environment.source_revision", lambda: "revision")


@pytest.fixture
def config() -> dict[str, Any]:
    return {"width": 8, "label": "arm", "task": {"name": "parity", "knobs": {"distance": 3}}}


@pytest.fixture
def identity() -> dict[str, Any]:
    return {"label": "arm", "seed": 3, "task": "parity"}


@pytest.fixture
def writing(tmp_path: Path, config: dict[str, Any], identity: dict[str, Any]) -> Writing:
    def enter(path: Path | None = None, **changes: Any) -> AbstractContextManager[RunFolder]:
        arguments = {"kind": "curriculum", "config": config, "identity": identity} | changes
        return RunFolder.writing(path or tmp_path / "run", **arguments)

    return enter


@pytest.fixture
def run(writing: Writing) -> Iterator[RunFolder]:
    with writing() as folder:
        yield folder
