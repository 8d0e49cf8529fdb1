"""What a cell leaves as rows: held-out text, instruments, speed, and what the loop gate learnt."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lt2theory.experiments.language.cells import MODEL, LanguageCell
from lt2theory.experiments.linearization.measured import Rows, evaluation_rows, stage_rows
from lt2theory.linearize.evaluation.intervals import Estimate, ratio_interval
from lt2theory.linearize.evaluation.speed import speed_of
from lt2theory.linearize.evaluation.table import Measured, measured_table
from lt2theory.models import LoopedModel
from lt2theory.runs import RunFolder
from lt2theory.training.lm.records import LmSummary
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import Corpus, bits_per_byte

SPLITS = ("eval", "test")
"""Held-out text: no document of either is trained on, and nothing is chosen by them."""
PROFILED = ("rms", "massive", "first_token_mass")
"""Instruments whose last reading is kept by loop and layer."""


def held_out_rows(model: LoopedModel, corpus: Corpus, runtime: Runtime, cell: LanguageCell) -> Rows:
    """Bits of every held-out document, and bits per byte of all.

    Args:
        model: The model, on the device of the runtime.
        corpus: The text.
        runtime: Device and precision.
        cell: The cell, for how much is read, and at once.

    Returns:
        A row `bits` a document (`n`: its bytes), and `bits_per_byte` with a bootstrap over
        documents.
    """
    rows: list[Measured] = []
    config = cell.evaluation
    for split in SPLITS:
        found = bits_per_byte(
            model,
            corpus.stream(split),
            runtime,
            length=config.length,
            documents=config.documents,
        )
        for number, (bits, size) in enumerate(
            zip(found.document_bits.tolist(), found.document_bytes.tolist(), strict=True)
        ):
            place: dict[str, Any] = {"part": "document", "kind": f"{split}-{number}", "n": size}
            rows.append(Measured(model=MODEL, metric="bits", value=bits, **place))
    sums = np.array([row.value for row in rows])
    sizes = np.array([row.n for row in rows], dtype=np.int64)
    whole = ratio_interval(sums, sizes)
    rows.append(Measured.of(whole, part="held_out", model=MODEL, metric="bits_per_byte"))
    return evaluation_rows(measured_table(rows))


def speed_rows_of(model: LoopedModel, runtime: Runtime, cell: LanguageCell) -> Rows:
    """Decoding and caches at the lengths of the cell.

    Args:
        model: The model; its weights are rounded to the dtype of the runtime.
        runtime: Device and precision.
        cell: The cell.

    Returns:
        Rows of the part `speed`, as `lt2 linearize evaluate` has them, and for each length
        `tokens_per_second` of all rows together.
    """
    found = list(speed_of(MODEL, model.to(runtime.dtype), runtime, cell.evaluation))
    rate = 1e3 * cell.evaluation.speed_batch
    for row in [row for row in found if row.metric == "decode_ms"]:
        assert row.low is not None
        assert row.high is not None
        told = Estimate(rate / row.value, rate / row.high, rate / row.low, row.n or 0)
        place = {"part": "speed", "model": MODEL, "length": row.length}
        found.append(Measured.of(told, metric="tokens_per_second", **place))
    return evaluation_rows(measured_table(found))


def training_rows(folder: Path, summary: LmSummary, *, layers: int) -> Rows:
    """How training went: its loss, its speed, steps that went wrong, and the instruments.

    Args:
        folder: Folder of the run.
        summary: What it said at its end.
        layers: Blocks of the model.

    Returns:
        Rows of the parts `curve`, `cost`, `training`, `stability` and `profile`.
    """
    lines = RunFolder.open(folder).metrics()
    norms = [
        float(line["metrics"]["gradient_norm"])
        for line in lines
        if line.get("split") == "train" and "gradient_norm" in line["metrics"]
    ]
    told: dict[str, float] = {
        "spikes": summary.spikes,
        "not_finite": summary.not_finite,
        "diverged": summary.status == "diverged",
    }
    if norms:
        told["gradient_peak"] = max(norms) / float(np.median(norms))
    rows = stage_rows(folder, "training", 0, model=MODEL)
    rows += [
        {"part": "training", "model": MODEL, "metric": name, "value": float(value)}
        for name, value in told.items()
    ]
    return [*rows, *_instruments(lines, layers)]


def _instruments(lines: list[dict[str, Any]], layers: int) -> Iterator[dict[str, Any]]:
    """Every reading's few numbers, and the profiles of the last one."""
    readings = [line for line in lines if line.get("split") == "stability"]
    last = max((line["step"] for line in readings), default=0)
    for line in readings:
        for name, value in line["metrics"].items():
            metric, by_loop, loop = name.partition("_loop_")
            place = {"part": "stability", "model": MODEL, "step": line["step"]}
            own = {"loop": int(loop) - 1} if by_loop else {}
            yield place | own | {"metric": metric, "value": float(value)}
        if line["step"] == last and "curves" in line:
            yield from _profile(line, layers)


def _profile(line: dict[str, Any], layers: int) -> Iterator[dict[str, Any]]:
    for name in PROFILED:
        for depth, value in zip(line["positions"], line["curves"].get(name, ()), strict=False):
            if value is not None:
                loop, layer = divmod(depth, layers)
                place = {"part": "profile", "model": MODEL, "loop": loop, "layer": layer}
                yield place | {"step": line["step"], "metric": name, "value": value}


def gate_rows(model: LoopedModel) -> Rows:
    """What the loop gate has learnt: rho of every loop, over channels.

    Args:
        model: The model.

    Returns:
        For each loop `rho`, the mean over channels between the 5th and 95th percentile, and
        `rho_rms`; nothing where the model has no such gate.
    """
    if not model.config.loop_gate:
        return []
    rho = model.loop_gate.detach().double().cpu()
    rows: Rows = []
    for loop, own in enumerate(rho):
        low, high = torch.quantile(own, torch.tensor((0.05, 0.95), dtype=own.dtype)).tolist()
        place: dict[str, Any] = {"part": "loop_gate", "model": MODEL, "loop": loop}
        place["n"] = len(own)
        rows.append(place | {"metric": "rho", "value": float(own.mean()), "low": low, "high": high})
        rows.append(place | {"metric": "rho_rms", "value": float(own.square().mean().sqrt())})
    return rows
