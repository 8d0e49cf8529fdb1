"""How far does a looped window see? (theory W1, W7)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lt2theory.analysis import Influence
from lt2theory.experiments.distance_predictions import (
    BEYOND,
    FLOOR,
    INSIDE,
    LOOPS,
    REACH,
    SEEDS,
    WINDOW,
    field_prediction,
    furthest_token,
    learning_prediction,
)
from lt2theory.experiments.measures import INSTANCES, last_token_influence
from lt2theory.experiments.question import Answer, Evidence, Question
from lt2theory.experiments.recipes import distance_probe
from lt2theory.report import (
    PredictionRow,
    ReportFigure,
    ReportTable,
    Section,
    arm_styles,
    influence_by_distance,
    influence_curve,
)
from lt2theory.report import distance_probe as probe_figure
from lt2theory.report.style import ArmStyle
from lt2theory.report.tables import counted, format_interval
from lt2theory.report.views import accuracies, stage_outcomes


def question() -> Question:
    """Window 8 with one, two and four loops, up to the reach and one token beyond.

    Returns:
        The question with its runs, the longest first.
    """
    configs = [
        distance_probe(num_loops=loops, window=WINDOW, beyond=beyond, seed=seed)
        for loops in reversed(LOOPS)
        for beyond in (True, False)
        for seed in range(SEEDS)
    ]
    return Question("distance", tuple(configs), answer)


def answer(evidence: Evidence) -> Answer:
    """Compare what the models learn with what they can see.

    Args:
        evidence: The finished runs.

    Returns:
        Two sections (learning; measured receptive field) and two predictions.
    """
    seen = {}
    for loops in LOOPS:
        folders = evidence.trained(INSIDE[loops])
        if 0 in folders:
            seen[loops] = last_token_influence(folders[0], max(REACH.values()) + WINDOW)
    learnt, field = learning_prediction(evidence), field_prediction(seen)
    sections = (_learning(evidence, learnt), _receptive_field(seen, field))
    return Answer(sections, (learnt, field))


def _looks() -> dict[str, ArmStyle]:
    return arm_styles([f"T={loops}" for loops in LOOPS])


def _learning(evidence: Evidence, row: PredictionRow) -> Section:
    return Section(
        title="How far does a looped window see?",
        question=(
            "The first token holds a bit that the last token must tell; all others are noise. One "
            f"layer attends to {WINDOW} tokens, its own included, and is looped T times. Training "
            "starts with short sequences and grows them."
        ),
        prediction=row.claim,
        basis=row.basis,
        happened=[row.happened],
        verdict=row.verdict,
        figures=_by_distance(accuracies(evidence.table), row),
        tables=[ReportTable(_stage_table(evidence.table), _STAGES)],
    )


def _by_distance(tests: pd.DataFrame, row: PredictionRow) -> list[ReportFigure]:
    names = {INSIDE[loops]: f"T={loops}" for loops in LOOPS}
    shown = tests[tests["label"].isin(names) & (tests["seed"] == 0)]
    if shown.empty:
        return []
    frame = shown.assign(label=shown["label"].map(names), distance=shown["stage"].astype(int) - 1)[
        ["label", "distance", "value", "low", "high"]
    ]
    drawing = probe_figure(
        frame,
        reach={f"T={loops}": edge for loops, edge in REACH.items()},
        floors={"guess": FLOOR},
        styles=_looks(),
    )
    caption = (
        "Accuracy on the test split against the bit's distance, for models whose training ends at "
        "their reach (seed 0; Wilson intervals over instances). Vertical lines: the reach by W1. A "
        "model trained on longer sequences may forget the shorter ones."
    )
    return [ReportFigure(drawing, caption, f"Accuracy by distance. {row.happened}")]


_STAGES = (
    "Every length that was trained on in the runs that go one token beyond the reach: seeds that "
    "solved it among those that came so far, median steps, and the last accuracy on fresh "
    "instances of the evaluation split (the prediction speaks of the test split): mean, lowest and "
    f"highest seed. Floor: {FLOOR}."
)


def _stage_table(table: pd.DataFrame) -> pd.DataFrame:
    stages, scores = stage_outcomes(table), accuracies(table, "eval")
    rows = []
    for loops, edge in REACH.items():
        mine = stages[stages["label"] == BEYOND[loops]]
        for length, group in mine.groupby("stage"):
            fresh = scores[(scores["label"] == BEYOND[loops]) & (scores["stage"] == length)]
            rows.append(
                {
                    "loops": loops,
                    "length": int(str(length)),
                    "within reach": "yes" if int(str(length)) <= edge else "no",
                    "solved": f"{int(group['solved'].sum())} of {counted(len(group), 'seed')}",
                    "median steps": f"{group['steps'].median():g}",
                    "accuracy (lowest and highest seed)": format_interval(
                        float(fresh["value"].mean()),
                        float(fresh["value"].min()),
                        float(fresh["value"].max()),
                    ),
                    "n": int(fresh["n"].iloc[0]),
                }
            )
    return pd.DataFrame(rows)


def _receptive_field(seen: Mapping[int, Influence], row: PredictionRow) -> Section:
    return Section(
        title="The receptive field of the models just trained",
        question="Where can a trained model's last output look at all, and where does it look?",
        prediction=row.claim,
        basis=row.basis,
        happened=[row.happened],
        verdict=row.verdict,
        figures=_influence(seen, row),
        tables=[ReportTable(_field_table(seen), "Distances in tokens, from float64 Jacobians.")],
    )


def _influence(seen: Mapping[int, Influence], row: PredictionRow) -> list[ReportFigure]:
    if not seen:
        return []
    frame = pd.concat([influence_curve(field.share, f"T={loops}") for loops, field in seen.items()])
    drawing = influence_by_distance(
        frame,
        reach={f"T={loops}": edge for loops, edge in REACH.items()},
        quantity="share of the influence",
        styles=_looks(),
    )
    caption = (
        "Influence (norm of the Jacobian of the last logits) of each token, as a share, averaged "
        f"over {INSTANCES} held-out sequences; models of seed 0 whose training ends at their reach."
    )
    return [ReportFigure(drawing, caption, f"Influence by distance. {row.happened}")]


def _field_table(seen: Mapping[int, Influence]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "loops": loops,
            "reach by W1": REACH[loops],
            "measured reach": furthest_token(field),
            "median distance": field.quantile(0.5),
            "99 % within": field.quantile(0.99),
            "largest influence at distance": int(np.argmax(field.share)),
        }
        for loops, field in seen.items()
    )
