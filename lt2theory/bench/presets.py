"""Every full-scale preset once through prefill, decoding and a training step, in other processes.

A kernel that stops a process, or one that never ends, costs the number that it was to give and no
other: `lt2theory.bench.presets_worker` does the work, and a new process takes its place.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pandas as pd
import torch
from torch import Tensor
from typing_extensions import override

from lt2theory.bench.doctor.pool import Died, run_jobs
from lt2theory.bench.efficiency import Meter, measure_cells
from lt2theory.bench.efficiency_cells import ARMS, Cell
from lt2theory.bench.lm_step import Setting, bench_lm_step
from lt2theory.models import LoopedConfig, find_preset, presets
from lt2theory.training.lm.ranks import Ranks

Phase = Literal["prefill", "decode", "train"]
KEY = ("preset", "phase", "batch", "length")
"""What names a row."""
SCALE = "lt2-1.3b-"
OURO = "ouro-1.4b"
WORKER = "lt2theory.bench.presets_worker"


@dataclass(frozen=True)
class Job:
    """One measurement.

    Attributes:
        preset: Name of the model.
        phase: Reading prompts, one more token a row after them, or a training step.
        batch: Rows.
        length: Tokens of a row: of the prompt, in the cache, or of a window.
    """

    preset: str
    phase: Phase
    batch: int
    length: int


@dataclass(frozen=True)
class Way:
    """How jobs are done.

    Attributes:
        device: "cuda", or "cpu" to show that they run.
        steps: Decoding steps that are timed.
        train_steps: Training steps that are timed, after two others.
        backend: Backend of the ops of a prefill; one without it takes what `auto` would.
    """

    device: Literal["cuda", "cpu"] = "cuda"
    steps: int = 20
    train_steps: int = 1
    backend: str = "triton"


class HostMeter(Meter):
    """Times on a CPU, whose memory is not watched."""

    device = "cpu"

    @override
    def memory(self) -> float:
        return float("inf")

    @override
    def begin(self) -> None:
        pass

    @override
    def peak(self) -> float:
        return float("nan")

    @override
    def is_alive(self) -> bool:
        return True

    @override
    def milliseconds(self, call: Callable[[], Tensor], times: int = 1) -> float:
        begun = time.perf_counter()
        for _ in range(times):
            call()
        return 1e3 * (time.perf_counter() - begun) / times


def full_scale_presets() -> tuple[str, ...]:
    """The presets of 1.3B, and Ouro's of 1.4B.

    Returns:
        Their names: those of the efficiency benchmark first, then Ouro's, then the others.
    """
    first = (*ARMS.values(), OURO)
    others = (name for name in presets() if name.startswith(SCALE) and name not in first)
    return (*first, *others)


def measure_job(job: Job, way: Way) -> dict[str, Any]:
    """Do one job in this process.

    Args:
        job: What to measure.
        way: How.

    Returns:
        Its row: the fields of the job, `path` (fused or graph, pieces of a prefill, or the windows
        that a training step runs at once, with activation checkpointing by loop), `ms`,
        `tokens_per_second`, `peak_gib`, `parameters_m`, `floor_ms` (of an H200), `mfu` of a
        training step where the device's peak is known, and `reason`: why there are no numbers, or
        why a better path was not taken; else None.

    Raises:
        ValueError: There is no such preset, or an option is not allowed.
    """
    measured = _train(job, way) if job.phase == "train" else _serve(job, way)
    columns = ("path", "ms", "tokens_per_second", "peak_gib", "parameters_m", "floor_ms", "mfu")
    numbers = {name: measured.get(name) for name in columns}
    if numbers["peak_gib"] is not None and math.isnan(numbers["peak_gib"]):
        numbers["peak_gib"] = None
    return asdict(job) | numbers | {"reason": measured.get("reason")}


def _serve(job: Job, way: Way) -> dict[str, Any]:
    assert job.phase != "train"
    cell = Cell(job.preset, "looped", job.phase, job.batch, job.length)
    meter = Meter() if way.device == "cuda" else HostMeter()

    def config(preset: str, form: str) -> LoopedConfig:
        return find_preset(preset).config

    (row,) = measure_cells(
        [cell],
        meter,
        until=float("inf"),
        most_seconds=float("inf"),
        steps=way.steps,
        backend=way.backend,
        config=config,
    )
    return row


def _train(job: Job, way: Way) -> dict[str, Any]:
    """A step of all windows, in parts that fit: half as many at once until they do."""
    ranks = Ranks(0, 1, torch.device(way.device))
    dtype: Literal["bfloat16", "float32"] = "bfloat16" if way.device == "cuda" else "float32"
    at_once, row = job.batch, {}
    while at_once:
        setting = Setting(
            job.preset, job.batch, job.length, "loop", micro_batch=at_once, dtype=dtype
        )
        (row,) = bench_lm_step([setting], ranks, steps=way.train_steps)
        if row["reason"] is None:
            told = {"path": f"{at_once} windows at once", "peak_gib": row.get("peak_memory_gib")}
            return row | told
        at_once //= 2
    return row


def measure_presets(
    jobs: Sequence[Job], way: Way, *, until: float, limit: float = 120.0
) -> Iterator[dict[str, Any]]:
    """Have jobs done one after the other in a process that is replaced where it dies.

    Args:
        jobs: What to measure, in this order.
        way: How.
        until: Moment (`time.monotonic`) after which no other job is begun.
        limit: Seconds that a job may take, compilation of its kernels included.

    Yields:
        A row a job, as `measure_job`; one whose process died or was stopped says so in `reason`.

    Raises:
        RuntimeError: A process cannot start.
    """
    answers = run_jobs(
        [asdict(job) for job in jobs],
        asdict(way),
        workers=1,
        limit=limit,
        environment={},
        suspect=lambda row: row.get("ms") is None and "Error" in row["reason"],
        module=WORKER,
    )
    for job, answer in answers:
        yield job | {"reason": answer.reason} if isinstance(answer, Died) else answer
        if time.monotonic() >= until:
            answers.close()
            return


def preset_table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One line a preset.

    Args:
        rows: As `measure_presets` gives them.

    Returns:
        Columns preset, and for every phase that was measured its ms, the same over the floor, and
        GiB of memory (`<phase>_ms`, `<phase>_ratio`, `<phase>_gib`; NaN where there are none);
        `decode_path`, and `reason` of the first phase that has no numbers.
    """
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault(row["preset"], {"preset": row["preset"]})
        phase, ms = row["phase"], row.get("ms")
        line[f"{phase}_ms"] = ms
        line[f"{phase}_ratio"] = None if ms is None else ms / row["floor_ms"]
        line[f"{phase}_gib"] = row.get("peak_gib")
        if phase == "decode":
            line["decode_path"] = row.get("path")
        if ms is None:
            line.setdefault("reason", f"{phase}: {row['reason']}")
    return pd.DataFrame(list(lines.values()))
