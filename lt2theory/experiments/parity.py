"""Does parity need negative eigenvalues? (arXiv 2411.12537; theory E4, E5)."""

from dataclasses import replace

from lt2theory.experiments.question import (
    Answer,
    Evidence,
    Question,
    cell,
    said,
    solved_by_arm,
    verdict,
)
from lt2theory.experiments.recipes import parity
from lt2theory.report import PredictionRow, seed_summary
from lt2theory.report.study_report import problem_section
from lt2theory.report.views import accuracies, outcomes

SEEDS = 3
FLOOR = 0.5
# Three standard errors of a coin over the 4,096 test instances, the same for every seed.
SAMPLING = 3 * (FLOOR * (1 - FLOOR) / 4096) ** 0.5

_CLAIM = (
    "With beta in (0, 1) no seed solves parity at length 32, and accuracy stays at the floor at "
    "twice and four times that length; with beta in (0, 2) every seed solves it and is above the "
    "floor at twice the length."
)
_BASIS = "E4, E5"


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
    solved = solved_by_arm(outcomes(evidence.table))
    narrow, wide = "beta in (0, 1)", "beta in (0, 2)"
    means = seed_summary(accuracies(evidence.table), by=["label", "stage"], bounds=(0.0, 1.0))
    at_floor = all(cell(means, narrow, stage)["value"] < FLOOR + SAMPLING for stage in (64, 128))
    above = cell(means, wide, 64)["value"] > FLOOR + SAMPLING
    (few, seeds), (many, _) = solved[narrow], solved[wide]
    row = PredictionRow(
        claim=_CLAIM,
        basis=_BASIS,
        happened=(
            f"Solved: {few} of {seeds} seeds with beta in (0, 1), {many} of {seeds} with (0, 2). "
            f"Mean over seeds at length 64: {said(means, narrow, 64)} and "
            f"{said(means, wide, 64)}; at 128: {said(means, narrow, 128)} and "
            f"{said(means, wide, 128)}; floor {FLOOR}."
        ),
        verdict=verdict(agrees=few == 0 and many == seeds and at_floor and above),
    )
    section = problem_section("Parity", evidence.table, evidence.looks, card=evidence.card)
    section = replace(
        section,
        title="Parity: does tracking need negative eigenvalues?",
        question=(
            "One delta-rule block must say after every bit whether the ones so far are odd in "
            "number. Tracking that without loss means flipping a direction of the state, an "
            "eigenvalue of -1. With beta in (0, 1) every eigenvalue of one step lies in (0, 1]."
        ),
        prediction=row.claim,
        basis=row.basis,
        verdict=row.verdict,
        happened=[row.happened],
    )
    return Answer((section,), (row,))
