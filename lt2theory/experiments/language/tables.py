"""The tables of docs/language-study.md: strings, in the order of the arms."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from lt2theory.experiments.cell_tables import Records
from lt2theory.experiments.language.arms import BASE
from lt2theory.experiments.language.cells import LENGTH, LONG
from lt2theory.experiments.language.comparisons import (
    bits_per_byte,
    largest,
    more_bits,
    number,
    said,
)
from lt2theory.experiments.linearization.views import Pooled, ended
from lt2theory.report.tables import MISSING, format_number

Column = Callable[[pd.DataFrame, str], str]


def records(table: pd.DataFrame, arms: Sequence[str], columns: Mapping[str, Column]) -> Records:
    """Arms with some of their numbers.

    Args:
        table: The table.
        arms: The arms.
        columns: Headings, and what stands below them.

    Returns:
        One record an arm of which a seed has ended without diverging.
    """
    rows = ended(table)
    there = set(rows["arm"])
    return [
        {"arm": arm, "seeds": str(rows[rows["arm"] == arm]["seed"].nunique())}
        | {heading: told(rows, arm) for heading, told in columns.items()}
        for arm in arms
        if arm in there
    ]


def quality(base: str = BASE) -> dict[str, Column]:
    """What an arm spends, alone and beside another.

    Args:
        base: The arm that others are compared with.

    Returns:
        Columns.
    """
    return {
        "bits per byte": lambda rows, arm: _said(bits_per_byte(rows, arm)),
        f"% over {base}": lambda rows, arm: (
            MISSING if arm == base else _percent(more_bits(rows, arm, base))
        ),
    }


def size() -> dict[str, Column]:
    """What an arm is made of.

    Returns:
        Columns.
    """
    return {
        "layers x loops": lambda rows, arm: (
            f"{_first(rows, arm, 'layers'):.0f} x {_first(rows, arm, 'loops'):.0f}"
        ),
        "softmax of these": lambda rows, arm: f"{_first(rows, arm, 'softmax_visits'):.0f}",
        "parameters (M)": lambda rows, arm: f"{_first(rows, arm, 'parameters') / 1e6:.1f}",
        "MFLOP a byte": lambda rows, arm: f"{_first(rows, arm, 'flops_a_token') / 1e6:.0f}",
    }


def speed() -> dict[str, Column]:
    """How fast an arm decodes, and how much it keeps.

    Returns:
        Columns.
    """
    return {
        f"bytes/s after {LENGTH:,}": _rate(LENGTH),
        f"bytes/s after {LONG:,}": _rate(LONG),
        f"cache after {LONG:,} (MiB)": lambda rows, arm: _said(
            number(rows, arm, "speed", "cache_mib", length=LONG)
        ),
    }


def instruments(loops: Sequence[int] = (0, 3)) -> dict[str, Column]:
    """What the instruments read at the end of training.

    Args:
        loops: Loops whose residual size is told.

    Returns:
        Columns.
    """
    columns: dict[str, Column] = {
        "largest sink mass": lambda rows, arm: _said(largest(rows, arm, "first_token_mass")),
        "massive": lambda rows, arm: _said(largest(rows, arm, "massive")),
    }
    for loop in loops:
        columns[f"RMS, loop {loop + 1}"] = _by_loop("rms", loop)
    for loop in loops:
        columns[f"gradient, loop {loop + 1}"] = _by_loop("gradient_norm", loop)
    return columns


def failure_records(table: pd.DataFrame, arms: Sequence[str]) -> Records:
    """Steps and runs that went wrong, diverged runs among them.

    Args:
        table: The table.
        arms: The arms.

    Returns:
        One record an arm of which a seed is done.
    """
    done = table[(table["status"] == "done") & (table["part"] == "training")]
    found = []
    for arm in arms:
        own = done[done["arm"] == arm]
        if own.empty:
            continue
        by_metric = own.groupby("metric")["value"]
        sums = by_metric.sum().astype(float)
        peaks = own[own["metric"] == "gradient_peak"]["value"].astype(float)
        found.append(
            {
                "arm": arm,
                "rate": format_number(float(own["learning_rate"].iloc[0]), 4),
                "seeds": str(own["seed"].nunique()),
                "diverged": f"{sums['diverged']:.0f}",
                "spikes": f"{sums['spikes']:.0f}",
                "steps not finite": f"{sums['not_finite']:.0f}",
                "largest gradient over median": ", ".join(format_number(x, 1) for x in peaks),
            }
        )
    return found


def gate_records(table: pd.DataFrame, arms: Sequence[str]) -> Records:
    """What the loop gate has learnt, loop by loop.

    Args:
        table: The table.
        arms: The arms.

    Returns:
        One record an arm and loop.
    """
    rows = ended(table)
    found = []
    for arm in arms:
        own = rows[(rows["arm"] == arm) & (rows["part"] == "loop_gate")]
        for loop in sorted({int(x) for x in own["loop"].dropna()}):
            rho = number(rows, arm, "loop_gate", "rho", loop=loop)
            size_of = number(rows, arm, "loop_gate", "rho_rms", loop=loop)
            told = {"mean [5 %, 95 % of channels]": _said(rho), "RMS over channels": _said(size_of)}
            found.append({"arm": arm, "loop": str(loop + 1), **told})
    return found


def _rate(length: int) -> Column:
    return lambda rows, arm: _said(number(rows, arm, "speed", "tokens_per_second", length=length))


def _by_loop(metric: str, loop: int) -> Column:
    return lambda rows, arm: _said(number(rows, arm, "stability", metric, loop=loop))


def _first(rows: pd.DataFrame, arm: str, column: str) -> float:
    return float(rows[rows["arm"] == arm][column].iloc[0])


def _said(one: Pooled | None) -> str:
    return MISSING if one is None else said(one)


def _percent(one: Pooled | None) -> str:
    return MISSING if one is None else said(one, scale=100.0)
