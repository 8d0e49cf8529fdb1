"""What is public: every re-exported name is on a page, and the names that others build on stay."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("docs/api.md", "docs/tasks.md")
OURS = ("lt2theory", "tasks", "proofs_checks")
COMMAND = "lt2theory.cli"
"""Its one name is the command line, which docs/commands.md describes."""

KEYWORDS = {
    "tasks.catalogue": "",
    "tasks.create": "name **knobs",
    "tasks.Task.batch": "self stage split seed index size",
    "tasks.Task.floors": "self stage",
    "lt2theory.ops.linear_recurrence": (
        "q k v log_decay beta write scale initial_state order backend return_state check"
    ),
    "lt2theory.models.LoopedModel.forward": "self tokens cache lengths documents last_logits",
    "lt2theory.models.LoopedModel.new_cache": "self batch_size",
    "lt2theory.models.LoopedModel.trace": "self tokens",
    "lt2theory.models.presets": "",
    "lt2theory.models.prefill": "model prompt cache",
    "lt2theory.models.generate": "model prompt max_new_tokens",
    "lt2theory.analysis.DPLROperator": "diagonal left right",
    "lt2theory.analysis.DPLROperator.compose": "self other",
    "lt2theory.analysis.DPLROperator.to_dense": "self",
    "lt2theory.analysis.DPLROperator.correction_singular_values": "self",
    "lt2theory.analysis.DPLROperator.rank": "self tol",
    "lt2theory.analysis.effective_rank": "singular_values kind",
    "lt2theory.mixers.register_mixer": "name kind",
    "lt2theory.training.run_curriculum": "config folder",
}
"""Functions that code outside this repository calls, with the parameters that begin theirs."""


def exports() -> dict[str, set[str]]:
    """The names that packages re-export as `x as x`, by package."""
    found = {}
    for folder in ("lt2theory", "tasks"):
        for path in sorted((ROOT / folder).rglob("__init__.py")):
            nodes = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ImportFrom)]
            names = {a.name for n in nodes for a in n.names if a.asname == a.name}
            if names:
                found[".".join(path.relative_to(ROOT).parent.parts)] = names
    return found


def documented(kind: str) -> set[str]:
    """Arguments of one directive on the pages of the interface."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    return set(re.findall(rf"^\.\. {kind}:: (\S+)$", text, re.MULTILINE))


def test_every_public_name_is_on_a_page() -> None:
    found = exports()
    modules = documented("automodule")
    single = documented("autoclass") | documented("autofunction")
    missing = {}
    for package, names in found.items():
        above = found.get(package.rpartition(".")[0], set())
        left = {name for name in names - above if f"{package}.{name}" not in single}
        if package not in modules | {COMMAND} and left:
            missing[package] = sorted(left)
    assert not missing, f"not in {' or '.join(PAGES)}: {missing}"


def source(module: str) -> ast.Module:
    """A module of ours, parsed; examples need not be imported to be looked up."""
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def home(module: str, name: str) -> str:
    """Where a name that a module of ours has is defined, through re-exports."""
    for node in source(module).body:
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            origin = node.module or ""
            return home(origin, name) if origin.startswith(OURS) else f"{origin}.{name}"
    return f"{module}.{name}"


def shown() -> set[str]:
    """What the pages of the interface describe, each name where it is defined."""
    names = [name.rpartition(".") for name in documented("autoclass") | documented("autofunction")]
    found = {home(module, name) for module, _, name in names}
    for module in documented("automodule"):
        defined = (ast.ClassDef, ast.FunctionDef)
        own = {node.name for node in source(module).body if isinstance(node, defined)}
        found |= {home(module, name) for name in own | exports().get(module, set())}
    return found


def imported(text: str) -> set[str]:
    """What the Python examples of a page import of ours, each name where it is defined."""
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    nodes = [n for block in blocks for n in ast.parse(block).body if isinstance(n, ast.ImportFrom)]
    return {
        home(node.module, alias.name)
        for node in nodes
        if node.module and node.module.startswith(OURS)
        for alias in node.names
    }


def test_what_examples_import_is_on_a_page() -> None:
    """What is not there may change without notice, so no reader is to build on it."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    wanted = {name for page in pages for name in imported(page.read_text(encoding="utf-8"))}
    assert len(wanted) > 20
    hidden = wanted - shown()
    assert not hidden, f"not in {' or '.join(PAGES)}: {sorted(hidden)}"


def test_nothing_private_is_exported() -> None:
    private = {p: [n for n in names if n.startswith("_")] for p, names in exports().items()}
    assert not any(private.values()), private


def found_at(name: str) -> Any:
    """What a dotted name means: a public package, and attributes from there."""
    package = max((p for p in exports() if name.startswith(f"{p}.")), key=len)
    value: Any = importlib.import_module(package)
    for attribute in name.removeprefix(f"{package}.").split("."):
        value = getattr(value, attribute)
    return value


@pytest.mark.parametrize("name", KEYWORDS)
def test_names_that_others_build_on(name: str) -> None:
    parameters = inspect.signature(found_at(name)).parameters.values()
    shown = [f"{'**' if p.kind is p.VAR_KEYWORD else ''}{p.name}" for p in parameters]
    wanted = KEYWORDS[name].split()
    assert shown[: len(wanted)] == wanted
    new = list(parameters)[len(wanted) :]
    assert all(p.default is not p.empty for p in new), "a new parameter needs a default"
