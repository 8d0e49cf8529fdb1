"""Tables of an analysis report about the representation in which a model keeps a product."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lt2theory.analysis.group_codes import HELD
from lt2theory.report.content import ReportTable

MOST_ROWS = 30
WITHOUT = "model without it"


def code_tables(tables: Mapping[str, pd.DataFrame]) -> list[ReportTable]:
    """What was measured about a group's codes, ready to show.

    Args:
        tables: As `lt2theory.experiments.analysis_codes.group_tables` makes them.

    Returns:
        By depth, by head, and where a head holds something by component and by element.
    """
    shown = [
        ReportTable(
            _readout_table(tables["group_readout"]),
            "Held-out accuracy of a linear read-out of the residual stream.",
        ),
        _by_head(tables),
    ]
    if "group_codes" in tables:
        shown += [
            ReportTable(
                _code_table(tables["group_codes"]).head(MOST_ROWS),
                f"Every component that makes up {100 * HELD:.0f} % of a state's variance or more: "
                "how much of the next product's code the transition alone puts in place "
                "(± deviation over tokens), and how much of what the transitions do on the code's "
                "key directions the token explains, alone, with the commuting part of the prefix, "
                "with all of it.",
            ),
            ReportTable(
                _element_table(tables["group_elements"]).head(MOST_ROWS),
                "The transitions on the code's key directions at the best place of every "
                "component: effective rank of I - A and trace (mean ± deviation over tokens) and "
                "eigenvalues, beside those of the representation.",
            ),
        ]
    return shown


def head_name(row: Any) -> str:
    """What a head is called.

    Args:
        row: Something with `layer` and `head`, counted from 0.

    Returns:
        For instance `layer 1, head 3`.
    """
    return f"layer {int(row['layer']) + 1}, head {int(row['head']) + 1}"


def with_spread(frame: pd.DataFrame, name: str) -> list[str]:
    """A quantity with its spread.

    Args:
        frame: Has the columns `<name>_mean` and `<name>_std`.
        name: The quantity.

    Returns:
        For instance `1.02 ± 0.10`, a row each.
    """
    return [
        f"{mean:.2f} ± {std:.2f}"
        for mean, std in frame[[f"{name}_mean", f"{name}_std"]].itertuples(index=False)
    ]


def _readout_table(readout: pd.DataFrame) -> pd.DataFrame:
    places = [
        "embedding" if loop < 0 else f"loop {loop + 1}, layer {layer + 1}"
        for loop, layer in readout[["loop", "layer"]].itertuples(index=False)
    ]
    frame = readout[["product", "chance", "commuting", "commuting_chance"]].round(3)
    frame.columns = ["product", "chance", "its commuting part", "chance of that"]
    frame.insert(0, "after", places)
    return frame


def _by_head(tables: Mapping[str, pd.DataFrame]) -> ReportTable:
    frame = _head_table(tables).head(MOST_ROWS)
    said = (
        "By head: the same read-outs of its state, beside each the one that also has products of "
        "two numbers of the state (from pairs)"
    )
    silenced = ", and the model's accuracy without the head" if WITHOUT in frame else ""
    return ReportTable(frame, f"{said}{silenced}.")


def _head_table(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    heads = tables["group_heads"].merge(
        tables["group_silenced"][["layer", "head", "accuracy"]], on=["layer", "head"], how="left"
    )
    frame = pd.DataFrame(
        {
            "head": [head_name(row) for row in heads.to_dict("records")],
            "after loop": heads["loop"] + 1,
            "product": heads["product"].round(3),
            "from pairs": heads["product_pairs"].round(3),
            "commuting part": heads["commuting"].round(3),
            "from pairs ": heads["commuting_pairs"].round(3),
        }
    )
    # Heads are silenced only where the model tracks something.
    without = heads["accuracy"].astype(float).round(3)
    return frame if without.isna().all() else frame.assign(**{WITHOUT: without})


def _code_table(codes: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "head": [head_name(row) for row in codes.to_dict("records")],
            "after loop": codes["loop"] + 1,
            "component": codes["component"],
            "share of variance": codes["energy"].round(3),
            "key directions": codes["directions"],
            "carried": [
                f"{mean:.2f} ± {std:.2f}"
                for mean, std in codes[["carried", "carried_std"]].itertuples(index=False)
            ],
            "by token": codes["by_token"].round(3),
            "with commuting part": codes["by_commuting"].round(3),
            "with product": codes["by_product"].round(3),
            "trace off by": codes["character_error"].round(3),
        }
    )


def _element_table(elements: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "head": [head_name(row) for row in elements.to_dict("records")],
            "component": elements["component"],
            "element": elements["element"],
            "rank(I - rho)": elements["reference"],
            "effective rank": with_spread(elements, "rank"),
            "character": elements["character"].round(3) + 0.0,
            "trace": with_spread(elements, "trace"),
            "eigenvalues of rho": elements["expected"],
            "eigenvalues": elements["eigenvalues"],
            "tokens": elements["count"],
        }
    )
