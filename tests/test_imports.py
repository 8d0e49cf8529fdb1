"""Imports flow one way, and importing a part stays as light as it is said to be."""

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

HEAVY = ("fla", "triton", "transformers", "jupytext", "nbformat")
LIGHT = {
    "lt2theory": ("torch", "numpy", "pandas", *HEAVY),
    "lt2theory.cli": ("torch", "numpy", "pandas", *HEAVY),
    "tasks": ("torch", "sympy", "pandas", "pyarrow", *HEAVY),
    "lt2theory.ops": ("pandas", "matplotlib", *HEAVY),
    "lt2theory.runs": ("torch", "matplotlib", *HEAVY),
    "lt2theory.models": ("pandas", "matplotlib", *HEAVY),
    "lt2theory.training": ("matplotlib", *HEAVY),
}


def fresh(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", sorted(LIGHT))
def test_import_is_light(module: str) -> None:
    code = f"import {module}, sys; print(*(n for n in {LIGHT[module]!r} if n in sys.modules))"
    result = fresh(code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def test_import_contract_is_kept() -> None:
    result = fresh("from importlinter.cli import lint_imports; raise SystemExit(lint_imports())")
    assert result.returncode == 0, result.stdout + result.stderr


def packages() -> list[str]:
    """Our import packages, at any depth."""
    names = []
    for root in ("lt2theory", "tasks", "proofs_checks"):
        package = importlib.import_module(root)
        names.append(root)
        found = pkgutil.walk_packages(package.__path__, f"{root}.")
        names += [module.name for module in found if module.ispkg]
    return names


@pytest.mark.parametrize("name", packages())
def test_exports_are_documented(name: str) -> None:
    package = importlib.import_module(name)
    public = {
        key: value
        for key, value in vars(package).items()
        if not key.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value))
    }
    assert package.__doc__ or not public, f"{name} has no docstring"
    for key, value in public.items():
        assert inspect.getdoc(value), f"{name}.{key} has no docstring"
    missing = [key for key in getattr(package, "__all__", ()) if not hasattr(package, key)]
    assert not missing, f"{name}.__all__ names what is not there: {missing}"


def modules() -> list[str]:
    """Every module of ours but the entry points."""
    names = []
    for root in ("lt2theory", "tasks", "proofs_checks"):
        package = importlib.import_module(root)
        found = pkgutil.walk_packages(package.__path__, f"{root}.")
        names += [module.name for module in found if not module.name.endswith("__main__")]
    return names


def test_every_module_imports() -> None:
    for name in modules():
        importlib.import_module(name)
