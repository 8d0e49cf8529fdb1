"""Predictions about state-based recall: blocks (1) and (3)."""

import statistics
from functools import partial

import pandas as pd

from lt2theory.experiments.study_cells import PAIR, SEEDS
from lt2theory.experiments.study_coverage import cells_about, not_ended, said_missing
from lt2theory.experiments.study_prediction import EXPECTED, Judged, Prediction
from lt2theory.experiments.study_recipes import FAMILIES, RUNGS, SETTLED
from lt2theory.experiments.study_views import (
    best_floor,
    counted_seeds,
    every,
    none,
    reached_by,
    solved_by,
)
from lt2theory.report.views import accuracies, stage_outcomes

TOP = RUNGS[-1]
_HYBRIDS = FAMILIES[2:]


def recall_predictions() -> tuple[Prediction, ...]:
    """What is predicted of block (1) and of its changes.

    Returns:
        The predictions.
    """
    return (
        Prediction(
            "hybrids",
            f"With four loops at least one of {', '.join(_HYBRIDS)} reaches {TOP} swaps with every "
            "seed.",
            EXPECTED,
            f"Kept if all {SEEDS} seeds of one of them solved {TOP}; broken if each has a seed "
            "that did not.",
            _some_hybrid,
        ),
        Prediction(
            "settled-recall",
            f"After at least {SETTLED} steps of each rung GDN+Window with four loops reaches {TOP} "
            "swaps with every seed. (Added when the arm without `settled` had run: 2 of 3 seeds.)",
            EXPECTED,
            f"Kept if all {SEEDS} seeds solved {TOP}; broken by one that did not.",
            partial(_everybody, label="recall-gdn-window-t4-settled"),
        ),
        Prediction(
            "softmax",
            f"Looped softmax attention reaches {TOP} swaps with no seed, neither with one loop nor "
            "with four.",
            EXPECTED,
            f"Broken by one seed that solved {TOP}; kept if all {2 * SEEDS} did not.",
            partial(_nobody, labels=("recall-softmax-t1", "recall-softmax-t4")),
        ),
        Prediction(
            "pure-gdn",
            f"GDN without any attention reaches {TOP} swaps with no seed at four loops.",
            EXPECTED,
            f"Broken by one seed that solved {TOP}; kept if all {SEEDS} did not.",
            partial(_nobody, labels=("recall-gdn-t4",)),
        ),
        Prediction(
            "loops-help",
            "With four loops every family reaches at least the stage that it reaches with one.",
            EXPECTED,
            "Medians over seeds, family by family; open while a family lacks a seed.",
            _loops_help,
        ),
        Prediction(
            "small-beta",
            f"With beta in (0, 1) {' and '.join(PAIR)} reach a lower stage than with (0, 2). (Put "
            "about block 1's best two before any such cell ran; the guess had been others.)",
            EXPECTED,
            "Medians over seeds, of both.",
            _small_beta,
        ),
        Prediction(
            "no-shortcut",
            "Wherever a stage was solved, the test accuracy lies above every rule that only "
            "recalls or only tracks.",
            "implied by H2 (0.90 needs recall and tracking)",
            "The whole interval of every such test lies above the highest floor; broken by one "
            "that lies below; open until every cell of state-based recall has ended.",
            _above_floors,
            provided="any rule among the floors H1",
        ),
    )


def _some_hybrid(table: pd.DataFrame) -> Judged:
    found = {family: solved_by(table, f"recall-{family}-t4", SEEDS) for family in _HYBRIDS}
    alls = [every(findings) for findings in found.values()]
    finding = True if True in alls else None if None in alls else False
    said = "; ".join(f"{family}: {counted_seeds(seeds)}" for family, seeds in found.items())
    return Judged((finding,), f"Solved {TOP} swaps with T = 4: {said}.")


def _everybody(table: pd.DataFrame, label: str) -> Judged:
    seeds = solved_by(table, label, SEEDS)
    return Judged(
        (every(seeds),), f"Solved {TOP}: {counted_seeds(seeds)}, {_stages(table, label)}."
    )


def _nobody(table: pd.DataFrame, labels: tuple[str, ...]) -> Judged:
    found = {label: solved_by(table, label, SEEDS) for label in labels}
    said = "; ".join(
        f"{label}: {counted_seeds(seeds)}, {_stages(table, label)}"
        for label, seeds in found.items()
    )
    return Judged(tuple(none(seeds) for seeds in found.values()), f"Solved {TOP}: {said}.")


def _loops_help(table: pd.DataFrame) -> Judged:
    return _compared(
        table, {family: (f"recall-{family}-t4", f"recall-{family}-t1") for family in FAMILIES}
    )


def _small_beta(table: pd.DataFrame) -> Judged:
    pairs = {family: (f"recall-{family}-t4", f"recall-{family}-t4-beta1") for family in PAIR}
    return _compared(table, pairs, strictly=True)


def _compared(
    table: pd.DataFrame, pairs: dict[str, tuple[str, str]], *, strictly: bool = False
) -> Judged:
    findings: list[bool | None] = []
    said = []
    for family, (more, less) in pairs.items():
        high, low = reached_by(table, more), reached_by(table, less)
        complete = len(high) >= SEEDS and len(low) >= SEEDS
        if complete:
            first, second = statistics.median(high), statistics.median(low)
            findings.append(first > second if strictly else first >= second)
        else:
            findings.append(None)
        said.append(f"{family}: {_stages(table, more)} against {_stages(table, less)}")
    return Judged(tuple(findings), f"Stages reached, by seed: {'; '.join(said)}.")


def _above_floors(table: pd.DataFrame) -> Judged:
    rows = table[table["task"] == "state_based_recall"]
    stages = stage_outcomes(rows)
    tests = accuracies(rows).merge(
        stages[stages["solved"]][["label", "seed", "stage"]], on=["label", "seed", "stage"]
    )
    findings: list[bool | None] = []
    least = float("inf")
    for test in tests.to_dict("records"):
        floor = best_floor(rows[rows["label"] == test["label"]], int(test["stage"]))
        least = min(least, float(test["low"]) - floor)
        above, below = float(test["low"]) > floor, float(test["high"]) < floor
        findings.append(True if above else False if below else None)
    if not findings:
        return Judged((None,), "No stage was solved and tested.")
    about = cells_about("state_based_recall")
    missing = not_ended(table, about)
    said = (
        f"{len(findings)} tests of solved stages, {findings.count(False)} below; least distance to "
        f"the highest floor {least:.3f}. Tests are of the weights at the end, which may have "
        "forgotten a stage that they passed."
    )
    findings += [None] * len(missing)
    return Judged(tuple(findings), said + said_missing(len(missing), about))


def _stages(table: pd.DataFrame, label: str) -> str:
    return ", ".join(map(str, reached_by(table, label))) or "not run"
