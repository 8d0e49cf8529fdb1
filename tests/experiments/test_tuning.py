"""A search gives every arm the same, looks at the evaluation split alone, and ranks as it says."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lt2theory.experiments.recipes import WORD_PROBLEM
from lt2theory.experiments.search_space import LogUniform, described, draw_settings
from lt2theory.experiments.searches import searches
from lt2theory.experiments.tuning import Effort, Sampler, standing, tune
from lt2theory.runs import Study
from lt2theory.training import CurriculumConfig, load_summary

RESULTS = Path(__file__).parents[2] / "results" / "s3-tuning.csv"
SPACE = {"optimiser.learning_rate": LogUniform(1e-3, 1e-2), "model.num_heads": (1, 2)}


def arm(label: str, **changes: Any) -> CurriculumConfig:
    small = {
        "task": {"name": "group_word", "knobs": {"group": "S3"}},
        "model": {"width": 8, "num_layers": 1, "pattern": "deltanet", "num_loops": 2},
        "stages": (5,),
        "step_budget": 2,
        "evaluate_every": 1,
        "evaluation_size": 64,
        "confirmation_size": 64,
        "batch_size": 4,
        "threads": 1,
        "label": label,
    }
    return CurriculumConfig.model_validate(small | changes)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seeds": 0}, "seeds: got 0, allowed are whole numbers >= 1"),
        ({"further_seeds": -1}, "further_seeds: got -1"),
        ({"finalists": 41}, r"finalists: got 41, allowed 1\.\.40"),
        ({"sampler_seed": -1}, r"sampler_seed: got -1, allowed are whole numbers 0\.\.4294967295"),
        ({"sampler_seed": 2**32}, "sampler_seed: got 4294967296"),
    ],
)
def test_an_effort_is_checked(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Effort(**wrong)


def test_every_arm_gets_the_same_and_the_best_get_more(tmp_path: Path) -> None:
    arms = (
        arm("a"),
        arm("b", model=arm("b").model.model_copy(update={"loop_state": "accumulate"})),
    )
    effort = Effort(settings=3, seeds=2, finalists=1, further_seeds=1)
    table = tune(arms, SPACE, tmp_path, effort=effort)
    assert list(table["arm"]) == ["a"] * 3 + ["b"] * 3
    assert list(table["seeds"]) == [3, 2, 2] * 2
    assert (table["solved"] == 0).all()
    assert (table["steps"] == 2).all()
    first = [run.config for run in Study(tmp_path / "round-1").runs]
    halves = [[c for c in first if c["label"].startswith(name)] for name in "ab"]
    for one, other in zip(*halves, strict=True):
        changed = {key for key in one if one[key] != other[key]}
        assert changed == {"model", "label"}
        assert {k for k in one["model"] if one["model"][k] != other["model"][k]} == {"loop_state"}
    for run in Study(tmp_path / "round-1").run_folders():
        assert load_summary(run.path).test == ()
        assert all(line["split"] not in ("test", "floor") for line in run.metrics())
    again = tune(arms, SPACE, tmp_path, effort=effort)
    assert again.equals(table)
    with pytest.raises(ValueError, match="allowed are distinct ones"):
        tune((arms[0], arms[0]), SPACE, tmp_path)


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_search_goes_on_with_more_settings_and_other_finalists(
    sampler: Sampler, tmp_path: Path
) -> None:
    small = Effort(sampler=sampler, settings=2, seeds=1, finalists=2, further_seeds=1)
    before = tune([arm("a")], SPACE, tmp_path, effort=small)
    more = replace(small, settings=3, finalists=1)
    table = tune([arm("a")], SPACE, tmp_path, effort=more)
    assert list(table["seeds"]) == [2, 1, 1]
    assert set(before["setting"]) < set(table["setting"])
    with pytest.raises(ValueError, match="runs that are not in this one"):
        tune([arm("a")], SPACE, tmp_path, effort=replace(more, sampler_seed=1))


def test_a_space_that_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """Also where the sampler would come to the value late, or never."""
    space = {**SPACE, "model.num_heads": (1, 3)}
    effort = Effort(sampler="tpe", settings=1, seeds=1, finalists=1)
    with pytest.raises(ValueError, match="num_heads: 3 does not divide width 8"):
        tune([arm("a")], space, tmp_path / "search", effort=effort)
    assert not (tmp_path / "search").exists()


def test_the_ranking(outcome: Any, make_evidence: Any) -> None:
    settings = draw_settings({"model.num_heads": (1, 2, 4, 8)}, 4)
    by_heads = {setting["model.num_heads"]: f"a | {described(setting)}" for setting in settings}
    runs = [
        outcome(by_heads[1], 0, {5: True}),
        outcome(by_heads[2], 0, {5: False}),
        outcome(by_heads[4], 0, {5: True}),
        outcome(by_heads[4], 1, {5: False}),
        outcome(by_heads[8], 0, {5: False}),
        outcome(by_heads[8], 1, {5: False}),
    ]
    table = standing(make_evidence(runs).table, [arm("a", step_budget=300)], settings)
    # Finalists (two seeds) first, then the share that solved.
    assert list(table["num_heads"]) == [4, 8, 1, 2]
    assert list(table["solved"]) == [1, 0, 1, 0]
    assert list(table["steps"]) == [200.0, 300.0, 100.0, 300.0]
    assert list(table["accuracy"]) == pytest.approx([0.725, 0.5, 0.95, 0.5])


def test_the_recipes_are_what_the_committed_search_chose() -> None:
    rows = list(csv.DictReader(RESULTS.read_text().splitlines()))
    arms = {"T=1": "one loop", "T=2 rescan": "rescan", "T=2 accumulate": "accumulate"}
    assert [row["arm"] for row in rows] == [name for name in arms for _ in range(40)]
    assert [a.label for a in searches()["s3"]().arms] == list(arms)
    for name, key in arms.items():
        best = next(row for row in rows if row["arm"] == name)
        assert int(best["seeds"]) == 6
        init_std, ffn_width, optimiser = WORD_PROBLEM[key]
        assert (init_std, ffn_width) == (float(best["init_std"]), int(best["ffn_width"]))
        assert best["num_heads"] == "8"
        assert str(optimiser.betas) == best["betas"]
        assert (optimiser.learning_rate, optimiser.weight_decay, optimiser.schedule) == (
            float(best["learning_rate"]),
            float(best["weight_decay"]),
            best["schedule"],
        )
