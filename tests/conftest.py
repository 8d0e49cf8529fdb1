"""Fixtures and rules for every test."""

from types import ModuleType

import pytest

from tests import fla_interpreter, shape_checks
from tests.conformance import record

shape_checks.install()  # before the conftests of folders, which import what is checked


@pytest.fixture(scope="session", name="fla")
def fla_fixture() -> ModuleType:
    """The package `fla`, its kernels running on CPU tensors; for tests marked `interpreter`."""
    return fla_interpreter.install()


def pytest_addoption(parser: pytest.Parser) -> None:
    record.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    record.configure(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Report the tests whose machine or session this is not as skipped."""
    record.note_cells(items)
    if not fla_interpreter.is_on():
        reason = f"needs a session with {fla_interpreter.VARIABLE}=1"
        _skip([item for item in items if item.get_closest_marker("interpreter")], reason)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        _skip(marked, "needs a CUDA device")


def _skip(items: list[pytest.Item], reason: str) -> None:
    for item in items:
        item.add_marker(pytest.mark.skip(reason=reason))
