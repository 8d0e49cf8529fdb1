"""The first rungs of state-based recall (LT2's curriculum; theory H1, H2)."""

from dataclasses import replace

import pandas as pd

from lt2theory.experiments.question import Answer, Evidence, Question, verdict
from lt2theory.experiments.recipes import state_based_recall
from lt2theory.report import PredictionRow, ReportTable
from lt2theory.report.statistics import success_interval
from lt2theory.report.study_report import problem_section
from lt2theory.report.tables import counted, format_interval
from lt2theory.report.views import accuracies, floors, outcomes

SEEDS = 2


def question() -> Question:
    """One and two swaps over eight bits, on a hybrid of delta rule and softmax attention.

    Returns:
        The question with its runs.
    """
    return Question("recall", tuple(state_based_recall(seed=seed) for seed in range(SEEDS)), answer)


def answer(evidence: Evidence) -> Answer:
    """Hold the accuracy on the final query against every floor.

    Args:
        evidence: The finished runs.

    Returns:
        One section and one prediction.
    """
    ends, tests = outcomes(evidence.table), accuracies(evidence.table)
    ground = floors(evidence.table)
    solved, seeds = int(ends["solved"].sum()), len(ends)
    above = all(
        row["low"] > ground[ground["stage"] == row["stage"]]["value"].max()
        for _, row in tests[tests["run"].isin(ends[ends["solved"]]["run"])].iterrows()
    )
    found = success_interval(solved, seeds)
    rate = format_interval(found.value, found.low, found.high)
    row = PredictionRow(
        claim=(
            "With a label at every swap a small hybrid passes one and two swaps, above every rule "
            "that only recalls or only tracks."
        ),
        basis="experience; H1, H2 for the floors",
        happened=(
            f"Solved: {solved} of {seeds} seeds (rate {rate}). "
            + " ".join(_said(row, ground) for _, row in tests.iterrows())
        ),
        verdict=verdict(agrees=solved == seeds and above),
    )
    section = problem_section(
        "State-based recall", evidence.table, evidence.looks, card=evidence.card
    )
    return Answer(
        (
            replace(
                section,
                title="State-based recall: the first two rungs of the curriculum",
                question=(
                    "Eight bits are listed, five pointers get addresses, some pointers are "
                    "swapped, and one pointer's bit is asked. This needs recall and tracking at "
                    "once. Supervision is dense (a label at every swap) and the layout indexed "
                    "(each bit follows its address); accuracy is that of the final query alone."
                ),
                prediction=row.claim,
                basis=row.basis,
                happened=[row.happened],
                verdict=row.verdict,
                tables=[*section.tables, ReportTable(_floor_table(ground), "Every floor (H1).")],
                notes=[
                    *section.notes,
                    "With the final query as the only label the same model stays at the floor for "
                    "far longer; results under different supervision must not be mixed.",
                ],
            ),
        ),
        (row,),
    )


def _said(row: pd.Series, ground: pd.DataFrame) -> str:
    best = float(ground[ground["stage"] == row["stage"]]["value"].max())
    score = format_interval(float(row["value"]), float(row["low"]), float(row["high"]))
    return (
        f"Seed {row['seed']}, {counted(int(row['stage']), 'swap')}: {score} against a best floor "
        f"of {best:.3f} (n {int(row['n']):,})."
    )


def _floor_table(ground: pd.DataFrame) -> pd.DataFrame:
    wide = ground.pivot(index="floor", columns="stage", values="value").round(4).reset_index()
    return wide.rename(columns={stage: counted(int(stage), "swap") for stage in wide.columns[1:]})
