"""The report of what the analysers measured on one run."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lt2theory.report.analysis_codes import code_sections
from lt2theory.report.analysis_elements import element_sections
from lt2theory.report.analysis_influence import influence_section
from lt2theory.report.analysis_stability import gradient_section, saw_tooth_section
from lt2theory.report.analysis_transitions import (
    NO_STATE,
    has_recurrence,
    semantics,
    state_section,
    transition_section,
)
from lt2theory.report.content import Report
from lt2theory.report.glossary import terms
from lt2theory.report.provenance import provenance_of
from lt2theory.report.tables import counted
from lt2theory.runs import RunFolder

TERMS = ("loops (T)", "rescan", "accumulate", "effective rank", "reach", "splits")

SEMANTICS = {
    "rescan": (
        "The model rescans: every loop has a state of its own. The product of the loops' "
        "transitions acts on no single state (L1), so its rank says what the factors could do on "
        "one state, not what they did. What T loops of rescan do expand is the semiseparable order "
        "of the map from past to future, at most N T d_k for one value channel (L1)."
    ),
    "accumulate": (
        "The model accumulates: at every token the last loop's state takes the factors of all "
        "loops, so the product of the transitions really acts on that state (L2)."
    ),
    "single": "The model runs one loop: a transition acts on that loop's state.",
}


def analysis_report(
    tables: Mapping[str, pd.DataFrame],
    facts: Mapping[str, Any],
    run: RunFolder,
    *,
    command: str = "",
) -> Report:
    """What the report about a run's measurements says.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them.
        facts: The setting, as `lt2theory.experiments.analyze.describe` gives it, and `seconds`.
        run: The run.
        command: What a reader types to get the report again, or "".

    Returns:
        The report.
    """
    codes = code_sections(tables, facts)
    sections = [
        transition_section(tables, facts),
        *codes,
        *element_sections(tables, facts),
        state_section(tables),
        influence_section(tables, facts),
        saw_tooth_section(tables, facts),
        gradient_section(tables),
    ]
    return Report(
        title=f"Analysis of {facts['label']}: {facts['task']}, seed {run.identity['seed']}",
        summary=[
            _setting(facts),
            SEMANTICS[semantics(facts)] if has_recurrence(tables) else NO_STATE,
            *(one.happened[0] for one in codes),
        ],
        sections=sections,
        glossary=terms(*TERMS),
        provenance=provenance_of([run], command=command),
    )


def _setting(facts: Mapping[str, Any]) -> str:
    knobs = ", ".join(f"{name} {value}" for name, value in facts["knobs"].items())
    return (
        f"Measured in float64 on {counted(facts['instances'], 'held-out instance')} of "
        f"{facts['task']} ({knobs or 'no knobs'}), stage {facts['stage']}, "
        f"{counted(facts['length'], 'token')} each (test split, seed {facts['seed']}), in "
        f"{facts['seconds']:.1f} s. The model: {counted(facts['num_layers'], 'layer')} of pattern "
        f"{facts['pattern']!r}, {counted(facts['num_loops'], 'loop')}, {facts['loop_state']}."
    )
