"""Evidence: which runs left a model behind."""

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("diverged", [False, True])
def test_diverged_runs_leave_no_model(make_evidence: Any, outcome: Any, diverged: bool) -> None:
    evidence = make_evidence(
        [
            outcome("a", 0, {8: True}, {8: 1.0}),
            outcome("a", 1, diverged=diverged),
            outcome("b", 0, {8: False}, {8: 0.5}),
        ]
    )
    assert list(evidence.looks) == ["a", "b"]
    expected = {0: Path("absent/a0")} | ({} if diverged else {1: Path("absent/a1")})
    assert evidence.trained("a") == expected
    assert evidence.trained("c") == {}
