"""A table of studies that never ran: every cell done, numbers by simple rules."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd

from lt2theory.experiments.linearization.cells import LinearCell, SelectionWork, TeacherWork
from lt2theory.experiments.linearization.table import CELL_COLUMNS, NUMBER_COLUMNS

Number = Callable[[LinearCell], float]


def kl_of(cell: LinearCell) -> float:
    """Nearer with more tokens; far where the arm is one of the crippled."""
    far = ("linear", "retnet", "gla", "tiled", "nothing", "none")
    factor = 3.0 if any(word in cell.arm for word in far) else 1.0
    return factor * (cell.tokens / 1e6) ** -0.3 * (1 + 0.01 * cell.seed)


def made_table(
    cells: Iterable[LinearCell], *, kl: Number = kl_of, found: Number = lambda cell: 0.8
) -> pd.DataFrame:
    """The table of some cells.

    Args:
        cells: The cells.
        kl: Divergence.
        found: Share of needles at 256; a third of that is found at each fourfold length.
    """
    frames = []
    for cell in cells:
        rows = list(_rows(cell, kl(cell), found(cell)))
        frame = pd.DataFrame(rows, columns=list(NUMBER_COLUMNS)).astype(NUMBER_COLUMNS)
        shared = cell.columns() | {"config_hash": cell.run().hash, "status": "done"}
        shared |= {
            "outcome": "finished",
            "sessions": 1,
            "device": "made",
            "source": "x",
            "parameters": 1000,
        }
        if cell.facts.get("size"):
            shared["parameters"] = {"1m": 1, "3m": 3, "7m": 7}[str(cell.facts["size"])] * 10**6
        frames.append(frame.assign(**{name: shared.get(name) for name in CELL_COLUMNS}))
    return pd.concat(frames, ignore_index=True).astype(CELL_COLUMNS)


def _rows(cell: LinearCell, kl: float, found: float) -> Iterator[dict[str, Any]]:
    yield {"part": "cost", "model": "student", "metric": "cell_seconds", "value": 90.0}
    if isinstance(cell.work, SelectionWork):
        for layer in range(8):
            place = {"part": "selection", "model": "student", "kind": "trained", "layer": layer}
            yield place | {"metric": "score", "value": -1.0 - layer, "n": 3}
            yield place | {"metric": "chosen", "value": float(layer < 2)}
            yield place | {"metric": "share_of_seeds", "value": 1.0 - layer / 8}
        return
    for model, share in (("teacher", 0.9), ("student", found)):
        if isinstance(cell.work, TeacherWork) and model == "student":
            continue
        for kind in cell.evaluation.needle_kinds:
            for length in cell.evaluation.needle_lengths:
                value = share if model == "teacher" else share / 3 ** ((length // 256) ** 0.5 - 1)
                place = {"part": "needle", "kind": kind, "length": length, "floor": 1e-7}
                yield place | _answers(model, "found", value)
        for pairs in cell.evaluation.pairs:
            value = 0.01 if model == "teacher" else share / pairs
            for metric in ("recalled", "recalled_among_values"):
                place = {"part": "mqar", "length": pairs, "floor": 0.05}
                yield place | _answers(model, metric, value)
        place = {"part": "cloze", "kind": "seen", "length": 256, "floor": 0.1}
        yield place | _answers(model, "found", 0.5 if model == "teacher" else 0.1 + 0.38)
        for length in cell.evaluation.speed_lengths:
            cache = 1.0 if model == "student" and cell.arm == "linear" else length / 256
            for metric, value in (("cache_mib", cache), ("decode_ms", 1.5), ("prefill_ms", 3.0)):
                place = {"part": "speed", "model": model, "length": length}
                yield place | {"metric": metric, "value": value, "n": 16}
        bits = {"part": "recovery", "model": model, "metric": "bits_per_byte", "n": 100}
        yield bits | {"value": 1.2, "low": 1.1, "high": 1.3, "floor": 1.6}
    if isinstance(cell.work, TeacherWork):
        return
    for metric, value in (("kl", kl), ("agreement", 1 / (1 + kl))):
        place = {"part": "recovery", "model": "pair", "metric": metric, "n": 100}
        yield place | {"value": value, "low": 0.97 * value, "high": 1.03 * value}
    for stage, value in (("start", 5.0), ("end", kl)):
        place = {"part": "stage", "model": "pair", "kind": stage, "step": 0}
        yield place | {"metric": "kl", "value": value}


def _answers(model: str, metric: str, value: float) -> dict[str, Any]:
    ends = {"low": max(0.0, value - 0.05), "high": min(1.0, value + 0.05), "n": 100}
    return {"model": model, "metric": metric, "value": value, **ends}
