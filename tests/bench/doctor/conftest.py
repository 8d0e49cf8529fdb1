import importlib
import sys
from collections.abc import Callable

import pytest

from lt2theory.bench.doctor.cases import Case
from lt2theory.ops import RECURRENCES

PLANTED = "tests.bench.doctor.planted_backends"


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch):
    before = RECURRENCES.backends
    sys.modules.pop(PLANTED, None)
    yield importlib.import_module(PLANTED)
    object.__setattr__(RECURRENCES, "backends", before)
    sys.modules.pop(PLANTED)


def make_case(backend: str, length: int = 7, *, mixer: str = "gdn", start: str = "fresh") -> Case:
    return Case(mixer, backend, "float32", 16, length, start)  # type: ignore[arg-type]


@pytest.fixture(name="make_case")
def make_case_fixture() -> Callable[..., Case]:
    return make_case
