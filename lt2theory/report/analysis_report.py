"""The report of what the analysers measured on one run."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lt2theory.analysis import MEANINGS
from lt2theory.analysis.representation import IDLE, PERMUTATION, TOLERANCE
from lt2theory.report.content import Report, ReportFigure, ReportTable, Section
from lt2theory.report.figures import (
    effective_rank_by_loops,
    influence_map,
    rank_by_element,
    saw_tooth,
    spectrum_by_loops,
    state_rank_over_time,
)
from lt2theory.report.glossary import terms
from lt2theory.report.provenance import provenance_of
from lt2theory.report.tables import counted, format_number
from lt2theory.runs import RunFolder

TERMS = ("loops (T)", "rescan", "accumulate", "effective rank", "reach", "splits")
MOST_ELEMENTS = 30

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
        tables: As `lt2theory.experiments.analyze.measure` makes them.
        facts: The setting, as `describe` there gives it, and `seconds`.
        run: The run.
        command: What a reader types to get the report again, or "".

    Returns:
        The report.
    """
    sections = [
        _transitions(tables, facts),
        *_elements(tables, facts),
        _states(tables),
        _influence(tables, facts),
        _saw_tooth(tables, facts),
        _gradients(tables),
    ]
    return Report(
        title=f"Analysis of {facts['label']}: {facts['task']}, seed {run.identity['seed']}",
        summary=[_setting(facts), SEMANTICS[_semantics(facts)] if _linear(tables) else _NO_STATE],
        sections=sections,
        glossary=terms(*TERMS),
        provenance=provenance_of([run], command=command),
    )


_NO_STATE = (
    "The model has attention alone: no layer keeps a matrix state, so there is no transition to "
    "compose and nothing that looping could add to its rank."
)


def _linear(tables: Mapping[str, pd.DataFrame]) -> bool:
    return "transitions" in tables


def _semantics(facts: Mapping[str, Any]) -> str:
    return str(facts["loop_state"]) if facts["num_loops"] > 1 else "single"


def _setting(facts: Mapping[str, Any]) -> str:
    knobs = ", ".join(f"{name} {value}" for name, value in facts["knobs"].items())
    return (
        f"Measured in float64 on {counted(facts['instances'], 'held-out instance')} of "
        f"{facts['task']} ({knobs or 'no knobs'}), stage {facts['stage']}, "
        f"{counted(facts['length'], 'token')} each (test split, seed {facts['seed']}), in "
        f"{facts['seconds']:.1f} s. The model: {counted(facts['num_layers'], 'layer')} of pattern "
        f"{facts['pattern']!r}, {counted(facts['num_loops'], 'loop')}, {facts['loop_state']}."
    )


def _transitions(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> Section:
    question = "How much of the state does a token's update change, and does looping change more?"
    title = "Spectrum and effective rank of the transitions"
    if not _linear(tables):
        return Section(title, question, happened=[_NO_STATE])
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
    labelled = pd.DataFrame(
        {
            "label": "all layers and heads",
            "num_loops": erasing["num_loops"],
            "value": erasing["entropy_rank"],
            "ideal": erasing["ideal_entropy_rank"],
        }
    )
    meaning = MEANINGS[_semantics(facts)]
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
                "Medians over tokens, heads and layers that erase; `above 0.1` is the mean number "
                "of singular values above it, key |cos| the largest between two loops' keys.",
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


def _elements(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> list[Section]:
    if "elements" not in tables:
        return []
    elements, carried = tables["elements"], tables["representations"]
    first = carried.iloc[0]
    best = elements[
        (elements["layer"] == first["layer"]) & (elements["head"] == first["head"])
    ].sort_values(["reference", "element"])
    name = _head(first["layer"], first["head"])
    named = elements.assign(
        head=[_head(a, b) for a, b in elements[["layer", "head"]].itertuples(index=False)],
        median=elements["carried_median"],
        low=elements["carried_low"],
        high=elements["carried_high"],
    )
    found = _carried(carried, facts)
    shown = pd.DataFrame(
        {
            "element": best["element"],
            "n - cycles": best["reference"],
            "effective rank": _with_spread(best, "entropy"),
            "values above 0.1": _with_spread(best, "absolute"),
            "largest value (median)": best["largest_median"].round(3),
            "tokens": best["count"],
        }
    )
    rows = carried.sort_values("deviation", kind="stable")
    nearest = pd.DataFrame(
        {
            "representation": rows["representation"],
            "nearest head": [_head(a, b) for a, b in rows[["layer", "head"]].itertuples(False)],
            "mean deviation": rows["deviation"],
            f"within {TOLERANCE:g}": rows["within"],
        }
    )
    figure = ReportFigure(
        rank_by_element(
            named[["head", "element", "median", "low", "high", "reference"]],
            best=name,
            statistic="effective rank (0 where idle)",
        ),
        "Effective rank of the composed transition of every group element in the head that comes "
        "nearest to n - cycles: median and middle nine tenths of the tokens.",
        f"Effective rank by element. {' '.join(found)}",
    )
    return [
        Section(
            title="The group, element by element",
            question=(
                "Does a head carry the group as permutation matrices, so that the transition of g "
                "has rank n - cycles(g) (E2)?"
            ),
            happened=found,
            figures=[figure],
            tables=[
                ReportTable(
                    shown.head(MOST_ELEMENTS),
                    f"{name}: mean and standard deviation over tokens after all loops.",
                ),
                ReportTable(
                    nearest,
                    "The nearest head for the ranks of several representations; the deviation is "
                    "the mean over elements of the mean over tokens of |effective rank - rank|.",
                ),
            ],
            notes=[
                f"A transition whose largest singular value is at most {IDLE:g} counts as rank 0 "
                "in deviations and in the figure (a reflection has 2): the entropy rank ignores "
                "the scale.",
                "Equal ranks do not prove a representation; unequal ones disprove it for that "
                "head. The model may also spread the group over several heads (E8).",
                *_rescan_note(facts),
            ],
        )
    ]


def _carried(carried: pd.DataFrame, facts: Mapping[str, Any]) -> list[str]:
    first = carried.iloc[0]
    where = _head(first["layer"], first["head"])
    deviation = format_number(first["deviation"], 2)
    if first["within"]:
        said = (
            "shows the ranks of the group, but in a product that acts on no single state (L1)"
            if _semantics(facts) == "rescan"
            else "carries the group"
        )
        found = [
            f"{where.capitalize()} {said}: its effective rank deviates from n - cycles by "
            f"{deviation} in the mean (tolerance {TOLERANCE:g})."
        ]
    else:
        found = [
            f"No head shows n - cycles within {TOLERANCE:g}: the nearest is {where}, with a mean "
            f"deviation of {deviation}. If the model tracks the group, it found another way."
        ]
    others = carried[(carried["representation"] != PERMUTATION) & carried["within"]]
    found += [
        f"{_head(row['layer'], row['head']).capitalize()} shows the ranks of "
        f"{row['representation']} (deviation {format_number(row['deviation'], 2)})."
        for row in others.to_dict("records")
    ]
    if not first["within"]:
        found.append(
            "The numbers suggest the representations named above (E8)."
            if len(others)
            else "None of the other representations listed below fits either (E8): the group may "
            "be spread over several heads, layers or loops, or carried outside the states."
        )
    return found


def _rescan_note(facts: Mapping[str, Any]) -> list[str]:
    if _semantics(facts) != "rescan":
        return []
    return [
        "Under rescan the product acts on no single state (L1). The comparison says what the "
        "factors of a token would do one after the other, not how the model tracks the group: two "
        "loops of one reflection each can track S_3 without any product of rank 2 (L6)."
    ]


def _head(layer: object, head: object) -> str:
    return f"layer {int(str(layer)) + 1}, head {int(str(head)) + 1}"


def _with_spread(frame: pd.DataFrame, name: str) -> list[str]:
    return [
        f"{mean:.2f} ± {std:.2f}"
        for mean, std in frame[[f"{name}_mean", f"{name}_std"]].itertuples(index=False)
    ]


def _states(tables: Mapping[str, pd.DataFrame]) -> Section:
    title = "State rank over time"
    question = "How many directions do the matrix states hold after t tokens?"
    if "states" not in tables:
        return Section(title, question, happened=[_NO_STATE])
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


def _influence(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> Section:
    table = tables["influence"]
    loops = [int(count) for count in table["loops_done"].unique()]
    found = []
    for count in loops:
        row = table[table["loops_done"] == count].sort_values("distance")
        furthest = int(row.loc[row["reached"], "distance"].max()) if row["reached"].any() else 0
        within = int((row["share"].cumsum() < 0.99 * row["share"].sum()).sum())
        said = f"After {counted(count, 'loop')} the influence reaches {furthest + 1} tokens back"
        found.append(f"{said}, itself included; 99 % of it lies within {within} tokens.")
    reach, law = tables.get("reach"), tables.get("law")
    notes = [_probes(table)]
    if reach is None:
        notes.append(
            "A layer with a recurrence or full attention reaches everything: W1 and W3 are about "
            "windows and are not drawn."
        )
    else:
        bounds = reach.set_index("loops_done")["reach"]
        seen = table[table["reached"]].groupby("loops_done")["distance"].max() + 1
        kept = bool((seen <= bounds.reindex(seen.index)).all())
        found.append(
            f"The reach of W1 is {', '.join(str(bounds[count]) for count in loops)} tokens and is "
            + ("kept: every influence beyond it is exactly zero." if kept else "NOT kept.")
        )
    if law is not None:
        residual = float(law["residual"].iloc[0])
        notes.append(
            f"The law W3 is drawn with the residual weight a = {residual:.3f} that gives the "
            "measured mean distance after all loops; it assumes uniform attention."
            + (
                ""
                if bool(law["away_from_start"].iloc[0])
                else " The sequence is shorter than the reach, so that the law is cut off and the "
                "fit of a is biased upwards."
            )
        )
    return Section(
        title="Influence on the last token",
        question="From how far back do the loops bring information?",
        happened=found,
        figures=[
            ReportFigure(
                influence_map(
                    table.assign(value=table["share"]),
                    reach=reach,
                    law=None if law is None else law.assign(value=law["share"]),
                ),
                "Share of the influence (norm of the Jacobian of the residual stream at the last "
                "token with respect to each embedding) by distance and loops done.",
                f"Influence map. {' '.join(found)}",
            )
        ],
        notes=notes,
    )


def _probes(table: pd.DataFrame) -> str:
    first = table.iloc[0]
    how = (
        "exact Jacobians"
        if first["exact"]
        else f"{first['vector_jacobian_products']} random probes of the Jacobian"
    )
    return f"From {how} on {counted(int(first['instances']), 'instance')}."


def _saw_tooth(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> Section:
    rms, mass = tables["residuals"], tables["first_token"]
    last_block = rms[rms["layer"] == rms["layer"].max()].groupby("loop")["rms"].median()
    per_loop = ", ".join(format_number(float(value), 2) for value in last_block)
    found = [f"Median RMS of the residual stream at the end of each loop's blocks: {per_loop}."]
    for kind, cell in mass.groupby("kind"):
        blocks = cell.groupby(["loop", "layer"])["mass"].mean().sort_values().reset_index()
        most = blocks.iloc[-1]
        found.append(
            f"Most first-token mass by {kind}: {format_number(float(most['mass']), 3)} in loop "
            f"{int(most['loop']) + 1}, layer {int(most['layer']) + 1} (equal weights would give "
            f"{format_number(float(cell['uniform'].mean()), 3)})."
        )
    gated = mass[mass["passed"].notna()]
    if len(gated):
        found.append(
            f"Of the attention mass on the first token, {format_number(gated['mass'].mean(), 3)} "
            f"in the mean, the output gate lets {format_number(gated['passed'].mean(), 3)} through."
        )
    return Section(
        title="Saw-tooth: residual size and first-token mass",
        question="Does the residual stream grow over the loops, and does a sink form?",
        happened=found,
        figures=[
            ReportFigure(
                saw_tooth(rms, mass),
                "Left: RMS of the residual stream after every block. Right: share of a head's "
                "weights on the first token, mean over heads (dots: single heads); for recurrences "
                "shares of the absolute weights with which values are read.",
                f"Saw-tooth. {' '.join(found)}",
            )
        ],
        notes=[] if facts["output_gate"] else ["The softmax layers, if any, have no output gate."],
    )


def _gradients(tables: Mapping[str, pd.DataFrame]) -> Section:
    weights, states = tables["weight_gradients"], tables["state_gradients"]
    found = [
        f"Loop {row['loop'] + 1} contributes {100 * row['share']:.0f} % of the gradient "
        f"(norm {row['norm']:.3g}, cosine to the whole {row['cosine']:.2f})."
        for row in weights.to_dict("records")
    ]
    shown = weights.assign(loop=weights["loop"] + 1)
    return Section(
        title="Gradient of the shared weights, loop by loop",
        question="Which loops does the task's loss pull on?",
        happened=found,
        tables=[
            ReportTable(
                shown,
                "Contribution of every loop to the gradient of the block weights: norm, share "
                "(inner product with the whole over its squared norm) and cosine to the whole.",
            ),
            ReportTable(
                states.rename(columns={"loops_done": "loops done"}),
                "Norm of the gradient of h^(tau), the stream between the loops.",
            ),
        ],
        notes=["The loops' contributions sum to the ordinary gradient of the shared weights."],
    )
