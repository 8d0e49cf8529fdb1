"""Equal tuning effort: as many settings, budgets and seeds for every arm.

Two rounds, as in successive halving (Karnin et al. 2013) with one cut. In the first, every arm runs
every setting with the same few seeds, the settings drawn at random and the same for all, or as many
chosen for each by what its earlier ones have shown (`search_guided`); in the second, every arm runs
its own best settings with further seeds. Choices look at the evaluation split alone: the runs have
`test=False`, so nobody has seen the test split when a recipe is fixed, and their seeds lie far from
those that a result uses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from lt2theory.experiments.search_guided import CarryOut, guided_round
from lt2theory.experiments.search_space import (
    Setting,
    Space,
    check_space,
    configured,
    described,
    draw_settings,
)
from lt2theory.report.views import accuracies, outcomes, stage_outcomes
from lt2theory.runs import Progress
from lt2theory.training import CurriculumConfig, run_many
from tasks.names import unknown_name

Sampler: TypeAlias = Literal["random", "tpe"]
SEED = 1000
"""First seed of a search; results use small ones."""


@dataclass(frozen=True)
class Effort:
    """How much every arm is given."""

    sampler: Sampler = "random"
    """How settings are found: drawn at random, or suggested by Optuna's TPE (`search_guided`)."""
    sampler_seed: int = 0
    """Seed of the draw, or of Optuna's sampler for every arm."""
    settings: int = 40
    """Settings an arm; those that are drawn are the same for every arm."""
    seeds: int = 2
    """Seeds of each in the first round."""
    finalists: int = 8
    """Settings that an arm takes into the second round."""
    further_seeds: int = 4
    """Seeds of each finalist there."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.sampler not in get_args(Sampler):
            raise ValueError(unknown_name("sampler", self.sampler, get_args(Sampler)))
        if not 0 <= self.sampler_seed < 2**32:
            raise ValueError(
                f"sampler_seed: got {self.sampler_seed}, allowed are whole numbers 0..{2**32 - 1}"
            )
        for name in ("settings", "seeds", "finalists", "further_seeds"):
            value = getattr(self, name)
            least = 0 if name == "further_seeds" else 1
            if value < least:
                raise ValueError(f"{name}: got {value}, allowed are whole numbers >= {least}")
        if self.finalists > self.settings:
            raise ValueError(
                f"finalists: got {self.finalists}, allowed 1..{self.settings} (settings)"
            )


def tune(
    arms: Sequence[CurriculumConfig],
    space: Space,
    folder: Path,
    *,
    effort: Effort | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Search every arm with the same effort.

    Args:
        arms: One configuration an arm; labels must differ.
        space: What may be varied.
        folder: Where the runs are kept, one study a round, or a turn of a guided search; the same
            call goes on where it stopped, and one with more settings uses what is there.
        effort: How much each arm is given.
        workers: Runs at a time.
        progress: Told when a run ends.

    Returns:
        One row an arm and setting, the arm's best first: `arm`, `setting`, the values, `seeds`,
        `solved` (of them, every stage), `stages` (mean number that was solved), `steps` (mean; a
        run that did not solve its stages counts as its budget) and `accuracy` (mean of the last
        evaluations). Rows of finalists hold all seeds.

    Raises:
        ValueError: Two arms have one label, a setting does not fit (`check_space`), Optuna is asked
            for and not installed, or the folder holds another search.
        StudyError: Runs failed.
    """
    effort = effort or Effort()
    if len({arm.label for arm in arms}) < len(arms):
        raise ValueError(f"arms: labels {[arm.label for arm in arms]}, allowed are distinct ones")
    check_space(arms, space)
    seeds = range(SEED, SEED + effort.seeds)

    def carry_out(wanted: Mapping[str, Sequence[Setting]], name: str) -> pd.DataFrame:
        return _round(arms, wanted, seeds, folder / name, workers, progress)

    settings, table = _first_round(arms, space, effort, carry_out)
    ranked = standing(table, arms, settings)
    if not effort.further_seeds:
        return ranked
    best = {
        arm.label: [
            settings[place]
            for place in ranked[ranked["arm"] == arm.label]["place"][: effort.finalists]
        ]
        for arm in arms
    }
    seeds = range(seeds.stop, seeds.stop + effort.further_seeds)
    # What round 1 chose says who is here: other finalists than before are no other search.
    more = _round(arms, best, seeds, folder / "round-2", workers, progress, overwrite=True)
    return standing(pd.concat([table, more], ignore_index=True), arms, settings)


def _first_round(
    arms: Sequence[CurriculumConfig], space: Space, effort: Effort, carry_out: CarryOut
) -> tuple[list[Setting], pd.DataFrame]:
    """The settings that were tried, and the tidy table of all runs."""
    number, seed = effort.settings, effort.sampler_seed
    if effort.sampler == "tpe":
        return guided_round(arms, space, number, carry_out, seed=seed)
    settings: list[Setting] = [*draw_settings(space, number, seed=seed)]
    return settings, carry_out({arm.label: settings for arm in arms}, "round-1")


def _round(
    arms: Sequence[CurriculumConfig],
    settings: Mapping[str, Sequence[Setting]],
    seeds: range,
    folder: Path,
    workers: int,
    progress: Progress | None,
    *,
    overwrite: bool = False,
) -> pd.DataFrame:
    configs = [
        configured(arm, setting, seed=seed)
        for arm in arms
        for setting in settings.get(arm.label, ())
        for seed in seeds
    ]
    return run_many(configs, folder, workers=workers, progress=progress, overwrite=overwrite)


def standing(
    table: pd.DataFrame, arms: Sequence[CurriculumConfig], settings: Sequence[Setting]
) -> pd.DataFrame:
    """Rank every arm's settings by what the runs have shown so far.

    More seeds come first (finalists before the others), then the share that solved every stage,
    then more stages solved, then fewer steps, then the accuracy of the last evaluation.

    Args:
        table: Tidy table of the runs.
        arms: The arms.
        settings: The settings.

    Returns:
        The table that `tune` returns, with `place`, the setting's number in the draw.
    """
    ends = outcomes(table)
    stages = stage_outcomes(table)
    passed = stages[stages["solved"]].groupby(["label", "seed"]).size()
    last = accuracies(table, "eval").groupby(["label", "seed"])["value"].last()
    rows = []
    for arm in arms:
        for place, setting in enumerate(settings):
            label = f"{arm.label} | {described(setting)}"
            runs = ends[ends["label"] == label]
            if runs.empty:
                continue
            names = [(label, seed) for seed in runs["seed"]]
            scores = [last.get(name, 0.0) for name in names]
            steps = runs["steps"].where(runs["solved"], arm.step_budget * max(1, len(arm.stages)))
            rows.append(
                {"arm": arm.label, "setting": described(setting), "place": place}
                | {name.rsplit(".", 1)[-1]: value for name, value in setting.items()}
                | {
                    "seeds": len(runs),
                    "solved": int(runs["solved"].sum()),
                    "stages": float(
                        np.mean([passed.get((label, seed), 0) for seed in runs["seed"]])
                    ),
                    "steps": float(steps.mean()),
                    "accuracy": float(np.mean(scores)),
                }
            )
    frame = pd.DataFrame(rows)
    frame["share"] = frame["solved"] / frame["seeds"]
    order = {arm.label: number for number, arm in enumerate(arms)}
    frame["order"] = frame["arm"].map(order)
    by = ["order", "seeds", "share", "stages", "steps", "accuracy"]
    up = [True, False, False, False, True, False]
    ranked = frame.sort_values(by, ascending=up, kind="stable")
    return ranked.drop(columns=["order", "share"]).reset_index(drop=True)
