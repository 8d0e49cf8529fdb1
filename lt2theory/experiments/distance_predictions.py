"""What is predicted of the looped windows, and how runs and Jacobians judge it (theory W1, W7)."""

from collections.abc import Mapping

import pandas as pd

from lt2theory.analysis import Influence, reach
from lt2theory.experiments.judgement import all_at_floor, verdict
from lt2theory.experiments.question import Evidence
from lt2theory.experiments.recipes import distance_probe
from lt2theory.report import (
    PredictionRow,
)
from lt2theory.report.views import accuracies, outcomes, stage_outcomes

WINDOW = 8
LOOPS = (1, 2, 4)
SEEDS = 2
FLOOR = 0.5
REACH = {loops: int(reach(1, loops, WINDOW)) for loops in LOOPS}
INSIDE = {loops: distance_probe(num_loops=loops, window=WINDOW).label for loops in LOOPS}
BEYOND = {
    loops: distance_probe(num_loops=loops, window=WINDOW, beyond=True).label for loops in LOOPS
}
_REACHES = ", ".join(str(edge) for edge in REACH.values())
_TIMES = ", ".join(str(loops) for loops in LOOPS)


def learning_prediction(evidence: Evidence) -> PredictionRow:
    """Judge which lengths are learnt.

    Args:
        evidence: The finished runs.

    Returns:
        The prediction with what happened.
    """
    ends, stages = outcomes(evidence.table), stage_outcomes(evidence.table)
    tests = accuracies(evidence.table)
    findings: list[bool | None] = []
    lengths, off, tested = [], 0.0, 0
    for loops, edge in REACH.items():
        arms = [INSIDE[loops], BEYOND[loops]]
        runs = int(ends["label"].isin(arms).sum())
        solved = stages[stages["label"].isin(arms) & stages["solved"]]
        outside = tests[tests["label"].isin(arms) & (tests["stage"] == edge + 1)]
        findings += [
            int((solved["stage"] == edge).sum()) == runs,
            not bool((solved["stage"] > edge).any()),
            all_at_floor(outside, FLOOR, expected=runs),
        ]
        lengths.append(_longest(solved, loops, runs))
        if len(outside):
            off = max(off, float((outside["value"] - FLOOR).abs().max()))
            tested += len(outside)
    return PredictionRow(
        claim=(
            f"A window of {WINDOW} with T loops answers up to T ({WINDOW} - 1) + 1 tokens "
            f"({_REACHES} for T = {_TIMES}) and is at the floor one token further, also when "
            "trained there."
        ),
        basis="W1",
        happened=(
            f"Longest length solved: {', '.join(lengths)}. One token beyond the reach the test "
            "accuracy "
            + (
                f"of {tested} tested runs differs from the floor {FLOOR} by at most {off:.3f}."
                if tested
                else "was not tested."
            )
        ),
        verdict=verdict(*findings),
    )


def _longest(solved: pd.DataFrame, loops: int, runs: int) -> str:
    if solved.empty:
        return f"none with T = {loops} (0 of {runs} runs)"
    longest = int(solved["stage"].max())
    count = int((solved["stage"] == longest).sum())
    return f"{longest} with T = {loops} ({count} of {runs} runs)"


def field_prediction(seen: Mapping[int, Influence]) -> PredictionRow:
    """Judge the receptive field of the trained models.

    Args:
        seen: Influence on the last token, by the number of loops; without those that could not be
            measured.

    Returns:
        The prediction with what happened.
    """
    findings: list[bool | None] = [True if loops in seen else None for loops in LOOPS]
    for loops, field in seen.items():
        findings += [
            not bool(field.support[:, REACH[loops] :].any()),
            bool(field.support[:, : REACH[loops]].all()),
        ]
    zeros = sum(int((~field.support[:, : REACH[loops]]).sum()) for loops, field in seen.items())
    furthest = ", ".join(
        f"{furthest_token(field)} with T = {loops}" for loops, field in seen.items()
    )
    return PredictionRow(
        claim=(
            "In the trained models the derivative of the last output is exactly zero beyond "
            f"{_REACHES} tokens (T = {_TIMES}) and not zero within."
        ),
        basis="W7",
        happened=(
            "Furthest token with a derivative that is not exactly zero, in float64: "
            f"{furthest or 'not measured'}. Derivatives within the reach that are zero: {zeros}."
        ),
        verdict=verdict(*findings),
    )


def furthest_token(field: Influence) -> str:
    """The furthest token with a derivative that is not exactly zero.

    Args:
        field: Influence on the last token.

    Returns:
        Its distance plus one; several numbers where the sequences differ.
    """
    return "/".join(str(tokens) for tokens in sorted(set(field.reach.tolist())))
