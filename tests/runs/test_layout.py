import json
from typing import Any

import pytest

from lt2theory.runs import RunFolder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"identity": 3}, "identity lacks label, seed or task"),
        ({"identity": {"label": "a", "seed": 1}}, "identity lacks label, seed or task"),
        ({"config": [1]}, "config is no object"),
    ],
)
def test_a_damaged_header_is_named(run: RunFolder, changes: dict[str, Any], message: str) -> None:
    header = json.loads((run.path / "config.json").read_text()) | changes
    (run.path / "config.json").write_text(json.dumps(header))
    with pytest.raises(ValueError, match=rf"config\.json is damaged: {message}"):
        RunFolder.open(run.path)


def test_an_edited_configuration_is_noticed(run: RunFolder) -> None:
    header = json.loads((run.path / "config.json").read_text())
    header["config"]["width"] = 16
    (run.path / "config.json").write_text(json.dumps(header))
    with pytest.raises(ValueError, match=r"config\.json was edited"):
        RunFolder.open(run.path)
