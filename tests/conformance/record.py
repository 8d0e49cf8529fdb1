"""Which tests show what of which mixer and backend: the marker `conforms`, and its record.

    @pytest.mark.conforms("values", "gradients", mixer="gla", backend=("chunked", "reference"))

says that a test shows these properties. What is not given is taken from the test's parameters of
the same name (`mixer`, `backend`), and a function is asked with all of them; a mixer of None is no
row of the table, as for a hybrid. With `--conformance FILE` a session writes the outcome of every
such test; `tests.conformance.page` makes docs/conformance.md from the files of the sessions.
"""

import json
from pathlib import Path
from typing import Any

import pytest

OPTION = "--conformance"
KEY = "conforms"


def cells_of(item: pytest.Item) -> list[list[str]]:
    """`[mixer, backend, property]` for everything that a test shows.

    Raises:
        pytest.UsageError: A marker does not say which mixer or backend.
    """
    callspec = getattr(item, "callspec", None)
    parameters: dict[str, Any] = {} if callspec is None else callspec.params
    cells = []
    for marker in item.iter_markers(KEY):
        told = parameters | marker.kwargs
        if not marker.args or not {"mixer", "backend"} <= set(told):
            raise pytest.UsageError(f"{item.nodeid}: conforms() needs properties, mixer, backend")
        for mixer in _several(told["mixer"], parameters):
            for backend in _several(told["backend"], parameters):
                cells += [[mixer, backend, name] for name in marker.args]
    return cells


def _several(value: Any, parameters: dict[str, Any]) -> tuple[str, ...]:
    if callable(value):
        value = value(parameters)
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


class Recorder:
    """Writes what the marked tests of a session gave; reports of xdist's workers come here too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        cells = dict(report.user_properties).get(KEY)
        if not cells:
            return
        entry = self.tests.setdefault(report.nodeid, {"cells": cells, "outcome": "passed"})
        if report.outcome != "passed":  # in any of setup, call and teardown
            entry["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(dict(sorted(self.tests.items())), indent=1)
        self.path.write_text(text + "\n", encoding="utf-8")


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="FILE", help="write the outcomes of tests marked conforms")


def configure(config: pytest.Config) -> None:
    path = config.getoption(OPTION)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(path)), "conformance")


def note_cells(items: list[pytest.Item]) -> None:
    """Put what the tests show where their reports carry it to the recorder."""
    for item in items:
        cells = cells_of(item)
        if cells:
            item.user_properties.append((KEY, cells))
