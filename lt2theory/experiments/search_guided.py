"""Settings that Optuna suggests, every arm its own by what its earlier ones have shown.

The tree-structured Parzen estimator (Bergstra et al. 2011; Optuna's `TPESampler`). Nothing but the
runs is kept: a sampler with a seed suggests the same again where it is told the same, so that a
search which was interrupted asks for the runs that it has, and goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from lt2theory.experiments.search_space import LogUniform, Setting, Space, Uniform, described
from lt2theory.report.views import accuracies, outcomes, stage_outcomes
from lt2theory.training import CurriculumConfig

if TYPE_CHECKING:
    import optuna

CarryOut = Callable[[Mapping[str, Sequence[Setting]], str], pd.DataFrame]
"""Carries settings by arm out, in a study of the given name, and returns its tidy table."""


def guided_round(
    arms: Sequence[CurriculumConfig], space: Space, number: int, carry_out: CarryOut, *, seed: int
) -> tuple[list[Setting], pd.DataFrame]:
    """Try as many settings for each arm, one after another.

    Args:
        arms: The arms.
        space: What may be varied.
        number: Suggestions an arm; one that comes again is not run again.
        carry_out: How the settings of one turn are run.
        seed: Of the sampler, 0..2^32 - 1; the same for every arm, so that what is tried before
            anything is known is the same too.

    Returns:
        The settings that were tried, each once, and the tidy table of all runs.

    Raises:
        ValueError: Optuna is not installed.
    """
    samplers = {arm.label: _new_study(seed) for arm in arms}
    tried: dict[str, Setting] = {}
    known: dict[tuple[str, str], float] = {}
    tables: list[pd.DataFrame] = []
    for turn in range(number):
        trials = {label: sampler.ask() for label, sampler in samplers.items()}
        asked = {label: suggested(trial, space) for label, trial in trials.items()}
        new = {label: [s] for label, s in asked.items() if (label, described(s)) not in known}
        if new:
            tables.append(carry_out(new, f"guided/turn-{turn:03d}"))
        for arm in arms:
            setting = asked[arm.label]
            place = arm.label, described(setting)
            if arm.label in new:
                known[place] = merit(tables[-1], arm, setting)
            tried.setdefault(described(setting), setting)
            samplers[arm.label].tell(trials[arm.label], known[place])
    return list(tried.values()), pd.concat(tables, ignore_index=True)


def suggested(trial: "optuna.Trial", space: Space) -> dict[str, Any]:
    """One setting.

    Args:
        trial: Optuna's trial.
        space: What may be varied.

    Returns:
        Values by dotted name; numbers are rounded as random ones are.
    """
    return {
        name: axis.rounded(
            trial.suggest_float(name, axis.low, axis.high, log=isinstance(axis, LogUniform))
        )
        if isinstance(axis, Uniform)
        else axis[trial.suggest_categorical(name, tuple(range(len(axis))))]
        for name, axis in space.items()
    }


def merit(table: pd.DataFrame, arm: CurriculumConfig, setting: Setting) -> float:
    """How far the runs of a setting came, by the evaluation split alone.

    Args:
        table: Tidy table of the runs.
        arm: The arm.
        setting: The setting.

    Returns:
        Mean over the seeds of the stages passed, plus the accuracy of the last evaluation where one
        was not passed (0 for a run that diverged), plus 1 and the unspent share of the step budget
        where all were.
    """
    label = f"{arm.label} | {described(setting)}"
    ends = outcomes(table)
    ends = ends[ends["label"] == label]
    stages = stage_outcomes(table)
    passed = stages[stages["solved"]].groupby(["label", "seed"]).size()
    last = accuracies(table, "eval").groupby(["label", "seed"])["value"].last()
    budget = arm.step_budget * max(1, len(arm.stages))
    scores = []
    for end in ends.to_dict("records"):
        run = label, end["seed"]
        reached = 0.0 if end["diverged"] else float(last.get(run, 0.0))
        more = 2 - float(end["steps"]) / budget if end["solved"] else reached
        scores.append(float(passed.get(run, 0)) + more)
    return sum(scores) / len(scores)


def _new_study(seed: int) -> "optuna.Study":
    try:
        import optuna
    except ImportError as error:
        raise ValueError(
            f"sampler: 'tpe' needs optuna ({error}); pip install 'lt2theory[search]' brings it"
        ) from error
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # a line a study otherwise
    try:
        sampler = optuna.samplers.TPESampler(seed=seed)
        return optuna.create_study(direction="maximize", sampler=sampler)
    finally:
        optuna.logging.set_verbosity(level)
