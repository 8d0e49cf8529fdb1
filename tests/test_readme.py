"""What README and pages of docs/ show runs as it stands, offline, with small budgets."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md",
    "docs/curriculum.md",
    "docs/extending.md",
    "docs/linearization.md",
    "docs/scaling.md",
)
BLOCK = re.compile(r"<!-- test -->\n```(bash|python)\n(.*?)```", re.DOTALL)
WRITTEN = re.compile(
    r"--(?:out|json|state|target)[ =]([a-z][\w./-]*)"
    r"|(?:save_pretrained|w)\((?:Path\()?\"([a-z][\w./-]*)"
)
INTERPRETERS = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of the blocks of a page that are marked as tested."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def test_blocks_are_marked() -> None:
    assert {language for language, _ in blocks("README.md")} == set(INTERPRETERS)
    assert all(blocks(page) for page in PAGES)


def test_what_the_pages_write_in_a_checkout_is_ignored() -> None:
    """By paths from its root; what belongs under version control goes to results/."""
    pages = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    written = {name for found in WRITTEN.findall(text) for name in found if name}
    own = {name for name in written if not name.startswith("results/")}
    assert {"saved", "corpora/excerpt", "runs/student", "doctor.json"} <= own
    # As if each were a folder: the pattern of one does not match a name that is not there.
    asked = {f"{name}/x": name for name in own}
    listed = subprocess.run(
        ["git", "check-ignore", *asked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 128:
        pytest.skip("not a git checkout: nothing can be asked of git's own ignore rules")
    assert own - {asked[name] for name in listed.stdout.split()} == set()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    """In one folder, as a reader runs them: a block may go on from those before."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1"}
    for language, block in blocks(page):
        result = subprocess.run(
            [*INTERPRETERS[language], block],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, block + result.stdout + result.stderr
