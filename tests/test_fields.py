"""A misspelt field is refused by name, with the nearest one, in every model of the package."""

import importlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

import lt2theory
from lt2theory.cli.app import main
from lt2theory.fields import Frozen, KnownFields, first_refusal
from lt2theory.models import LoopedConfig

Output = pytest.CaptureFixture[str]


class Inner(KnownFields):
    """A part."""

    width: int = 1


class Outer(Frozen):
    """A whole with a part, in a list and alone."""

    inner: Inner = Inner()
    parts: tuple[Inner, ...] = ()
    share: float = 0.5


def models() -> list[type[BaseModel]]:
    """Every model of the package, once the modules that may define one are imported."""
    root = Path(lt2theory.__path__[0])
    for path in sorted(root.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "import pydantic" in source or "from pydantic" in source or "lt2theory.fields" in source:
            importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))
    found, todo = [], [BaseModel]
    while todo:
        kinds = todo.pop().__subclasses__()
        todo += kinds
        found += [kind for kind in kinds if kind.__module__.startswith("lt2theory.")]
    return found


def test_every_model_names_its_fields() -> None:
    every = models()
    assert len(every) > 40
    others = [kind.__qualname__ for kind in every if not issubclass(kind, KnownFields)]
    assert not others, f"derive from lt2theory.fields.KnownFields: {others}"
    for kind in every:
        with pytest.raises(ValidationError, match="qqq: no such field"):
            kind.model_validate({"qqq": 1})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shar": 1}, "shar: no such field, perhaps you meant share (choose from inner, parts, "),
        ({"inner": {"widht": 1}}, "inner.widht: no such field, perhaps you meant width"),
        ({"parts": [{}, {"w": 1}]}, "parts.1.w: no such field (choose from width)"),
        ({1: 2}, "1: no such field (choose from inner"),
        ({"a\nb": 2}, r"'a\nb': no such field (choose from inner"),
        ({"share ": 2}, "'share ': no such field, perhaps you meant share ("),
        ({"": 2}, "'': no such field (choose from inner"),
        ({"share": float("inf")}, "share: Input should be a finite number"),
        ([], "Outer: Input should be a valid dictionary"),
    ],
)
def test_the_first_refusal_leads_to_the_field(given: Any, said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Outer.model_validate(given)
    assert first_refusal(refused.value, "Outer").startswith(said)


def test_from_python() -> None:
    with pytest.raises(ValueError, match="num_lops: no such field, perhaps you meant num_loops"):
        LoopedConfig(num_lops=2)  # type: ignore[call-arg]  # on purpose
    assert Outer(inner=Inner(width=2)) == Outer.model_validate({"inner": {"width": 2}})


def test_a_copy_has_no_other_fields() -> None:
    """Pydantic's keeps them, and what was meant keeps its value."""
    whole = Outer()
    with pytest.raises(ValueError, match="shar: no such field, perhaps you meant share"):
        whole.model_copy(update={"shar": 1.0})
    assert whole.model_copy(update={"share": 1.0}) == Outer(share=1.0)
    assert whole.model_copy(deep=True) == whole == pickle.loads(pickle.dumps(whole))


def test_from_a_recipe_file(tmp_path: Path, capsys: Output) -> None:
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps({"name": "mine", "stages": [{"nam": "one"}]}))
    files = ["--teacher", "x", "--text", "y", "--out", str(tmp_path / "out")]
    assert main(["linearize", "run", str(recipe), *files]) == 2
    said = capsys.readouterr().err
    assert "stages.0.nam: no such field, perhaps you meant name" in said
    assert "Extra inputs" not in said
    assert len(said.splitlines()) == 1


def test_from_the_hugging_face_format() -> None:
    hf = pytest.importorskip("lt2theory.hf")
    with pytest.raises(ValueError, match="num_lops: no such field, perhaps you meant num_loops"):
        hf.LoopedLTConfig({"num_lops": 2})
