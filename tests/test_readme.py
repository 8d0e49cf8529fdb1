"""The commands that README shows run as they stand, offline, with their small budgets."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCK = re.compile(r"<!-- test -->\n```(bash|python)\n(.*?)```", re.DOTALL)
INTERPRETERS = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}


def blocks() -> list[tuple[str, str]]:
    """Language and text of the blocks of README that are marked as tested."""
    return BLOCK.findall(README.read_text(encoding="utf-8"))


def test_readme_marks_blocks_of_both_kinds() -> None:
    assert {language for language, _ in blocks()} == set(INTERPRETERS)


@pytest.mark.slow
@pytest.mark.parametrize(("language", "block"), blocks())
def test_block_runs(language: str, block: str, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1"}
    result = subprocess.run(
        [*INTERPRETERS[language], block],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
