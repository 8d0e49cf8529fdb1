"""A table of a study that never ran: every cell done, numbers by simple rules."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from lt2theory.experiments.language.cells import MODEL, LanguageCell
from lt2theory.experiments.language.table import CELL_COLUMNS, DTYPES, NUMBER_COLUMNS

Number = Callable[[LanguageCell], float]
DOCUMENTS = 12
BITS = {
    "ratio-1to0": 1.60,
    "ratio-1to1": 1.505,
    "ratio-1to4": 1.50,
    "ratio-1to12": 1.52,
    "ratio-0to1": 1.55,
    "placement-bookend": 1.503,
    "placement-loop-windows": 1.65,
    "placement-loop-gdn": 1.53,
    "gate-1to0": 1.57,
    "gate-1to4": 1.47,
    "state-accumulate": 1.549,
    "loops-1": 1.70,
    "loops-2": 1.60,
    "loops-1-deep": 1.40,
    "loops-2-deep": 1.45,
    "loop-gate-none": 1.502,
}
"""Bits per byte for which every prediction is kept."""
WRONG: Mapping[str, float] = {"stability-retnet-fast": 3.0}
"""Spikes of an arm's runs."""


def bits_of(cell: LanguageCell) -> float:
    """Bits per byte of a cell, a little apart by seed."""
    return BITS.get(cell.arm, 1.6) * (1 + 0.0002 * cell.config.seed)


def made_table(
    cells: Iterable[LanguageCell],
    *,
    bits: Number = bits_of,
    turned: bool = False,
    status: str = "done",
) -> pd.DataFrame:
    """The table of some cells.

    Args:
        cells: The cells.
        bits: Bits per byte.
        turned: Whether speed, caches, instruments, spikes and gates are the other way round.
        status: Of all cells.
    """
    frames = []
    for cell in cells:
        rows = list(_rows(cell, bits(cell), -1 if turned else 1))
        frame = pd.DataFrame(rows, columns=list(NUMBER_COLUMNS)).astype(NUMBER_COLUMNS)
        shared = cell.columns() | {"config_hash": cell.run().hash, "status": status}
        shared |= {"outcome": "finished", "sessions": 1, "device": "made", "source": "x"}
        frames.append(frame.assign(**{name: shared.get(name) for name in CELL_COLUMNS}))
    return pd.concat(frames, ignore_index=True).astype(DTYPES)[list(DTYPES)]


def _rows(cell: LanguageCell, bits: float, sign: int) -> Iterator[dict[str, Any]]:
    model, softmax = cell.config.model, int(cell.columns()["softmax_visits"])
    yield {"part": "cost", "model": MODEL, "metric": "cell_seconds", "value": 90.0}
    sizes = np.random.default_rng(0).integers(1000, 30_000, DOCUMENTS)
    hard = np.random.default_rng(1).uniform(0.7, 1.4, DOCUMENTS)
    hard *= sizes.sum() / (hard * sizes).sum()
    for number, (size, factor) in enumerate(zip(sizes.tolist(), hard.tolist(), strict=True)):
        place = {"part": "document", "model": MODEL, "metric": "bits", "kind": f"eval-{number}"}
        yield place | {"value": bits * size * factor, "n": size}
    for length in cell.evaluation.speed_lengths:
        place = {"part": "speed", "model": MODEL, "length": length, "n": 32}
        rate = 1e5 * (1 + softmax) ** (-0.3 * sign)
        yield place | {"metric": "tokens_per_second", "value": rate, "low": rate, "high": rate}
        cache = 1 + sign * softmax * length / 1e6
        yield place | {"metric": "cache_mib", "value": cache}
    went_wrong = WRONG.get(cell.arm, 0.0) if sign > 0 else 3.0 - WRONG.get(cell.arm, 0.0)
    counts = {"spikes": went_wrong, "not_finite": 0.0, "diverged": 0.0, "gradient_peak": 4.0}
    for metric, value in counts.items():
        yield {"part": "training", "model": MODEL, "metric": metric, "value": value}
    yield from _instruments(cell, sign, softmax)
    for loop in range(model.num_loops if model.loop_gate else 0):
        rho = 0.1 if loop == 0 else -0.1 * sign
        place = {"part": "loop_gate", "model": MODEL, "loop": loop}
        yield place | {"metric": "rho", "value": rho, "low": rho - 0.2, "high": rho + 0.2}
        yield place | {"metric": "rho_rms", "value": 0.2}


def _instruments(cell: LanguageCell, sign: int, softmax: int) -> Iterator[dict[str, Any]]:
    model = cell.config.model
    large = {"gate-1to0": 0.3, "gate-1to4": 0.3, "ratio-0to1": 0.5}.get(cell.arm, 1.0) ** sign
    for loop in range(model.num_loops):
        for step in (100, 800):  # the first reading must not count
            place = {"part": "stability", "model": MODEL, "step": step, "loop": loop}
            yield place | {"metric": "rms", "value": large * (loop + 1) * (9 if step < 800 else 1)}
            yield place | {"metric": "gradient_norm", "value": 0.1}
        for layer in (0, 3, 14):
            place = {"part": "profile", "model": MODEL, "loop": loop, "layer": layer, "step": 800}
            yield place | {"metric": "massive", "value": 20.0}
            if softmax:
                mass = 0.1 * large * (1 + 0.5 * (layer == 3))
                yield place | {"metric": "first_token_mass", "value": mass}
