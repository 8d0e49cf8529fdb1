"""The section of an analysis report on what the instruments read during training."""

import numpy as np
import pandas as pd

from lt2theory.analysis.instruments import ALPHA_EDGES, BETA_EDGES
from lt2theory.report.content import ReportFigure, Section
from lt2theory.report.figures import (
    gate_histograms,
    instruments_over_training,
    profiles_over_depth,
)
from lt2theory.report.frames import numbers
from lt2theory.report.tables import format_number

EDGES = {"beta": BETA_EDGES, "alpha": ALPHA_EDGES}


def instrument_sections(table: pd.DataFrame, *, num_layers: int, num_loops: int) -> list[Section]:
    """What happened to the stream, the sinks and the gates while the run was trained.

    Args:
        table: The run's tidy table (`lt2theory.runs.run_table`).
        num_layers: Layers N of its model.
        num_loops: Loops T.

    Returns:
        One section; none where the run has read no instruments.
    """
    read = table[table["split"] == "stability"]
    if read.empty:
        return []
    few = read[read["position"].isna()]
    profiles = read[read["position"].notna()]
    found = _found(few, num_loops)
    figures = [
        ReportFigure(
            instruments_over_training(few),
            "Contribution of every loop to the gradient of the shared block weights, median RMS "
            "after its last block, and the largest shares over all places, on windows not yet "
            "trained on.",
            f"Instruments over training. {' '.join(found)}",
        ),
        ReportFigure(
            profiles_over_depth(profiles, num_layers=num_layers, num_loops=num_loops),
            "The same places over the depth, at a few steps: median RMS, largest entry over RMS, "
            "and mean share of the attention on the first token.",
            f"Profiles over depth. {found[0]}",
        ),
    ]
    names = set(profiles["metric"].astype(str))
    edges = {gate: bounds for gate, bounds in EDGES.items() if f"{gate}_loop_1" in names}
    if edges:
        said = "Erase strength beta and decay alpha of all heads, layers and tokens, by loop."
        figures.append(ReportFigure(gate_histograms(profiles, edges), said, said))
    return [
        Section(
            title="Instruments during training",
            question="Did the loops grow, a sink form, or a loop's gradient take over?",
            happened=found,
            figures=figures,
        )
    ]


def _found(few: pd.DataFrame, num_loops: int) -> list[str]:
    """The first and the last reading in words."""
    wide = few.pivot_table(index="step", columns="metric", values="value", aggfunc="last")
    steps = [int(step) for step in numbers(wide.reset_index(), "step")]
    wide = wide.astype(float).set_axis(steps)
    first, last = steps[0], steps[-1]
    found = []
    for start, text in (("rms", "RMS after the last block"), ("gradient_norm", "Gradient norm")):
        names = [f"{start}_loop_{loop}" for loop in range(1, num_loops + 1)]
        rows = wide.reindex(columns=names).to_numpy(dtype=float)
        ends = [", ".join(map(format_number, rows[place].tolist())) for place in (0, -1)]
        found.append(f"{text} by loop: {ends[0]} at step {first:,}, {ends[1]} at step {last:,}.")
    if "massive" in wide.columns:
        sizes = numbers(wide, "massive")
        step, size = steps[int(np.nanargmax(sizes))], format_number(float(np.nanmax(sizes)), 1)
        found.append(f"The largest entry was {size} times the RMS, at step {step:,}.")
    return found
