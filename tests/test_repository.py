"""Gates on the tree itself: its top level, its sizes, its words, its docstrings."""

import ast
import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lt2theory", "tasks", "proofs_checks")
FILE_LIMIT = 500
FUNCTION_P90 = 60

REQUIRED = {
    ".ci", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile",
    "README.md", "constraints.txt", "docs", "lt2theory", "proofs_checks", "pyproject.toml",
    "tasks", "tests",
}  # fmt: skip
OPTIONAL = {"notebooks", "results"}

# Put together from pieces, so that this file does not hold what it forbids.
FORBIDDEN = [
    re.compile(pattern)
    for pattern in (
        r"/(wo" + r"rk|fa" + r"rm)/",
        r"/tm" + r"p/(bash|brief)",
        r"pyp" + r"i\.org",
        r"pythonho" + r"sted",
        r"(?i)\bsub-?ag" + r"ents?\b",
        r"(?i)\bdevice mach" + r"ine\b",
    )
]
TEXT = {".py", ".md", ".toml", ".txt", ".cff", ".yml", ".yaml", ".json", ".ipynb", ".html", ""}


def tracked() -> list[Path]:
    """Files under version control, relative to the root."""
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [Path(name) for name in listing.stdout.split("\0") if name and (ROOT / name).exists()]


def sources(*folders: str) -> Iterator[tuple[Path, ast.Module]]:
    """Every Python file below some folders, parsed."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def test_top_level_is_fixed() -> None:
    names = {path.parts[0] for path in tracked()}
    assert names >= REQUIRED, f"missing: {sorted(REQUIRED - names)}"
    assert names <= REQUIRED | OPTIONAL, f"unexpected: {sorted(names - REQUIRED - OPTIONAL)}"


def test_files_stay_short() -> None:
    long = {
        str(path): len((ROOT / path).read_text(encoding="utf-8").splitlines())
        for path, _ in sources(*PACKAGES, "tests")
    }
    long = {path: lines for path, lines in long.items() if lines > FILE_LIMIT}
    assert not long, f"more than {FILE_LIMIT} lines: {long}"


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_stay_short(package: str) -> None:
    lengths = [
        node.end_lineno - node.lineno + 1
        for _, tree in sources(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    ]
    if len(lengths) < 2:
        pytest.skip(f"{package} has no functions")
    p90 = statistics.quantiles(lengths, n=10, method="inclusive")[-1]
    assert p90 <= FUNCTION_P90, f"nine in ten functions must have <= {FUNCTION_P90} lines: {p90}"


def test_modules_say_what_they_are() -> None:
    silent = [
        str(path)
        for path, tree in sources(*PACKAGES)
        if not ast.get_docstring(tree) and (path.name != "__init__.py" or tree.body)
    ]
    assert not silent, f"no module docstring: {silent}"


def test_no_future_annotations() -> None:
    """jaxtyping reads annotations at run time; postponed ones would go unchecked."""
    postponed = [
        str(path)
        for path, tree in sources(*PACKAGES)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    assert not postponed, f"postponed annotations in {postponed}"


def test_tests_mirror_the_tree() -> None:
    """`tests/ops` tests `lt2theory/ops`, `tests/tasks` tests `tasks`, at any depth."""
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("*.py")}
    orphans = [
        str(folder)
        for folder in folders
        if not (ROOT / "lt2theory" / folder).is_dir() and not (ROOT / folder).is_dir()
        if folder != Path("conformance")  # of every mixer, backend and property together
    ]
    assert not orphans, f"tests of no package: {orphans}"


def test_no_words_from_outside() -> None:
    found = []
    for path in tracked():
        if path.suffix not in TEXT:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        hits = [match[0] for pattern in FORBIDDEN for match in pattern.finditer(text)]
        found += [f"{path}: {hit}" for hit in hits]
    assert not found, found


def test_forbidden_words_are_found() -> None:
    text = "see /wo" + "rk/main, pyp" + "i.org"
    assert sum(bool(pattern.search(text)) for pattern in FORBIDDEN) == 2


def test_unfinished_work_is_not_left_in_the_code() -> None:
    words = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|raise NotImplemented" + r"Error")
    found = [
        f"{path}: {match[0]}"
        for path, _ in sources(*PACKAGES)
        for match in words.finditer((ROOT / path).read_text(encoding="utf-8"))
    ]
    assert not found, found
