"""The first rungs of state-based recall (LT2's curriculum; theory H1, H2)."""

from dataclasses import replace

import pandas as pd

from lt2theory.experiments.judgement import verdict
from lt2theory.experiments.question import Answer, Evidence, Question
from lt2theory.experiments.recipes import state_based_recall
from lt2theory.report import PredictionRow, ReportTable, problem_section, success_interval
from lt2theory.report.tables import above_floor, counted, format_interval
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
    row, ground = prediction(evidence), floors(evidence.table)
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
                    "The table's interval is over two seeds; the prediction is judged by every "
                    "seed's interval over instances.",
                    "Other supervision is another problem: results with a label at the final query "
                    "alone must not be mixed with these.",
                ],
            ),
        ),
        (row,),
    )


def prediction(evidence: Evidence) -> PredictionRow:
    """Judge the prediction.

    Args:
        evidence: The finished runs.

    Returns:
        The prediction with what happened.
    """
    ends, tests = outcomes(evidence.table), accuracies(evidence.table)
    ground = floors(evidence.table)
    solved, seeds = int(ends["solved"].sum()), len(ends)
    best = [_best_floor(ground, int(stage)) for stage in tests["stage"]]
    above = {
        above_floor(low, high, floor)
        for low, high, floor in zip(tests["low"], tests["high"], best, strict=True)
    }
    found = success_interval(solved, seeds)
    rate = format_interval(found.value, found.low, found.high)
    scores = [
        _said(row, floor) for (_, row), floor in zip(tests.iterrows(), best, strict=True)
    ] or ["No run was tested."]
    return PredictionRow(
        claim=(
            "With a label at every swap a small hybrid passes one and two swaps, above every rule "
            "that only recalls or only tracks."
        ),
        basis="experience; H1, H2 for the floors",
        happened=" ".join([f"Solved: {solved} of {seeds} seeds (rate {rate}).", *scores]),
        verdict=verdict(
            solved == seeds, False if "no" in above else None if "unclear" in above else True
        ),
    )


def _best_floor(ground: pd.DataFrame, stage: int) -> float:
    return float(ground[ground["stage"] == stage]["value"].max())


def _said(row: pd.Series, best: float) -> str:
    score = format_interval(float(row["value"]), float(row["low"]), float(row["high"]))
    return (
        f"Seed {row['seed']}, {counted(int(row['stage']), 'swap')}: {score} against a best floor "
        f"of {best:.3f} (n {int(row['n']):,})."
    )


def _floor_table(ground: pd.DataFrame) -> pd.DataFrame:
    wide = ground.pivot(index="floor", columns="stage", values="value").round(4).reset_index()
    return wide.rename(columns={stage: counted(int(stage), "swap") for stage in wide.columns[1:]})
