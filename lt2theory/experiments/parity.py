"""Does parity need negative eigenvalues? (arXiv 2411.12537; theory E4, E5)."""

from dataclasses import replace

from lt2theory.experiments.judgement import (
    all_at_floor,
    all_off_floor,
    everybody_solved,
    nobody_solved,
    said,
    seed_means,
    solved_by_arm,
    verdict,
)
from lt2theory.experiments.question import Answer, Evidence, Question
from lt2theory.experiments.recipes import parity
from lt2theory.report import PredictionRow, problem_section
from lt2theory.report.views import accuracies, outcomes

SEEDS = 3
FLOOR = 0.5
LENGTH = 32
NARROW, WIDE = (parity(negative_eigenvalues=negative).label for negative in (False, True))

_CLAIM = (
    f"With {NARROW} no seed solves parity at length {LENGTH}, and accuracy stays at the floor at "
    f"twice and four times that length; with {WIDE} every seed solves it and is above the floor at "
    "twice the length."
)


def question() -> Question:
    """Parity with beta in (0, 1) against beta in (0, 2).

    Returns:
        The question with its runs.
    """
    configs = [
        parity(negative_eigenvalues=negative, seed=seed)
        for negative in (False, True)
        for seed in range(SEEDS)
    ]
    return Question("parity", tuple(configs), answer)


def answer(evidence: Evidence) -> Answer:
    """Compare both ranges of beta within and beyond the training length.

    Args:
        evidence: The finished runs.

    Returns:
        One section and one prediction.
    """
    row = prediction(evidence)
    section = problem_section("Parity", evidence.table, evidence.looks, card=evidence.card)
    section = replace(
        section,
        title="Parity: does tracking need negative eigenvalues?",
        question=(
            "One delta-rule block must say after every bit whether the ones so far are odd in "
            "number. Tracking that without loss means flipping a direction of the state, an "
            f"eigenvalue of -1. With {NARROW} every eigenvalue of one step lies in (0, 1]."
        ),
        prediction=row.claim,
        basis=row.basis,
        verdict=row.verdict,
        happened=[row.happened],
    )
    return Answer((section,), (row,))


def prediction(evidence: Evidence) -> PredictionRow:
    """Judge the prediction.

    Args:
        evidence: The finished runs.

    Returns:
        The prediction with what happened.
    """
    ends, tests = outcomes(evidence.table), accuracies(evidence.table)
    (few, seeds), (many, others) = (solved_by_arm(ends)[label] for label in (NARROW, WIDE))
    narrow = tests[(tests["label"] == NARROW) & tests["stage"].isin([2 * LENGTH, 4 * LENGTH])]
    wide = tests[(tests["label"] == WIDE) & (tests["stage"] == 2 * LENGTH)]
    means = seed_means(tests)
    beyond = "; ".join(
        f"at length {length}: {said(means, NARROW, length)} and {said(means, WIDE, length)}"
        for length in (2 * LENGTH, 4 * LENGTH)
    )
    return PredictionRow(
        claim=_CLAIM,
        basis="E4, E5",
        happened=(
            f"Solved: {few} of {seeds} seeds with {NARROW}, {many} of {others} with {WIDE}. "
            f"Mean accuracy over seeds, in the same order, {beyond}; floor {FLOOR}."
        ),
        verdict=verdict(
            nobody_solved(ends, NARROW),
            all_at_floor(narrow, FLOOR, expected=2 * seeds),
            everybody_solved(ends, WIDE),
            all_off_floor(wide, FLOOR, expected=others),
        ),
    )
