"""What a wheel must hold, asked by the Python of an environment that has it installed."""

import importlib
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

PACKAGES = ("lt2theory", "tasks", "proofs_checks")


def modules() -> list[ModuleType]:
    """Every module of the packages, imported."""
    packages = [importlib.import_module(name) for name in PACKAGES]
    found = [
        module.name
        for package in packages
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return packages + [importlib.import_module(name) for name in found if "__main__" not in name]


def main() -> None:
    """Fail where a module comes from elsewhere, or a package is not marked as typed."""
    site = Path(sys.prefix).resolve()
    found = modules()
    stray = [m.__name__ for m in found if site not in Path(str(m.__file__)).resolve().parents]
    if stray:
        sys.exit(f"not imported from the wheel: {stray}")
    for package in found[: len(PACKAGES)]:
        if not Path(str(package.__file__)).with_name("py.typed").exists():
            sys.exit(f"{package.__name__} is not marked as typed")
    from lt2theory.runs.revision import source_revision

    print(f"{len(found)} modules imported from the wheel, built from {source_revision()}")


if __name__ == "__main__":
    main()
