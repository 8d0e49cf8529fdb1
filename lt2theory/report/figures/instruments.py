"""What the stability instruments read during training."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lt2theory.report.figures.axes import Panels, new_figure
from lt2theory.report.figures.sawtooth import depth_axis
from lt2theory.report.frames import numbers, require_columns
from lt2theory.report.style import COLOURS, styled

PANELS = (
    ("gradient_norm_loop_", "gradient of the shared weights"),
    ("rms_loop_", "RMS after the loop"),
)
SHARES = {
    "first_token_mass": "first-token mass",
    "key_coherence": "key coherence",
}
CURVES = {
    "rms": "RMS of the residual stream",
    "massive": "largest entry over RMS",
    "first_token_mass": "first-token mass",
}
MOST_STEPS = 5


@styled
def instruments_over_training(frame: pd.DataFrame, *, ax: Panels | None = None) -> Figure:
    """Gradient norm and residual RMS of every loop, sinks and key coherence, by step.

    Args:
        frame: One row a number: `step`, `metric`, `value`, with the metrics of
            `lt2theory.analysis.StabilityReading`.
        ax: Panels of another figure to draw into, three; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["step", "metric", "value"], "instruments over training")
    figure, axes = new_figure(3, height=3.2, ax=ax)
    names = sorted(set(frame["metric"].astype(str)))
    for panel, (start, label) in zip(axes, PANELS, strict=False):
        for number, name in enumerate(n for n in names if n.startswith(start)):
            text = f"loop {name.removeprefix(start)}"
            _line(panel, frame, name, text, COLOURS[number % len(COLOURS)])
        panel.set_yscale("log")
        panel.set_ylabel(label)
    for number, (name, text) in enumerate(SHARES.items()):
        if name in names:
            _line(axes[2], frame, name, text, COLOURS[number])
    axes[2].set_ylim(-0.03, 1.04)
    for panel, columns in zip(axes, (2, 2, 1), strict=True):
        panel.set_xlabel("step")
        if panel.get_lines():
            panel.legend(
                loc="lower left",
                bbox_to_anchor=(-0.1, 1.0),
                ncols=columns,
                columnspacing=0.8,
                handlelength=1.0,
            )
    return figure


def _line(axes: Axes, frame: pd.DataFrame, metric: str, label: str, colour: str) -> None:
    own = frame[frame["metric"].astype(str) == metric].sort_values("step")
    axes.plot(numbers(own, "step"), numbers(own, "value"), color=colour, label=label)


@styled
def profiles_over_depth(
    frame: pd.DataFrame, *, num_layers: int, num_loops: int, ax: Panels | None = None
) -> Figure:
    """The saw-tooth as training went on: sizes, massive activations and sinks by depth.

    Args:
        frame: One row a number: `step`, `metric`, `position` (the depth, `loop * num_layers +
            layer`), `value`. A few steps are drawn, dark ones last.
        num_layers: Layers N.
        num_loops: Loops T.
        ax: Panels of another figure to draw into, as many as there are curves; None makes a figure.

    Returns:
        The figure, a panel for each of `CURVES` that the table has.
    """
    require_columns(frame, ["step", "metric", "position", "value"], "profiles over depth")
    known = [name for name in CURVES if name in set(frame["metric"].astype(str))]
    figure, axes = new_figure(len(known), height=3.2, ax=ax)
    steps = _some(sorted({int(step) for step in frame["step"]}))
    shades = colormaps["viridis_r"](np.linspace(0.15, 1.0, len(steps)))
    places = [divmod(depth, num_layers) for depth in range(num_layers * num_loops)]
    for panel, name in zip(axes, known, strict=True):
        for step, shade in zip(steps, shades, strict=True):
            own = frame[(frame["metric"].astype(str) == name) & (frame["step"] == step)]
            own = own.sort_values("position")
            x, y = numbers(own, "position"), numbers(own, "value")
            panel.plot(x, y, color=shade, marker=".", label=f"step {step:,}")
        depth_axis(panel, places)
        panel.set_ylabel(CURVES[name])
    axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return figure


def _some(steps: Sequence[int]) -> list[int]:
    """At most `MOST_STEPS`, evenly, with the first and the last."""
    chosen = np.linspace(0, len(steps) - 1, min(MOST_STEPS, len(steps))).round().astype(int)
    return [steps[place] for place in dict.fromkeys(chosen.tolist())]


@styled
def gate_histograms(
    frame: pd.DataFrame, edges: Mapping[str, Sequence[float]], *, ax: Panels | None = None
) -> Figure:
    """How strongly the recurrences erase and forget, by loop, at the last reading.

    Args:
        frame: One row a bin: `step`, `metric` (such as `beta_loop_1`), `position`, `value`.
        edges: Edges of the bins by gate, such as `beta`.
        ax: Panels of another figure to draw into, one a gate; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["step", "metric", "position", "value"], "histograms of gates")
    last = frame[frame["step"] == frame["step"].max()]
    figure, axes = new_figure(len(edges), height=3.2, ax=ax)
    for panel, (gate, bounds) in zip(axes, edges.items(), strict=True):
        start = f"{gate}_loop_"
        names = [n for n in sorted(set(last["metric"].astype(str))) if n.startswith(start)]
        for number, name in enumerate(names):
            own = last[last["metric"].astype(str) == name].sort_values("position")
            panel.stairs(
                numbers(own, "value"),
                np.arange(len(own) + 1),
                color=COLOURS[number % len(COLOURS)],
                label=f"loop {name.removeprefix(start)}",
                linewidth=1.6,
            )
        places = range(0, len(bounds), 2)
        panel.set_xticks(list(places), [f"{bounds[i]:g}" for i in places], rotation=90)
        panel.set_xlabel(gate)
        panel.set_ylabel("share")
        panel.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
    return figure
