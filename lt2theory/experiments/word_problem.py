"""What do two loops buy on the word problem of S3? (theory E8, L2, L6, R3, R6)."""

from dataclasses import replace

import pandas as pd

from lt2theory.experiments.measures import median_by_loops, transition_ranks
from lt2theory.experiments.question import (
    Answer,
    Evidence,
    Question,
    said,
    solved_by_arm,
    verdict,
)
from lt2theory.experiments.recipes import word_problem
from lt2theory.report import (
    PredictionRow,
    ReportFigure,
    ReportTable,
    Section,
    effective_rank_by_loops,
    effective_ranks,
    seed_summary,
    success_p_value,
)
from lt2theory.report.study_report import problem_section
from lt2theory.report.tables import counted
from lt2theory.report.views import accuracies, outcomes

SEEDS = 5
LENGTH = 16
ONE, RESCAN, ACCUMULATE = "T=1", "T=2 rescan", "T=2 accumulate"
SIGNIFICANCE = 0.05


def question() -> Question:
    """S3 with one loop, with two under `rescan`, and with two under `accumulate`.

    Returns:
        The question with its runs, the longest first.
    """
    arms = [
        {"num_loops": 2, "loop_state": "rescan"},
        {"num_loops": 2, "loop_state": "accumulate"},
        {"num_loops": 1, "loop_state": "rescan"},
    ]
    configs = [word_problem(**arm, seed=seed) for arm in arms for seed in range(SEEDS)]  # type: ignore[arg-type]
    return Question("word_problem", tuple(configs), answer)


def answer(evidence: Evidence) -> Answer:
    """Compare the arms, then measure what their transitions became.

    Args:
        evidence: The finished runs.

    Returns:
        Two sections (learning; rank) and three predictions.
    """
    learnt, predictions = _learning(evidence)
    ranks, predicted = _rank(evidence)
    return Answer((learnt, ranks), (*predictions, predicted))


def _learning(evidence: Evidence) -> tuple[Section, tuple[PredictionRow, ...]]:
    solved = solved_by_arm(outcomes(evidence.table))
    means = seed_summary(accuracies(evidence.table), by=["label", "stage"], bounds=(0.0, 1.0))
    p_value = success_p_value(solved[ACCUMULATE], solved[RESCAN])
    counts = {
        label: f"{solved[label][0]} of {counted(solved[label][1], 'seed')}" for label in solved
    }
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
        verdict=verdict(agrees=solved[ONE][0] == 0),
    )
    two = PredictionRow(
        claim=(
            "At equal budgets more seeds solve S3 with two loops under accumulate than under "
            "rescan. Both have exact solutions (E8, L6), so this is about learning."
        ),
        basis="experience",
        happened=(
            f"Solved with two: accumulate {counts[ACCUMULATE]}, rescan {counts[RESCAN]} (Fisher's "
            f"exact test: p = {p_value:.3f}). At four times the length: "
            f"{said(means, ACCUMULATE, 4 * LENGTH)} and {said(means, RESCAN, 4 * LENGTH)}."
        ),
        verdict=verdict(
            agrees=solved[ACCUMULATE][0] > solved[RESCAN][0], decided=p_value < SIGNIFICANCE
        ),
    )
    section = problem_section("S3", evidence.table, evidence.looks, card=evidence.card)
    return (
        replace(
            section,
            title="The word problem of S3: what do two loops buy?",
            question=(
                "After every token the model must name the product of all permutations of three "
                "things so far. The arms differ in the number of loops, and in whether the second "
                "loop starts from an empty state (rescan, as in LT2's code) or applies the updates "
                "of both loops to one state (accumulate, as in LT2's rank argument)."
            ),
            prediction=f"{one.claim} {two.claim}",
            basis="E8; experience",
            verdict=two.verdict,
            happened=[one.happened, two.happened],
            notes=[
                *section.notes,
                "Equal tuning: one learning rate and the same two starting deviations were tried "
                "for all arms beforehand, on the evaluation split. Failure within this budget says "
                "nothing about what an arm can express.",
            ],
        ),
        (one, two),
    )


def _rank(evidence: Evidence) -> tuple[Section, PredictionRow]:
    tables = {
        label: pd.concat([transition_ranks(path, LENGTH) for path in evidence.arm(label).values()])
        for label in (ONE, RESCAN, ACCUMULATE)
    }
    rank = {label: median_by_loops(table, "rank") for label, table in tables.items()}
    entropy = {label: median_by_loops(table, "entropy_rank") for label, table in tables.items()}
    most = max(int((table["rank"] - table["num_loops"]).max()) for table in tables.values())
    row = PredictionRow(
        claim=(
            "Relative to the gate baseline the transition composed over T loops has rank at most "
            "T, and rank T wherever the loops' keys are linearly independent."
        ),
        basis="R2, R6",
        happened=(
            f"Rank never exceeds the number of loops. Median rank after two loops: accumulate "
            f"{rank[ACCUMULATE][2]:g}, rescan {rank[RESCAN][2]:g}; median effective (entropy) "
            f"rank {entropy[ACCUMULATE][2]:.2f} and {entropy[RESCAN][2]:.2f}."
            if most <= 0
            else f"The rank exceeds the number of loops by {most}."
        ),
        verdict=verdict(agrees=most <= 0 and rank[ACCUMULATE][2] == 2),
    )
    frame = pd.concat([effective_ranks(table, label) for label, table in tables.items()])
    drawing = effective_rank_by_loops(frame, styles=evidence.looks)
    figure = ReportFigure(
        drawing,
        f"Effective rank of the correction over tokens, heads and {SEEDS} seeds of each arm, at "
        f"length {LENGTH}. Under rescan the composed transition acts on no single state: there the "
        "number says how different the loops' keys are, not what one state undergoes (L1, L2).",
        f"Effective rank against loops. {row.happened}",
    )
    return (
        Section(
            title="The rank of the loops' transition in the models just trained",
            question=(
                "LT2 argues that T loops multiply T rank-one updates into one of rank T. What do "
                "the trained models make of it?"
            ),
            prediction=row.claim,
            basis=row.basis,
            happened=[row.happened],
            verdict=row.verdict,
            figures=[figure],
            tables=[ReportTable(_rank_table(tables), "Medians over tokens, heads and seeds.")],
            notes=[
                "Rank counts directions however weak; effective rank (the exponential of the "
                "entropy of the normalised singular values) weighs them. Neither has a floor other "
                "than 0, which mixers without erasure show for every T (R8)."
            ],
        ),
        row,
    )


def _rank_table(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    rows = []
    for label, table in tables.items():
        for loops, group in table.groupby("num_loops"):
            middle = group[["rank", "entropy_rank", "ideal_entropy_rank", "beta"]].median()
            rows.append(
                {
                    "arm": label,
                    "loops": int(str(loops)),
                    "acts on one state": "yes" if bool(group["acts_on_state"].all()) else "no",
                    "rank": f"{middle['rank']:g}",
                    "effective rank": f"{middle['entropy_rank']:.2f}",
                    "with orthogonal keys": f"{middle['ideal_entropy_rank']:.2f}",
                    "beta": f"{middle['beta']:.2f}",
                    "tokens x heads": f"{len(group):,}",
                }
            )
    return pd.DataFrame(rows)
