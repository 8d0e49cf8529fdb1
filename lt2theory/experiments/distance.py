"""How far does a looped window see? (theory W1, W4, W7)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from lt2theory.analysis import Influence, reach
from lt2theory.experiments.measures import last_token_influence
from lt2theory.experiments.question import Answer, Evidence, Question, verdict
from lt2theory.experiments.recipes import distance_probe
from lt2theory.report import (
    PredictionRow,
    ReportFigure,
    ReportTable,
    Section,
    influence_by_distance,
    influence_curve,
)
from lt2theory.report.figures import distance_probe as probe_figure
from lt2theory.report.style import ArmStyle, arm_styles
from lt2theory.report.tables import format_interval
from lt2theory.report.views import accuracies, stage_outcomes

WINDOW = 8
LOOPS = (1, 2, 4)
SEEDS = 2
SAMPLING = 3 * (0.25 / 4096) ** 0.5


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
    edges = {loops: int(reach(1, loops, WINDOW)) for loops in LOOPS}
    learnt, first = _learning(evidence, edges)
    seen, second = _receptive_field(evidence, edges)
    return Answer((learnt, seen), (first, second))


def _inside(loops: int) -> str:
    return f"T={loops}, up to the reach"


def _beyond(loops: int) -> str:
    return f"T={loops}, up to one beyond"


def _looks() -> dict[str, ArmStyle]:
    return arm_styles([f"T={loops}" for loops in LOOPS])


def _learning(evidence: Evidence, edges: Mapping[int, int]) -> tuple[Section, PredictionRow]:
    stages = stage_outcomes(evidence.table)
    tests = accuracies(evidence.table)
    solved = {
        loops: stages[stages["label"].isin([_inside(loops), _beyond(loops)]) & stages["solved"]]
        for loops in LOOPS
    }
    furthest = {loops: int(rows["stage"].max()) for loops, rows in solved.items()}
    every = all(
        len(solved[loops][solved[loops]["stage"] == edges[loops]]) == 2 * SEEDS for loops in LOOPS
    )
    outside = {loops: tests[tests["stage"] == edges[loops] + 1] for loops in LOOPS}
    outside = {
        loops: rows[rows["label"].isin([_inside(loops), _beyond(loops)])]
        for loops, rows in outside.items()
    }
    worst = max(float((rows["value"] - 0.5).abs().max()) for rows in outside.values())
    row = PredictionRow(
        claim=(
            f"A window of {WINDOW} with T loops answers up to T ({WINDOW} - 1) + 1 tokens "
            f"({', '.join(str(edge) for edge in edges.values())} for T = 1, 2, 4) and is at the "
            "floor one token further, also when trained there."
        ),
        basis="W1",
        happened=(
            "Longest length solved: "
            + ", ".join(f"{length} with T = {loops}" for loops, length in furthest.items())
            + (", by every seed" if every else ", not by every seed")
            + f". One token further accuracy is within {worst:.3f} of the floor 0.5 in all "
            f"{sum(len(rows) for rows in outside.values())} runs."
        ),
        verdict=verdict(agrees=furthest == dict(edges) and every and worst < SAMPLING),
    )
    labels = {_inside(loops): f"T={loops}" for loops in LOOPS}
    shown = tests[tests["label"].isin(labels) & (tests["seed"] == 0)]
    frame = shown.assign(label=shown["label"].map(labels), distance=shown["stage"].astype(int) - 1)[
        ["label", "distance", "value", "low", "high"]
    ]
    drawing = probe_figure(
        frame,
        reach={f"T={loops}": edge for loops, edge in edges.items()},
        floors={"guess": 0.5},
        styles=_looks(),
    )
    figure = ReportFigure(
        drawing,
        "Accuracy on the test split against the bit's distance, for models trained up to their "
        "reach (seed 0; Wilson intervals over instances). Vertical lines: the reach by W1. A model "
        "trained on longer sequences may forget the shorter ones.",
        f"Accuracy by distance. {row.happened}",
    )
    section = Section(
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
        figures=[figure],
        tables=[ReportTable(_stage_table(evidence.table, edges), _STAGES)],
    )
    return section, row


_STAGES = (
    "Every length that was trained, up to one token beyond the reach: seeds that solved it, median "
    "steps, and the last accuracy on fresh instances over seeds. Floor: 0.5."
)


def _stage_table(table: pd.DataFrame, edges: Mapping[int, int]) -> pd.DataFrame:
    stages, scores = stage_outcomes(table), accuracies(table, "eval")
    rows = []
    for loops, edge in edges.items():
        mine = stages[stages["label"] == _beyond(loops)]
        for length, group in mine.groupby("stage"):
            fresh = scores[(scores["label"] == _beyond(loops)) & (scores["stage"] == length)]
            rows.append(
                {
                    "loops": loops,
                    "length": int(str(length)),
                    "within reach": "yes" if int(str(length)) <= edge else "no",
                    "solved": f"{int(group['solved'].sum())} of {len(group)} seeds",
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


def _receptive_field(evidence: Evidence, edges: Mapping[int, int]) -> tuple[Section, PredictionRow]:
    length = max(edges.values()) + 8
    seen: dict[int, Influence] = {
        loops: last_token_influence(evidence.arm(_inside(loops))[0], length) for loops in LOOPS
    }
    measured = {loops: sorted(set(field.reach.tolist())) for loops, field in seen.items()}
    exact = all(measured[loops] == [edges[loops]] for loops in LOOPS)
    row = PredictionRow(
        claim=(
            "In the trained models the derivative of the last output is exactly zero beyond "
            f"{', '.join(str(edge) for edge in edges.values())} tokens and not zero within."
        ),
        basis="W7",
        happened=(
            "Furthest token with a derivative that is not exactly zero, in float64: "
            + ", ".join(
                f"{'/'.join(str(edge) for edge in found)} with T = {loops}"
                for loops, found in measured.items()
            )
            + "."
        ),
        verdict=verdict(agrees=exact),
    )
    frame = pd.concat([influence_curve(field.share, f"T={loops}") for loops, field in seen.items()])
    drawing = influence_by_distance(
        frame,
        reach={f"T={loops}": edge for loops, edge in edges.items()},
        quantity="share of the influence",
        styles=_looks(),
    )
    figure = ReportFigure(
        drawing,
        "Influence (norm of the Jacobian of the last logits) of each token, as a share, averaged "
        "over 64 held-out sequences; models of seed 0.",
        f"Influence by distance. {row.happened}",
    )
    table = pd.DataFrame(
        {
            "loops": loops,
            "reach by W1": edges[loops],
            "measured reach": "/".join(str(edge) for edge in measured[loops]),
            "median distance": field.quantile(0.5),
            "99 % within": field.quantile(0.99),
            "largest influence at distance": int(np.argmax(field.share)),
        }
        for loops, field in seen.items()
    )
    return (
        Section(
            title="The receptive field of the models just trained",
            question="Where can a trained model's last output look at all, and where does it look?",
            prediction=row.claim,
            basis=row.basis,
            happened=[row.happened],
            verdict=row.verdict,
            figures=[figure],
            tables=[ReportTable(table, "Distances in tokens, from float64 Jacobians.")],
        ),
        row,
    )
