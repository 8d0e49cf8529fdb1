"""One reading of all stability instruments from one forward and backward pass.

The pass is the model's own, with its kernels and its checkpointing; nothing is kept of a place but
a few numbers. Analyses that keep a trace measure by the same definitions (`instruments`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lt2theory.analysis.instruments import ALPHA_EDGES, BETA_EDGES
from lt2theory.analysis.stability_watch import Numbers, StabilityWatch
from lt2theory.models import LoopedModel


@dataclass(frozen=True)
class Profile:
    """Numbers at some positions of one axis.

    Attributes:
        positions: A depth (`loop * num_layers + layer`), a layer, a loop or a bin.
        curves: By name, one number a position; None where it is not finite or not there.
    """

    positions: tuple[int, ...]
    curves: Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class StabilityReading:
    """What the instruments say.

    Attributes:
        metrics: The numbers to watch: `gradient_norm_loop_<n>` (its contribution to the gradient
            of the shared block weights), `rms_loop_<n>` (median after its last block),
            `massive`, `first_token_mass` and `key_coherence` (the largest over all places).
        profiles: By depth `rms` (median over tokens behind the first), `first_rms` (of first
            tokens), `update_rms`, `massive` and `gradient_norm`; at the depths of attention
            `first_token_mass` (mean over heads) and `first_token_mass_head` (of the head with
            most); at those of recurrences `beta` and `alpha` (means); by loop `entry_rms` (of the
            stream that enters it); by layer `key_coherence` and `mean_key_coherence` across its
            loops; by bin `beta_loop_<n>` and `alpha_loop_<n>`, shares of all heads and layers
            (`instruments.BETA_EDGES`, `ALPHA_EDGES`).
    """

    metrics: dict[str, float]
    profiles: tuple[Profile, ...]

    def records(self, step: int) -> list[dict[str, object]]:
        """Lines of metrics.jsonl, of split `stability`.

        Args:
            step: Steps done.

        Returns:
            A line of the metrics and one a profile.
        """
        lines: list[dict[str, object]] = [
            {"split": "stability", "step": step, "metrics": self.metrics}
        ]
        for profile in self.profiles:
            curves = {name: list(values) for name, values in profile.curves.items()}
            places = {"positions": list(profile.positions), "curves": curves}
            lines.append({"split": "stability", "step": step, "metrics": {}, **places})
        return lines


def read_stability(model: LoopedModel, loss: Callable[[], Tensor]) -> StabilityReading:
    """Read all instruments once.

    Args:
        model: The model; its weights, their gradients and its modes stay as they are.
        loss: Runs the model once on windows without padding and gives a differentiable number, in
            the precision that is to be measured.

    Returns:
        The reading.
    """
    watch = StabilityWatch(model)
    before, model.watch = model.watch, watch
    try:
        with torch.enable_grad():
            # With inputs named, no weight of the model itself is given a gradient.
            torch.autograd.backward(loss(), inputs=watch.leaves())
    finally:
        model.watch = before
    return _summed_up(watch.numbers(), model.config.num_layers, model.config.num_loops)


def _summed_up(found: Numbers, layers: int, loops: int) -> StabilityReading:
    by_depth = [
        {**found.blocks[divmod(depth, layers)], "gradient_norm": norm}
        for depth, norm in enumerate(found.gradient_norms)
    ]
    profiles = [
        Profile(tuple(range(layers * loops)), _columns(by_depth)),
        Profile(tuple(range(loops)), {"entry_rms": tuple(map(_number, found.entry_rms))}),
    ]
    for part in (found.attention, found.recurrences):
        places = sorted(part)
        if places:
            depths = tuple(loop * layers + layer for loop, layer in places)
            profiles.append(Profile(depths, _columns([part[place] for place in places])))
    if found.coherence:
        rows = [found.coherence[layer] for layer in sorted(found.coherence)]
        profiles.append(Profile(tuple(sorted(found.coherence)), _columns(rows)))
    for name, edges in (("beta", BETA_EDGES), ("alpha", ALPHA_EDGES)):
        if shares := found.histograms.get(name):
            bins = tuple(range(len(edges) - 1))
            curves = {f"{name}_loop_{n + 1}": tuple(map(_number, x)) for n, x in shares.items()}
            profiles.append(Profile(bins, curves))
    return StabilityReading(_metrics(found, layers, loops), tuple(profiles))


def _metrics(found: Numbers, layers: int, loops: int) -> dict[str, float]:
    """The few numbers of a reading that are watched; one that is not finite is left out."""
    squares = [norm**2 for norm in found.gradient_norms]
    said: dict[str, float] = {}
    for loop in range(loops):
        own = squares[loop * layers : (loop + 1) * layers]
        said[f"gradient_norm_loop_{loop + 1}"] = sum(own) ** 0.5
        said[f"rms_loop_{loop + 1}"] = found.blocks[loop, layers - 1]["rms"]
    said["massive"] = max(block["massive"] for block in found.blocks.values())
    if found.attention:
        masses = [place["first_token_mass"] for place in found.attention.values()]
        said["first_token_mass"] = max(masses)
    if found.coherence:
        said["key_coherence"] = max(x["mean_key_coherence"] for x in found.coherence.values())
    rounded = {name: _number(value) for name, value in said.items()}
    return {name: value for name, value in rounded.items() if value is not None}


def _columns(
    rows: Sequence[Mapping[str, float]],
) -> dict[str, tuple[float | None, ...]]:
    """Rows of numbers by name, turned into columns; a number that a row lacks is None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: tuple(_number(row.get(name)) for row in rows) for name in names}


def _number(value: float | None) -> float | None:
    """Six digits, which keep the records small; None where it is not finite."""
    if value is None or not abs(value) < float("inf"):
        return None
    return float(f"{value:.6g}")
