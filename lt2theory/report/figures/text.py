"""Language models: loss and bits per byte over training, and how fast it went."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lt2theory.report.figures.axes import Panels, new_figure
from lt2theory.report.figures.margins import FLOOR_DASH, label_margin
from lt2theory.report.frames import numbers, require_columns
from lt2theory.report.style import COLOURS, MUTED, styled

LOSSES = "loop_"
SPEEDS = {
    "tokens_per_second": "tokens a second",
    "mfu": "model FLOPs utilisation",
    "peak_memory_gib": "peak memory (GiB)",
}


@styled
def text_curves(
    frame: pd.DataFrame,
    *,
    baselines: Mapping[str, float] | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Training loss, of every loop that is read out, and held-out bits per byte, by step.

    Args:
        frame: One row a number: `split`, `step`, `metric`, `value`; of split `train` the losses are
            drawn, of split `eval` `bits_per_byte`. A panel appears for each of the two that occurs.
        baselines: Bits per byte of other compressors by name, drawn dashed.
        ax: Panels of another figure to draw into, as many as are drawn; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: A column is missing, or neither occurs.
    """
    require_columns(frame, ["split", "step", "metric", "value"], "curves of a language model")
    split, metric = frame["split"].astype(str), frame["metric"].astype(str)
    loops = sorted(n for n in set(metric) if n.startswith(LOSSES) and n.endswith("_loss"))
    losses = frame[(split == "train") & metric.isin(["loss", *loops])]
    held_out = frame[(split == "eval") & (metric == "bits_per_byte")].sort_values("step")
    panels = int(not losses.empty) + int(not held_out.empty)
    if not panels:
        raise ValueError("curves of a language model: there is neither a loss nor an evaluation")
    figure, axes = new_figure(panels, ax=ax)
    if not losses.empty:
        for number, name in enumerate(["loss", *loops]):
            own = losses[losses["metric"].astype(str) == name].sort_values("step")
            text = "loss" if name == "loss" else f"loop {name.split('_')[1]}"
            colour = COLOURS[number % len(COLOURS)]
            axes[0].plot(numbers(own, "step"), numbers(own, "value"), color=colour, label=text)
        axes[0].set_ylabel("training loss (nats a token)")
        if loops:
            axes[0].legend(loc="upper right")
    if not held_out.empty:
        panel = axes[-1]
        x, y = numbers(held_out, "step"), numbers(held_out, "value")
        panel.plot(x, y, color=COLOURS[0], marker="o", label="model")
        for name, value in (baselines or {}).items():
            panel.axhline(value, color=MUTED, linewidth=0.9, linestyle=FLOOR_DASH, label=name)
        panel.set_ylabel("bits per byte (eval split)")
        label_margin(panel, {f"{name} {v:.3f}": v for name, v in (baselines or {}).items()})
    for panel in axes:
        panel.set_xlabel("training step")
    return figure


@styled
def speed_over_training(frame: pd.DataFrame, *, ax: Panels | None = None) -> Figure:
    """Tokens a second, and where they are known utilisation and memory, by step.

    Args:
        frame: One row a record of timing.jsonl: `step`, `tokens_per_second`, perhaps `mfu` and
            `peak_memory_gib`.
        ax: Panels of another figure to draw into, one a column; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["step", "tokens_per_second"], "speed of training")
    shown = [name for name in SPEEDS if name in frame.columns]
    figure, axes = new_figure(len(shown), height=2.8, ax=ax)
    for panel, name in zip(axes, shown, strict=True):
        values = numbers(frame, name)
        panel.plot(numbers(frame, "step"), values, color=COLOURS[0], label=name)
        panel.set_ylim(0, 1.05 * float(np.nanmax(values)))
        panel.set_xlabel("training step")
        panel.set_ylabel(SPEEDS[name])
    return figure
