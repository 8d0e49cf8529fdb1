import ast
import dataclasses
import importlib
import inspect
import itertools
import pkgutil
from pathlib import Path

import pytest

import tasks

NAMES = list(tasks.catalogue())


def test_catalogue_lists_every_file_of_a_task():
    found = [
        kind.name
        for module in pkgutil.iter_modules(tasks.__path__)
        for kind in vars(importlib.import_module(f"tasks.{module.name}")).values()
        if inspect.isclass(kind)
        and issubclass(kind, tasks.Task)
        and not inspect.isabstract(kind)
        and kind.__module__ == f"tasks.{module.name}"
    ]
    assert sorted(found) == sorted(NAMES)
    for name, kind in tasks.catalogue().items():
        assert issubclass(kind, tasks.Task)
        assert kind.name == name
        assert isinstance(tasks.create(name), kind)


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("group_word", {"group": "A5", "tokens": "all"}),
        ("mqar", {"length": 256, "vocab": 64, "overwrite": True}),
        ("state_based_recall", {"supervision": "dense", "layout": "indexed"}),
    ],
)
def test_knobs_reach_the_task(name, knobs):
    task = tasks.create(name, **knobs)
    assert {key: task.knobs[key] for key in knobs} == knobs


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"task: 'sorting' is not allowed \(choose from parity, "):
        tasks.create("sorting")
    message = (
        r"knob of group_word: 'groop' is not allowed, perhaps you meant group \(choose from group, "
    )
    with pytest.raises(ValueError, match=message):
        tasks.create("group_word", groop="S3")
    with pytest.raises(ValueError, match=r"knob: 'bits' is not allowed \(parity has no knobs\)"):
        tasks.create("parity", bits=3)
    with pytest.raises(KeyError, match="perhaps you meant pointer_swaps"):
        tasks.catalogue()["pointer_swap"]


@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("group_word", {"group": 5}),
        ("group_word", {"tokens": "some"}),
        ("mqar", {"vocab": "64"}),
        ("mqar", {"overwrite": 1}),
        ("mqar", {"length": 6.5}),
        ("state_based_recall", {"layout": None}),
    ],
)
def test_wrong_types_are_refused_with_field_and_value(name, knobs):
    ((field, value),) = knobs.items()
    with pytest.raises(
        ValueError, match=f"{field}: {value!r} is not allowed .(must be|choose from) "
    ):
        tasks.create(name, **knobs)


def test_every_knob_is_documented_in_the_source():
    for kind in tasks.catalogue().values():
        body = ast.parse(inspect.getsource(kind)).body[0].body
        fields = {field.name for field in dataclasses.fields(kind)}
        documented = {
            here.target.id
            for here, after in itertools.pairwise(body)
            if isinstance(here, ast.AnnAssign)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        }
        assert fields <= documented


@pytest.mark.parametrize("page", ["README.md", "docs/tasks.md"])
def test_pages_list_every_task(page):
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}`" not in text] == []
    if page == "docs/tasks.md":
        kinds = tasks.catalogue().values()
        assert all(
            f".. autoclass:: {kind.__module__}.{kind.__qualname__}" in text for kind in kinds
        )
