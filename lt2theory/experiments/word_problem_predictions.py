"""What is predicted of two loops on S3, and how the runs judge it (theory E8, R1, R2, R6)."""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence

import pandas as pd

from lt2theory.experiments.judgement import (
    nobody_solved,
    said,
    seed_means,
    solved_by_arm,
    verdict,
)
from lt2theory.experiments.measures import median_by_loops
from lt2theory.experiments.question import Evidence
from lt2theory.experiments.recipes import word_problem
from lt2theory.report import (
    PredictionRow,
    sooner_p_value,
)
from lt2theory.report.tables import counted
from lt2theory.report.views import accuracies, outcomes

SEEDS = 5
LENGTH = 16
ONE = word_problem(num_loops=1).label
RESCAN = word_problem(loop_state="rescan").label
ACCUMULATE = word_problem(loop_state="accumulate").label
SIGNIFICANCE = 0.05


def learning_predictions(evidence: Evidence) -> tuple[PredictionRow, PredictionRow]:
    """Judge what each arm learns.

    Args:
        evidence: The finished runs.

    Returns:
        The prediction about one loop, and that about the two kinds of two.
    """
    ends = outcomes(evidence.table)
    solved, means = solved_by_arm(ends), seed_means(accuracies(evidence.table))
    steps = _steps_to_solve(ends)
    p_value = sooner_p_value(steps[ACCUMULATE], steps[RESCAN])
    counts = {label: f"{some} of {counted(all_, 'seed')}" for label, (some, all_) in solved.items()}
    one = PredictionRow(
        claim=(
            "With one loop no seed solves S3: a single reflection a token cannot be a "
            "representation of a group with an element of order three."
        ),
        basis="E8",
        happened=(
            f"Solved with one loop: {counts[ONE]}; accuracy at length {LENGTH}: "
            f"{said(means, ONE, LENGTH)}, where knowing the sign alone gives 0.333."
        ),
        verdict=verdict(nobody_solved(ends, ONE)),
    )
    sooner = _earlier(steps[ACCUMULATE], steps[RESCAN])
    two = PredictionRow(
        claim=(
            "With two loops S3 is solved sooner under accumulate than under rescan, each with the "
            "recipe that a search of equal effort found for it. Both have exact solutions (E8, "
            "L6), so this is about learning."
        ),
        basis="experience",
        happened=(
            f"Solved with two: accumulate {counts[ACCUMULATE]}{_median(steps[ACCUMULATE])}, rescan "
            f"{counts[RESCAN]}{_median(steps[RESCAN])} (rank-sum test of the steps, a seed without "
            f"solution last: p = {p_value:.3f}). At four times the length: "
            f"{said(means, ACCUMULATE, 4 * LENGTH)} and {said(means, RESCAN, 4 * LENGTH)}."
        ),
        verdict=verdict(sooner if p_value < SIGNIFICANCE else None),
    )
    return one, two


def _steps_to_solve(ends: pd.DataFrame) -> dict[str, list[float]]:
    times = ends["steps"].astype(float).where(ends["solved"], math.inf)
    return {str(label): list(some) for label, some in times.groupby(ends["label"])}


def _earlier(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether more pairs of seeds have the first arm ahead than the second."""
    pairs = [(one, two) for one in first for two in second]
    return sum(one < two for one, two in pairs) > sum(one > two for one, two in pairs)


def _median(steps: Sequence[float]) -> str:
    solved = [number for number in steps if number < math.inf]
    return f" (median {statistics.median(solved):.0f} steps)" if solved else ""


def rank_prediction(tables: Mapping[str, pd.DataFrame]) -> PredictionRow:
    """Judge the ranks of the composed transitions.

    Args:
        tables: `transition_ranks` of every arm that could be measured.

    Returns:
        The prediction with what happened.
    """
    claim = (
        "Relative to the gate baseline the transition composed over T loops has rank at most T, "
        "and rank T wherever the loops' keys are linearly independent."
    )
    basis = "R1, R2, R6"
    if not tables:
        nothing = "No run has left a model to measure."
        return PredictionRow(claim, basis, nothing, verdict(None))
    rows = pd.concat(tables.values())
    free = rows[rows["keys_independent"]]
    share = (free["product_rank"] == free["num_loops"]).groupby(free["num_loops"]).mean()
    two = [label for label in (ACCUMULATE, RESCAN) if label in tables]
    medians = {label: median_by_loops(tables[label], "entropy_rank")[2] for label in two}
    largest = rows.groupby("num_loops")["product_rank"].max().astype(str).to_dict()
    full = {loops: f"{100 * part:.5g} %" for loops, part in share.items()}
    return PredictionRow(
        claim=claim,
        basis=basis,
        happened=" ".join(
            [
                f"Largest rank after T loops: {_by_loops(largest)}.",
                "Share with rank T among transitions with linearly independent keys: "
                f"{_by_loops(full)} (n {len(free):,} of {len(rows):,}).",
                *(
                    f"Median effective (entropy) rank after two loops, {label}: {median:.2f}."
                    for label, median in medians.items()
                ),
            ]
        ),
        verdict=verdict(
            bool((rows["product_rank"] <= rows["num_loops"]).all()),
            bool((share == 1).all()),
            True if 2 in share.index else None,
        ),
    )


def _by_loops(values: Mapping[Hashable, str]) -> str:
    return ", ".join(f"{value} with T = {loops}" for loops, value in values.items()) or "none"
