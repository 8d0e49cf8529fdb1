import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import tasks

MODULES = ["tasks", *(f"tasks.{module.name}" for module in pkgutil.iter_modules(tasks.__path__))]
TASK_MODULES = {kind.__module__ for kind in tasks.catalogue().values()}


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted > 0 or name not in TASK_MODULES


def test_import_is_light():
    code = (
        "import sys, tasks; print([m for m in ('sympy', 'pyarrow', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names():
    assert sorted(tasks.__all__) == ["Batch", "Task", "catalogue", "create", "export"]
