import json
from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs.environment import capture, differences, last_environment, record, sources


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
    assert last_environment(tmp_path) == {}
    assert record(tmp_path, environment, step=0) == []
    assert record(tmp_path, environment, step=5) == []
    assert last_environment(tmp_path) == environment
    other = environment | {"threads": 7}
    with pytest.warns(UserWarning, match=r"resumed at step 9 .*threads: 1 -> 7"):
        assert record(tmp_path, other, step=9) == ["threads: 1 -> 7"]
    assert record(tmp_path, other, step=12) == []
    assert last_environment(tmp_path) == other
    found = json.loads((tmp_path / "environment.json").read_text())
    assert found["created"] == environment
    assert [entry["step"] for entry in found["resumed"]] == [9]


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


def test_the_sources_of_all_sessions(tmp_path: Path) -> None:
    assert sources(tmp_path) == "unknown"
    environment = capture(threads=1) | {"source": None}
    record(tmp_path, environment, step=0)
    assert sources(tmp_path) == "unknown"
    for step, source in enumerate(("1a2b", "3c4d+changes", "1a2b")):
        with pytest.warns(UserWarning, match="resumed at step"):
            record(tmp_path, environment | {"source": source}, step=step + 1)
    assert sources(tmp_path) == "unknown, 1a2b, 3c4d+changes"
