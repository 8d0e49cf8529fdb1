"""Tables of docs/linearization-study.md on our own teachers: shares, speed, layers, fits."""

import pandas as pd

from lt2theory.experiments.cell_tables import Records
from lt2theory.experiments.linearization.fits import fitted, size_points
from lt2theory.experiments.linearization.predictions import WANTED
from lt2theory.experiments.linearization.views import (
    Place,
    arms,
    ended,
    lengths,
    mean_share,
    pooled,
    probes,
    share,
)
from lt2theory.report.tables import MISSING, format_number


def share_records(table: pd.DataFrame) -> Records:
    """Shares of the looped teacher's accuracy above the floor, probe by probe.

    Args:
        table: The table.

    Returns:
        One record an arm and probe, and one an arm for the mean with the line of 93 %.
    """
    rows, records = ended(table, "hybrids"), []
    for arm in arms(rows):
        for place in probes(rows, arm):
            theirs = pooled(
                rows, arm, Place(place.part, place.metric, "teacher", place.kind, place.length)
            )
            own, part = pooled(rows, arm, place), share(rows, arm, place)
            assert theirs is not None
            assert own is not None
            assert part is not None
            name = " ".join(str(x) for x in (place.part, place.kind, place.length) if x)
            records.append(
                {
                    "arm": arm,
                    "probe": name,
                    "teacher": theirs.said,
                    "student": own.said,
                    "floor": format_number(own.floor),
                    "share": part.said,
                }
            )
        mean = mean_share(rows, arm)
        if mean is not None:
            line = "reached" if mean.low >= WANTED else "missed" if mean.high < WANTED else "open"
            records.append(
                {
                    "arm": f"**{arm}**",
                    "probe": f"mean of {mean.n}; {100 * WANTED:.0f} %: {line}",
                    "teacher": "",
                    "student": "",
                    "floor": "",
                    "share": mean.said,
                }
            )
    return records


def speed_records(table: pd.DataFrame) -> Records:
    """Decoding and caches before and after, by length.

    Args:
        table: The table.

    Returns:
        One record an arm and length.
    """
    rows = ended(table, "hybrids")
    records = []
    for arm in arms(rows):
        for length in lengths(rows[rows["arm"] == arm], "speed"):
            pairs = {}
            for metric in ("decode_ms", "prefill_ms", "cache_mib"):
                ends = [
                    pooled(rows, arm, Place("speed", metric, model, length=length))
                    for model in ("teacher", "student")
                ]
                said = " -> ".join(
                    MISSING if one is None else format_number(one.value) for one in ends
                )
                pairs[metric.replace("_", ", ")] = said
            records.append({"arm": arm, "tokens": str(length), **pairs})
    return records


def selection_records(table: pd.DataFrame) -> Records:
    """Scores of layers by the trained selector, and what the others choose.

    Args:
        table: The table.

    Returns:
        One record a selector.
    """
    rows = ended(table, "hybrids")
    rows = rows[rows["part"] == "selection"]
    records = []
    for kind, own in rows.groupby("kind", sort=False):
        wide = own.pivot_table(index="layer", columns="metric", values="value").sort_index()
        chosen = wide[wide["chosen"] > 0]
        scores = own[own["metric"] == "score"].sort_values("layer")
        records.append(
            {
                "selector": str(kind),
                "layers": ", ".join(str(layer) for layer in chosen.index),
                "seeds that choose each": ", ".join(
                    f"{100 * float(part):.0f} %" for part in chosen["share_of_seeds"]
                ),
                "scores by layer": ", ".join(
                    format_number(float(value)) for value in scores["value"]
                ),
            }
        )
    return records


def fit_records(table: pd.DataFrame) -> Records:
    """Exponents of parameters and tokens.

    Args:
        table: The table.

    Returns:
        One record a mixer with enough points.
    """
    records = []
    for mixer, points in size_points(ended(table, "sizes")).groupby("mixer", sort=False):
        fit = fitted(points)
        if fit is not None:
            records.append(
                {
                    "mixer": str(mixer),
                    "exponent of parameters": fit.size.said,
                    "exponent of tokens": fit.budget.said,
                    "error (logarithm)": format_number(fit.error),
                    "points": str(fit.n),
                }
            )
    return records
