"""No module imports, through others, itself: shared definitions stand below what uses them."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lt2theory", "tasks", "proofs_checks")
TYPES_ONLY = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def modules() -> dict[str, Path]:
    """Every module of ours by its dotted name; a package is its `__init__.py`."""
    found = {}
    for folder in PACKAGES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run, inside functions too, without those for a type checker alone."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    below: list[ast.AST] = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and ast.unparse(node.test) in TYPES_ONLY:
        below = list(node.orelse)
    for child in below:
        yield from imports(child)


def imported(source: str, known: set[str]) -> set[str]:
    """The modules of `known` that a source text imports."""
    found = set()
    for node in imports(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            # `from package import module` needs the module, and else the package itself.
            found |= (inner & known) | ({node.module or ""} if inner - known else set())
    return found & known


def circle(sources: dict[str, str]) -> list[str]:
    """A way through the imports that ends where it began, if there is one."""
    known = set(sources)
    graph = {name: imported(source, known) for name, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_import_circles() -> None:
    sources = {name: path.read_text(encoding="utf-8") for name, path in modules().items()}
    found = circle(sources)
    assert not found, f"modules that import one another: {' <- '.join(found)}"


@pytest.mark.parametrize(
    ("lower", "found"),
    [
        ("from p import upper", True),
        ("def late():\n    import p.upper", True),
        ("try:\n    from p.upper import x\nexcept ImportError:\n    x = None", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.upper", False),
        ("from p import other", False),
    ],
)
def test_circles_are_found(lower: str, found: bool) -> None:
    sources = {"p": "", "p.other": "", "p.upper": "from p.lower import y", "p.lower": lower}
    assert set(circle(sources)) == ({"p.lower", "p.upper"} if found else set())
