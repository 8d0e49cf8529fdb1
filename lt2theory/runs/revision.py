"""The commit that this package stands at: of its checkout, or kept in it when it was built.

Needs nothing but the standard library, since a build of the package runs this file by its path.
"""

import json
import subprocess
from pathlib import Path

BUILD_RECORD = "build.json"
"""In a built package, beside its `__init__`: `{"source": what source_revision gave}`."""


def source_revision() -> str | None:
    """Revision of the checkout that this package is imported from, or was built from.

    Returns:
        The git commit, with "+changes" where tracked files differ from it; None without git, and
        in a package that was built outside a checkout.
    """
    package = Path(__file__).resolve().parents[1]
    # An installed package may lie inside somebody else's repository: only our own root counts.
    if not (package.parent / ".git").exists():
        return _kept(package / BUILD_RECORD)
    commit = _git(package.parent, "rev-parse", "HEAD")
    if not commit:
        return None
    changed = _git(package.parent, "status", "--porcelain", "--untracked-files=no")
    return f"{commit}+changes" if changed else commit


def _kept(path: Path) -> str | None:
    try:
        source = json.loads(path.read_text(encoding="utf-8"))["source"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return source if isinstance(source, str) else None


def _git(root: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
