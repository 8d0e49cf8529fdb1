"""The figures of docs/language-study.md: functions of the table."""

from collections.abc import Callable, Iterable

import pandas as pd
from matplotlib.figure import Figure

from lt2theory.experiments.language.arms import BASE, PLACES, RATIOS
from lt2theory.experiments.language.cells import LONG
from lt2theory.experiments.language.comparisons import bits_by_seed, number
from lt2theory.experiments.linearization.views import Pooled, ended
from lt2theory.report.figures.language import quality_by_speed, values_by_loop

Drawing = Callable[[pd.DataFrame], Figure | None]
LOOPS = {
    "equal parameters": {1: "loops-1", 2: "loops-2", 4: BASE},
    "equal products": {1: "loops-1-deep", 2: "loops-2-deep", 4: BASE},
}


def pareto(table: pd.DataFrame) -> Figure | None:
    """Bits per byte by decoding speed, of ratios and placements.

    Args:
        table: The table.

    Returns:
        The figure, or None while no arm was measured.
    """
    rows, found = ended(table), []
    for arm in (*RATIOS, *PLACES):
        bits = bits_by_seed(rows, arm)
        speed = number(rows, arm, "speed", "tokens_per_second", length=LONG)
        if bits is not None and speed is not None:
            label = arm.partition("-")[2]
            found.append({"label": label, "tokens_per_second": speed.value, **_ends(bits)})
    return quality_by_speed(pd.DataFrame(found)) if found else None


def loops(table: pd.DataFrame) -> Figure | None:
    """Bits per byte by loops, at equal parameters and at equal products.

    Args:
        table: The table.

    Returns:
        The figure, or None while fewer than two numbers of loops were measured.
    """
    rows = ended(table)
    found = [
        {"label": label, "loop": count, **_ends(bits)}
        for label, arms in LOOPS.items()
        for count, arm in arms.items()
        if (bits := bits_by_seed(rows, arm)) is not None
    ]
    if len({row["loop"] for row in found}) < 2:
        return None
    return values_by_loop(pd.DataFrame(found), what="bits per byte", counts="loops")


def sinks(table: pd.DataFrame) -> Figure | None:
    """Mean sink mass of softmax layers by loop, with the output gate and without.

    Args:
        table: The table.

    Returns:
        The figure, or None while nothing was measured.
    """
    return _by_loop(
        table,
        ("ratio-1to0", "gate-1to0", BASE, "gate-1to4"),
        lambda rows, arm, loop: number(rows, arm, "profile", "first_token_mass", loop=loop),
        "mass on the first token",
    )


def loop_gates(table: pd.DataFrame) -> Figure | None:
    """Loop gates by loop, of the ratios.

    Args:
        table: The table.

    Returns:
        The figure, or None while nothing was measured.
    """
    return _by_loop(
        table,
        tuple(RATIOS),
        lambda rows, arm, loop: number(rows, arm, "loop_gate", "rho", loop=loop),
        "rho, over channels",
    )


def _by_loop(
    table: pd.DataFrame,
    arms: Iterable[str],
    told: Callable[[pd.DataFrame, str, int], Pooled | None],
    what: str,
) -> Figure | None:
    rows = ended(table)
    found = [
        {"label": arm, "loop": loop + 1, **_ends(one)}
        for arm in arms
        for loop in range(4)
        if (one := told(rows, arm, loop)) is not None
    ]
    return values_by_loop(pd.DataFrame(found), what=what) if found else None


def _ends(one: Pooled) -> dict[str, float]:
    return {"value": one.value, "low": one.low, "high": one.high}


FIGURES: dict[str, tuple[Drawing, str]] = {
    "language-pareto": (
        pareto,
        f"Bits per byte against bytes a second of eight rows after {LONG:,} bytes, from the best "
        "to the worst seed; the line joins what no other beats in both.",
    ),
    "language-sinks": (
        sinks,
        "Attention on the first token by loop: the mean over softmax layers and seeds, between "
        "the lowest and the highest of them.",
    ),
    "language-loops": (
        loops,
        "Bits per byte with one, two and four loops, from the best to the worst seed.",
    ),
    "language-gates": (
        loop_gates,
        "What the loop gate has learnt, by loop: its mean over channels, 5th to 95th percentile.",
    ),
}
"""Name of the file, what draws it, and its caption."""
