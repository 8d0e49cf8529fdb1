"""Section of an analysis report that names the representation in which a model keeps a product."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lt2theory.analysis.characters import STANDARD
from lt2theory.analysis.group_codes import CARRIES, HELD
from lt2theory.analysis.group_verdict import (
    EXPLAINED,
    KINDS,
    READABLE,
    CodeKind,
    named_codes,
)
from lt2theory.analysis.representation import TOLERANCE
from lt2theory.report.analysis_code_tables import code_tables, head_name
from lt2theory.report.analysis_transitions import semantics
from lt2theory.report.content import Section
from lt2theory.report.tables import counted

TITLE = "The representation that the model found"
KIND_NAMES = {
    "representation": "as a linear representation",
    "cascade": "as a cascade",
    "feedback": "by feedback",
}
"""The kinds of codes that transitions carry."""


def code_sections(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> list[Section]:
    """How the model keeps the running product of a group.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them.
        facts: The setting, as `lt2theory.experiments.analyze.describe` gives it.

    Returns:
        One section, or none if nothing was measured about a group.
    """
    if "group_readout" not in tables:
        return []
    shown = code_tables(tables)
    return [
        Section(
            title=TITLE,
            question="In which representation do the states keep the product, and what moves it?",
            happened=verdict(tables, facts),
            tables=shown,
            notes=[
                "Rules: a component is held by a head from "
                f"{100 * HELD:.0f} % of its state's variance on, readable from "
                f"{100 * READABLE:.0f} % accuracy on, carried if transitions alone put "
                f"{100 * CARRIES:.0f} % of the next product's code in place, and explained from "
                f"{100 * EXPLAINED:.0f} % of the variance on. Everything is "
                "fitted on half the words and tested on the others.",
                *_notes(facts),
            ],
        )
    ]


def verdict(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> list[str]:
    """What representation was found, in sentences.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them, with
            `group_readout`, `group_heads`, `group_silenced`, and `group_codes` and
            `group_elements` where a head holds something.
        facts: The setting, as `lt2theory.experiments.analyze.describe` gives it.

    Returns:
        The name first, then where the product is readable, what every head holds and the ranks.
    """
    named = named_codes(tables.get("group_codes", pd.DataFrame()))
    rows = named.to_dict("records")
    said = [_name(rows, tables), _depth(tables["group_readout"], facts)]
    for row in rows:
        said.append(_code(row, tables))
        if row["kind"] == "representation" and row["dimension"] > 1:
            said.append(_ranks(row, tables["group_elements"]))
    return [*said, *_relative(tables, facts, rows)]


def _name(rows: list[dict[Any, Any]], tables: Mapping[str, pd.DataFrame]) -> str:
    product = float(tables["group_readout"]["product"].iloc[-1])
    carried = [row for row in rows if row["kind"] in KIND_NAMES]
    if not carried and product < READABLE:
        held = (
            f"{rows[0]['component']} is held, but not carried"
            if rows
            else "no head holds a component of it"
        )
        return (
            f"No representation can be named: the product is not tracked ({_percent(product)} "
            f"readable at the end), and {held}."
        )
    if not carried:
        where = "in a code that is written afresh" if rows else "by no head's state linearly"
        return f"The product is readable at the end ({_percent(product)}), but kept {where}."
    names = " and ".join(f"{row['component']} ({KIND_NAMES[row['kind']]})" for row in carried)
    if product >= READABLE:
        return f"Named: the states carry {names}."
    return (
        f"Named in part: the states carry {names}, but the product is not tracked "
        f"({_percent(product)} readable at the end)."
    )


def _depth(readout: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    part = _commuting_name(facts)
    last = readout.iloc[-1]
    start = readout.iloc[0]
    said = [
        _first(readout, "product", "The product", last["chance"], start["product"]),
    ]
    if last["commuting_chance"] < 1 and part:
        said.append(
            _first(readout, "commuting", part, last["commuting_chance"], start["commuting"])
        )
    return " ".join(said)


def _first(readout: pd.DataFrame, column: str, what: str, chance: float, start: float) -> str:
    """Where something is first readable, beside chance and the embedding alone."""
    floor = f"the embedding alone gives {_percent(start)}, chance {_percent(chance)}"
    enough = readout[readout[column] >= READABLE]
    row = readout.iloc[int(readout[column].argmax())] if enough.empty else enough.iloc[0]
    place = "the embedding"
    if row["loop"] >= 0:
        place = f"loop {int(row['loop']) + 1}, layer {int(row['layer']) + 1}"
    verb = "is nowhere readable, best after" if enough.empty else "is first readable after"
    return f"{what} {verb} {place} ({_percent(row[column])}; {floor})."


def _code(row: Mapping[Any, Any], tables: Mapping[str, pd.DataFrame]) -> str:
    kind: CodeKind = row["kind"]
    others = int(row["others"])
    also = f" ({counted(others, 'other head')} likewise)" if others else ""
    text = (
        f"{head_name(row).capitalize()}{also} holds {row['component']} after loop "
        f"{int(row['loop']) + 1}: {_percent(row['energy'])} of its state's variance, on "
        f"{int(row['directions'])} of {int(row['key_width'])} key directions. Its transitions put "
        f"{100 * row['carried']:.1f} ± {100 * row['carried_std']:.1f} % of the next product's code "
        f"in place. There the token's element explains {_percent(row['by_token'])} of the "
        f"transitions, with the commuting part of the prefix {_percent(row['by_commuting'])}, "
        f"with all of it {_percent(row['by_product'])}: {KINDS[kind]}."
    )
    return text + _silenced(row, tables["group_silenced"])


def _silenced(row: Mapping[Any, Any], silenced: pd.DataFrame) -> str:
    here = silenced[(silenced["layer"] == row["layer"]) & (silenced["head"] == row["head"])]
    if here.empty:
        return ""
    median = float(silenced.drop(here.index)["accuracy"].median()) if len(silenced) > 1 else None
    beside = "" if median is None else f" (without another one {_percent(median)} in the median)"
    without, whole = float(here["accuracy"].iloc[0]), float(here["whole"].iloc[0])
    return (
        f" Without this head accuracy goes from {_percent(whole)} to {_percent(without)}{beside}."
    )


def _ranks(row: Mapping[Any, Any], elements: pd.DataFrame) -> str:
    here = elements[elements["component"] == row["component"]]
    law = "n - cycles" if row["component"] == STANDARD else "rank(I - rho(g))"
    means = []
    for reference, cell in here.groupby("reference"):
        weight = cell["count"] / cell["count"].sum()
        mean = float((weight * cell["rank_mean"]).sum())
        square = (weight * (cell["rank_std"] ** 2 + (cell["rank_mean"] - mean) ** 2)).sum()
        means.append(f"{mean:.2f} ± {float(square) ** 0.5:.2f} for {float(str(reference)):g}")
    off = float((here["rank_mean"] - here["reference"]).abs().mean())
    agrees = "is" if off <= TOLERANCE else "is not"
    rest = int(row["key_width"] - row["directions"])
    least = here[here["reference"] == here["reference"].min()]
    whole = (
        f" Over all {int(row['key_width'])} key directions it is "
        f"{least['whole_rank'].mean():.2f} where it should be {least['reference'].iloc[0]:g}: the "
        f"head changes the other {rest} as well."
        if rest
        else ""
    )
    return (
        f"On these directions the effective rank {agrees} {law}: {', '.join(means)} (mean "
        f"deviation {off:.2f}).{whole}"
    )


def _relative(
    tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any], rows: list[dict[Any, Any]]
) -> list[str]:
    """The commuting part where no head holds it linearly, but one in products of two numbers."""
    part = _commuting_name(facts)
    heads = tables["group_heads"]
    best = heads.iloc[int(heads["commuting_pairs"].argmax())]
    linear = float(heads["commuting"].max())
    if not part or best["commuting_pairs"] < READABLE or linear >= READABLE:
        return []
    return [
        f"{part} is in no head's state linearly (at best {_percent(linear)}), but in products of "
        f"two numbers of the state of {head_name(best)}, loop {int(best['loop']) + 1} "
        f"({_percent(best['commuting_pairs'])}): only relative to another part of the state."
    ]


def _notes(facts: Mapping[str, Any]) -> list[str]:
    if semantics(facts) != "rescan":
        return []
    return [
        "Under rescan every loop has a state of its own, and the transitions here are those that "
        "this loop's state undergoes: what is named here happens. The rank of the product over "
        "loops, compared elsewhere in this report, belongs to no state (L1)."
    ]


def _commuting_name(facts: Mapping[str, Any]) -> str:
    """What the commuting part is called; "" where it is everything or nothing."""
    group = str(facts["knobs"].get("group", ""))
    if group.startswith(("Z", "C")) and "x" not in group:
        return ""
    return "Its sign" if group.startswith("S") and "x" not in group else "Its commuting part"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
