"""Shapes and types, checked at every call of the modules that annotate shapes.

jaxtyping's own option takes packages, and wraps every function in them: of three functions two
have no array, and the tests of models took three times as long.
"""

from collections.abc import Iterator
from pathlib import Path

from jaxtyping import install_import_hook

ROOT = Path(__file__).parents[1]
PACKAGES = ("lt2theory", "tasks", "proofs_checks")


def modules_with_shapes() -> Iterator[str]:
    """Modules that import from jaxtyping, by their full names."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "\nfrom jaxtyping import " in path.read_text(encoding="utf-8"):
                yield ".".join(path.relative_to(ROOT).with_suffix("").parts)


def install() -> None:
    """From here on those modules are checked where they are imported."""
    install_import_hook(list(modules_with_shapes()), "beartype.beartype")
