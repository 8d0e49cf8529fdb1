"""Recipes: files, names, the numbers of recipe A, and refusals that name the field."""

import json
from pathlib import Path
from typing import Any

import pytest

from lt2theory.linearize.alignment import Alignment
from lt2theory.linearize.distillation import Distillation
from lt2theory.linearize.recipe import Recipe, read_recipe
from lt2theory.linearize.recipe_a import instruction_stage, preset, presets, recipe_a, tiny_recipe
from lt2theory.linearize.starts import STUDENT_MIXERS
from lt2theory.models import LoopedConfig
from lt2theory.training.lm.schedule import rate_at
from tests.linearize.runs import TEACHER, make_recipe

TOML = """
name = "mine"
pattern = "gla"
[changes]
linear_rotation = "off"
[start]
half_lives = [2.0, 64.0]
[[stages]]
name = "one"
steps = 3
trained = "mixers"
objective = {kind = "alignment", target = "block"}
[stages.optimiser]
learning_rate = 2e-3
"""


def test_files_of_both_formats(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(TOML)
    recipe = read_recipe(tmp_path / "mine.toml")
    assert (recipe.pattern, recipe.start.half_lives) == ("gla", (2.0, 64.0))
    assert recipe.stages[0].objective == Alignment(target="block")
    (tmp_path / "mine.json").write_text(json.dumps(recipe.to_json()))
    assert read_recipe(tmp_path / "mine.json") == recipe


def test_the_recipe_of_the_documentation_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "linearization.md").read_text()
    (tmp_path / "a.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    recipe = read_recipe(tmp_path / "a.toml")
    teacher = LoopedConfig.model_validate(TEACHER)
    assert recipe.students(teacher)[-1].pattern == "kda"
    assert recipe.stages[1].other_rate == 0.1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "name = ", "recipe: .*a.toml' cannot be read"),
        ("a.json", "[", "recipe: .*a.json' cannot be read"),
        ("a.json", "[]", "recipe: .*a.json' cannot be read .must hold an object"),
        ("a.json", "[" * 10**5, "recipe: .*a.json' cannot be read"),
        ("a.yaml", "", r"must end in \.toml or \.json"),
        ("a.toml", TOML.replace('kind = "alignment"', 'kind = "align"'), "stages.0.objective"),
        ("a.toml", TOML.replace("steps = 3", "steps = 0"), "stages.0.steps"),
        ("a.toml", TOML.replace("steps = 3", ""), "steps: got None with tokens None; give one"),
        ("a.toml", TOML.replace('name = "one"', 'name = "One two"'), "stages.0.name"),
        (
            "a.toml",
            TOML.replace("target", "targt"),
            "targt: no such field, perhaps you meant target",
        ),
    ],
)
def test_what_is_wrong_is_named(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_recipe(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a\nb"}, "name: got"),
        ({"changes": {"pattern": "kda"}}, "'pattern' is not allowed"),
        ({"seed": 2**63}, "seed"),
        ({"stages": [make_recipe().stages[0]] * 2}, "stages must have different names"),
        ({"restore": [[1], [1]]}, "a layer is restored twice"),
        ({"restore": [[1, 0], []]}, "name each layer once, ascending"),
    ],
)
def test_stages_that_contradict_each_other(changes: dict[str, Any], message: str) -> None:
    stages = [stage.model_dump() for stage in make_recipe().stages[:2]]
    for stage, layers in zip(stages, changes.pop("restore", [[], []]), strict=True):
        stage["restore"] = layers
    with pytest.raises(ValueError, match=message):
        make_recipe(**{"stages": stages, **changes})


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_a_recipe(name: str) -> None:
    recipe = preset(name)
    assert Recipe.model_validate(recipe.to_json()) == recipe
    teacher = LoopedConfig.model_validate(TEACHER)
    start, *stages = recipe.students(teacher)
    assert start.linear_rotation == "off"
    assert len(stages) == len(recipe.stages) == (1 if name.startswith("align-") else 3)
    for stage, model in zip(recipe.stages, stages, strict=True):
        assert stage.run(model, seed=1, dtype="float32").model == model
    if name != "tiny":
        assert recipe.pattern in STUDENT_MIXERS
        assert recipe.dtype == "bfloat16"


def test_the_numbers_of_recipe_a() -> None:
    """HallerPatrick/linearization at 4dbd152, as read."""
    recipe = recipe_a("gdn", tokens=3_000_000_000)
    one, two, three = recipe.stages
    tokens = [(stage.steps or 0) * 32 * 512 / 1e6 for stage in recipe.stages]
    assert tokens == pytest.approx([78, 159, 2763], rel=0.01)
    assert (one.objective, two.objective) == (Alignment(), Alignment(target="block"))
    assert three.objective == Distillation(ce_weight=1.0, kl_weight=1.0, temperature=1.0)
    for stage, peak in ((one, 2e-4), (two, 2e-3), (three, 3e-4)):
        optimiser, steps = stage.optimiser, stage.steps or 0
        assert (optimiser.betas, optimiser.weight_decay, optimiser.clip) == ((0.9, 0.95), 0.1, 1.0)
        course = [rate_at(optimiser, step, steps) for step in range(0, steps, max(1, steps // 200))]
        assert max(course) == pytest.approx(peak, rel=0.01)
        assert course[10] == pytest.approx(peak / 2, rel=0.1)
    late = two.steps or 0
    assert rate_at(two.optimiser, round(0.89 * late), late) == pytest.approx(2e-3)
    assert rate_at(two.optimiser, late - 1, late) == pytest.approx(2e-7)
    assert recipe_a("kda").stages[2].optimiser.learning_rate == 4e-4
    assert recipe_a("mlstm").stages[2].optimiser.learning_rate == 4e-4
    with pytest.raises(ValueError, match="tokens: 20000 are not enough"):
        recipe_a(tokens=20_000)


def test_presets_are_refused_by_name() -> None:
    with pytest.raises(
        ValueError, match="recipe: 'smollm2-rwkv' is not allowed, perhaps you meant smollm2-"
    ):
        preset("smollm2-rwkv")
    with pytest.raises(ValueError, match="tokens: 5 is not allowed with 'tiny'"):
        preset("tiny", tokens=5)
    assert tiny_recipe("kda").pattern == "kda"


def test_instruction_stages() -> None:
    plain, aware = instruction_stage(50, aware=False), instruction_stage(50, aware=True)
    assert plain.data == aware.data == "chat"
    assert (plain.objective.kind, aware.objective.kind) == ("language", "distillation")
    assert plain.optimiser.warmup_steps == 5
