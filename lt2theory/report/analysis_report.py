"""The report of what the analysers measured on one run."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lt2theory.report.analysis_codes import code_sections
from lt2theory.report.analysis_elements import element_sections
from lt2theory.report.analysis_influence import influence_section
from lt2theory.report.analysis_instruments import instrument_sections
from lt2theory.report.analysis_stability import gradient_section, saw_tooth_section
from lt2theory.report.analysis_transitions import (
    NO_STATE,
    has_recurrence,
    semantics,
    state_section,
    transition_section,
)
from lt2theory.report.content import Report, Section
from lt2theory.report.glossary import terms
from lt2theory.report.provenance import provenance_of
from lt2theory.report.tables import counted
from lt2theory.runs import RunFolder, run_table

TERMS = (
    "loops (T)", "rescan", "accumulate", "claim id", "beta", "gate baseline", "effective rank",
    "orthogonal keys", "reach", "splits",
)  # fmt: skip

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
        facts: The setting, as `lt2theory.experiments.analyze.describe` gives it, `seconds`, and
            what the run failed to learn (`lt2theory.experiments.analysis_outcome`).
        run: The run.
        command: What a reader types to get the report again, or "".

    Returns:
        The report.
    """
    codes = code_sections(tables, facts)
    instruments = instrument_sections(
        run_table(run), num_layers=facts["num_layers"], num_loops=facts["num_loops"]
    )
    failure = _failure(facts)
    sections = [
        *failure,
        *instruments,
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
            *(section.happened[0] for section in failure),
            SEMANTICS[semantics(facts)] if has_recurrence(tables) else NO_STATE,
            *(one.happened[0] for one in codes),
        ],
        sections=sections,
        glossary=terms(*TERMS),
        provenance=provenance_of([run], command=command),
    )


def _failure(facts: Mapping[str, Any]) -> list[Section]:
    """That the numbers are not those of a solution, where they are not."""
    if not facts["failure"]:
        return []
    whose = "a model in training" if facts["failed_stage"] is None else "a model that failed"
    said = f"{facts['failure']} All numbers here, ranks among them, are of {whose}."
    return [
        Section("What was not learnt", "Has the model learnt its task?", happened=[said]),
    ]


def _setting(facts: Mapping[str, Any]) -> str:
    return (
        f"Measured in float64 on {_instances(facts)}, in {facts['seconds']:.1f} s. The model: "
        f"{counted(facts['num_layers'], 'layer')} of pattern {facts['pattern']!r}, "
        f"{counted(facts['num_loops'], 'loop')}, {facts['loop_state']}."
    )


def _instances(facts: Mapping[str, Any]) -> str:
    """What was looked at."""
    tokens = f"{counted(facts['length'], 'token')} each"
    if facts["stage"] is None:
        windows = counted(facts["instances"], "held-out window")
        return f"{windows} of text, {tokens} (seed {facts['seed']})"
    knobs = ", ".join(f"{name} {value}" for name, value in facts["knobs"].items())
    return (
        f"{counted(facts['instances'], 'held-out instance')} of {facts['task']} "
        f"({knobs or 'no knobs'}), stage {facts['stage']}, {tokens} (test split, seed "
        f"{facts['seed']})"
    )
