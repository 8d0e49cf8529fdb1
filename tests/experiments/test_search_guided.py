"""Guided searches: as many settings an arm, the same again when asked again, better than random."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest

from lt2theory.experiments import tuning
from lt2theory.experiments.search_guided import guided_round, merit, suggested
from lt2theory.experiments.search_space import LogUniform, Uniform, described
from lt2theory.experiments.tuning import Effort, tune
from lt2theory.runs import Study
from tests.experiments.test_tuning import SPACE, arm

EFFORT = Effort(sampler="tpe", settings=4, seeds=1, finalists=1, further_seeds=1)


def labels(folder: Path) -> list[str]:
    """What every turn has run, in order."""
    turns = sorted((folder / "guided").iterdir())
    return [run.config["label"] for turn in turns for run in Study(turn).runs]


def test_an_arm_gets_as_many_and_the_same_search_is_the_same(tmp_path: Path) -> None:
    arms = arm("a"), arm("b", model=arm("b").model.model_copy(update={"num_loops": 1}))
    table = tune(arms, SPACE, tmp_path / "one", effort=EFFORT)
    assert list(table["arm"]) == ["a"] * 4 + ["b"] * 4
    assert list(table["seeds"]) == [2, 1, 1, 1] * 2
    assert tune(arms, SPACE, tmp_path / "two", effort=EFFORT).equals(table)
    assert labels(tmp_path / "one") == labels(tmp_path / "two")
    for turn in sorted((tmp_path / "one" / "guided").iterdir()):
        for run in Study(turn).run_folders():
            assert all(line["split"] not in ("test", "floor") for line in run.metrics())


def test_an_interrupted_search_ends_like_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in the middle of a turn, after the first arm's run; what is done is not run again."""
    arms, effort = (arm("a"), arm("b", batch_size=8)), replace(EFFORT, settings=3)
    whole = tune(arms, SPACE, tmp_path / "whole", effort=effort)
    carry_out = tuning.run_many

    def second_stops(configs: Any, root: Path, **rest: Any) -> Any:
        if root.name == "turn-001":
            carry_out(configs[:1], root, **rest)
            raise KeyboardInterrupt
        return carry_out(configs, root, **rest)

    with monkeypatch.context() as patched:
        patched.setattr(tuning, "run_many", second_stops)
        with pytest.raises(KeyboardInterrupt):
            tune(arms, SPACE, tmp_path / "cut", effort=effort)
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "cut").rglob("summary.json")}
    assert len(done) == len(labels(tmp_path / "cut")) == 3
    assert tune(arms, SPACE, tmp_path / "cut", effort=effort).equals(whole)
    assert labels(tmp_path / "cut") == labels(tmp_path / "whole")
    assert all(path.stat().st_mtime_ns == when for path, when in done.items())


def test_another_seed_asks_for_other_settings(make_evidence: Any, outcome: Any) -> None:
    def carry_out(wanted: Any, _: str) -> Any:
        ((label, (setting,)),) = wanted.items()
        name = f"{label} | {described(setting)}"
        return make_evidence([outcome(name, 0, {5: False})]).table

    def asked(seed: int) -> list[Any]:
        settings, _ = guided_round([arm("a")], SPACE, 2, carry_out, seed=seed)
        return settings

    assert asked(1) == asked(1) != asked(2)


def test_it_finds_more_than_chance_does(make_evidence: Any, outcome: Any) -> None:
    """Where only a narrow range of rates learns, later suggestions come to lie in it."""
    space = {"optimiser.learning_rate": LogUniform(1e-5, 1e-1), "model.num_heads": (1, 2, 4, 8)}

    def carry_out(wanted: Any, _: str) -> Any:
        ((label, (setting,)),) = wanted.items()
        rate = setting["optimiser.learning_rate"]
        learns = 1e-3 < rate < 4e-3 and setting["model.num_heads"] == 2
        name = f"{label} | {described(setting)}"
        return make_evidence([outcome(name, 0, {5: learns})]).table

    one = arm("a", step_budget=300)
    settings, _ = guided_round([one], space, 60, carry_out, seed=0)
    good = [
        1e-3 < s["optimiser.learning_rate"] < 4e-3 and s["model.num_heads"] == 2 for s in settings
    ]
    assert sum(good[-20:]) >= 4  # by chance in 7 of 1,000 searches: 0.04 of the space learns


def test_merit_follows_stages_then_accuracy_then_steps(make_evidence: Any, outcome: Any) -> None:
    one = arm("a", step_budget=300)

    def of(solved: bool) -> float:
        setting = {"model.num_heads": 1}
        table = make_evidence([outcome(f"a | {described(setting)}", 0, {5: solved})]).table
        return merit(table, one, setting)

    assert of(True) == pytest.approx(1 + 2 - 100 / 300)
    assert of(False) == pytest.approx(0.5)


def test_suggestions_are_values_of_the_space() -> None:
    betas = ((0.9, 0.95), (0.9, 0.999))
    space = {**SPACE, "optimiser.clip": Uniform(0.001, 1), "optimiser.betas": betas}
    clips = []
    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(sampler=sampler)
    for _ in range(20):
        setting = suggested(study.ask(), space)
        rate = setting["optimiser.learning_rate"]
        assert 1e-3 <= rate <= 1e-2
        assert rate == float(f"{rate:.2g}")
        assert setting["optimiser.betas"] in betas
        clips.append(setting["optimiser.clip"])
    assert 0.3 < sorted(clips)[10] < 0.7  # evenly; the logarithm would have its middle at 0.03


def test_without_optuna_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"sampler: 'tpe' needs optuna .*lt2theory\[search\]"):
        tune([arm("a")], SPACE, tmp_path / "search", effort=EFFORT)
    assert not (tmp_path / "search").exists()


def test_an_unknown_sampler_is_refused() -> None:
    with pytest.raises(ValueError, match=r"sampler: .tpa. is not allowed .choose from random, tpe"):
        Effort(sampler="tpa")  # type: ignore[arg-type]  # that is what is tested
