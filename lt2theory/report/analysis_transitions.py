"""Sections of an analysis report about transitions and states: how much does a loop change?"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lt2theory.analysis import MEANINGS
from lt2theory.report.content import ReportFigure, ReportTable, Section
from lt2theory.report.figures import (
    effective_rank_by_loops,
    spectrum_by_loops,
    state_rank_over_time,
)
from lt2theory.report.tables import format_number

NO_STATE = (
    "The model has attention alone: no layer keeps a matrix state, so there is no transition to "
    "compose and nothing that looping could add to its rank."
)


def has_recurrence(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Whether a layer keeps a matrix state.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them.

    Returns:
        True if there are transitions to speak of.
    """
    return "transitions" in tables


def semantics(facts: Mapping[str, Any]) -> str:
    """Which meaning the composed transitions have.

    Args:
        facts: The setting, as `lt2theory.experiments.analyze.describe` gives it.

    Returns:
        A key of `lt2theory.analysis.MEANINGS`.
    """
    return str(facts["loop_state"]) if facts["num_loops"] > 1 else "single"


def transition_section(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> Section:
    """How much of the state a token's update changes, by loops.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them.
        facts: The setting, as `lt2theory.experiments.analyze.describe` gives it.

    Returns:
        The section.
    """
    question = "How much of the state does a token's update change, and does looping change more?"
    title = "Spectrum and effective rank of the transitions"
    if not has_recurrence(tables):
        return Section(title, question, happened=[NO_STATE])
    table, spectrum = tables["transitions"], tables["spectrum"]
    if not table["mixer_erases"].any():
        return Section(
            title,
            question,
            happened=[
                "No mixer here erases: the transition is the gate alone, and the correction is "
                "exactly zero for every T (R8)."
            ],
        )
    erasing = table[table["mixer_erases"]]
    summary = _by_loops(erasing)
    found = [
        f"T = {row['loops T']}: rank {row['rank']} and effective rank "
        f"{row['effective rank']} in the median, {row['orthogonal keys']} for orthogonal "
        "keys of the same strengths."
        for row in summary.to_dict("records")
    ]
    if (failed := facts["failed_stage"]) is not None:
        found.insert(0, f"These are ranks of a model that did not learn stage {failed}.")
    labelled = pd.DataFrame(
        {
            "label": "all layers and heads",
            "num_loops": erasing["num_loops"],
            "value": erasing["entropy_rank"],
            "ideal": erasing["ideal_entropy_rank"],
        }
    )
    meaning = MEANINGS[semantics(facts)]
    return Section(
        title,
        question,
        happened=found,
        figures=[
            ReportFigure(
                spectrum_by_loops(spectrum),
                "Singular values of the correction, the gate baseline less the composed "
                "transition, over all tokens, heads and layers that erase. At most T differ from "
                "zero (R2, R7).",
                f"Singular values by loops. {' '.join(found)}",
            ),
            ReportFigure(
                effective_rank_by_loops(labelled),
                "Entropy effective rank of the same spectra; the bound is T. It ignores the scale "
                "of a spectrum, so that a nearly idle transition counts as well.",
                f"Effective rank by loops. {' '.join(found)}",
            ),
        ],
        tables=[
            ReportTable(
                summary,
                "Medians over tokens, heads and layers that erase; above 0.1: mean number of "
                "singular values above it; key |cos|: the largest between two loops' keys.",
            )
        ],
        notes=[f"What the numbers mean here: {meaning}."],
    )


def _by_loops(table: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for loops, cell in table.groupby("num_loops"):
        medians = cell.median(numeric_only=True)
        rows.append(
            {
                "loops T": str(loops),
                "rank": format_number(medians["rank"], 0),
                "effective rank": format_number(medians["entropy_rank"], 2),
                "orthogonal keys": format_number(medians["ideal_entropy_rank"], 2),
                "above 0.1": format_number(cell["absolute_rank"].mean(), 2),
                "largest": format_number(medians["largest"], 2),
                "beta": format_number(medians["beta"], 2),
                "key |cos|": format_number(medians["key_coherence"], 2),
                "n": len(cell),
            }
        )
    return pd.DataFrame(rows)


def state_section(tables: Mapping[str, pd.DataFrame]) -> Section:
    """How many directions the states hold after some tokens.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them.

    Returns:
        The section.
    """
    title = "State rank over time"
    question = "How many directions do the matrix states hold after t tokens?"
    if "states" not in tables:
        return Section(title, question, happened=[NO_STATE])
    states = tables["states"]
    last = states[states["loop"] == states["loop"].max()]
    end = last[last["num_tokens"] == last["num_tokens"].max()]
    found = [
        f"Layer {layer + 1}, last loop, at the end: rank {format_number(cell['rank'].median(), 0)} "
        f"of at most {cell['bound'].max()}, effective rank "
        f"{format_number(cell['entropy_rank'].median(), 2)} (medians)."
        for layer, cell in ((int(str(layer)), cell) for layer, cell in end.groupby("layer"))
    ]
    labels = [f"layer {layer + 1}" for layer in last["layer"]]
    return Section(
        title,
        question,
        happened=found,
        figures=[
            ReportFigure(
                state_rank_over_time(last.assign(label=labels)),
                "Rank (left) and entropy effective rank (right) of the last loop's states: medians "
                "and middle nine tenths over instances and heads. Dotted: at most min(F t, d_k, "
                "d_v) with F writes a token (M5).",
                f"State rank over time. {' '.join(found)}",
            )
        ],
        notes=[
            "F is 1 under rescan, where every loop has a state of its own, and the number of loops "
            "so far under accumulate."
        ],
    )
