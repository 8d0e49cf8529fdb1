"""Curriculum steps a minute: cells of a study that share a GPU, beside one plain run of FLA layers.

Both sides count what a run needs to take a step: drawing the batch, the step in bfloat16 with
AdamW, and the evaluation after every `EVALUATE_EVERY` steps.
"""

import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from lt2theory.bench.fla_loop import FlaLoop
from lt2theory.bench.rates import require_cuda
from lt2theory.models import LoopedConfig
from lt2theory.models.flops import step_flops
from lt2theory.training import CurriculumConfig, Job, Runtime, TaskConfig, resolve, share_device
from lt2theory.training.board import Board
from lt2theory.training.draws import evaluation_batch, training_batch
from lt2theory.training.evaluation import predict
from lt2theory.training.optimiser import make_optimiser, train_step
from tasks.names import unknown_name

EVALUATE_EVERY = 100
FIRST_STEPS = EVALUATE_EVERY + 20
"""Steps of every cell before the clock starts: an evaluation, whose kernels are compiled then."""


@dataclass(frozen=True)
class Workload:
    """What a cell trains.

    Attributes:
        task: The task.
        stage: Its stage.
        batch: Rows.
        model: Fields of the model.
    """

    task: TaskConfig
    stage: int
    batch: int
    model: dict[str, Any] = field(default_factory=dict)

    def config(self, seed: int = 0, *, device: str = "cuda") -> CurriculumConfig:
        """A run of one stage that does not end by itself.

        Args:
            seed: Its seed.
            device: "cuda", in bfloat16 and with CUDA graphs, or "cpu".

        Returns:
            A resolved configuration.
        """
        on_gpu = device == "cuda"
        fields = {
            "task": self.task,
            "model": LoopedConfig.model_validate(self.model),
            "stages": (self.stage,),
            "batch_size": self.batch,
            "step_budget": 10**7,
            "min_steps": 10**7,
            "checkpoint_every": 10**7,
            "evaluate_every": EVALUATE_EVERY,
            "device": device,
            "dtype": "bfloat16" if on_gpu else "float32",
            "cuda_graph": on_gpu,
            "seed": seed,
            "threads": 1,
        }
        return resolve(CurriculumConfig.model_validate(fields))


_WORD = TaskConfig(name="group_word", knobs={"group": "S5"})
_RECALL = TaskConfig(name="state_based_recall", knobs={"supervision": "dense", "layout": "indexed"})
_SMALL = {"width": 128, "num_layers": 2, "num_loops": 2, "negative_eigenvalues": True}
_LARGE = {
    "width": 256,
    "num_layers": 4,
    "num_loops": 4,
    "negative_eigenvalues": True,
    "positions": "learned",
    "max_length": 1,
}

WORKLOADS = {
    "words": Workload(_WORD, 32, 256, _SMALL),
    "words-accumulate": Workload(_WORD, 32, 256, _SMALL | {"loop_state": "accumulate"}),
    "recall-4": Workload(_RECALL, 4, 128, _LARGE),
    "recall-64": Workload(_RECALL, 64, 128, _LARGE),
    "recall-window-4": Workload(_RECALL, 4, 128, _LARGE | {"pattern": "gdn,window(64)"}),
    "recall-window-64": Workload(_RECALL, 64, 128, _LARGE | {"pattern": "gdn,window(64)"}),
}
"""Cells of the study's sizes by name; the number is that of the swaps."""


def bench_study(
    names: Sequence[str] = ("words", "recall-4", "recall-64"),
    *,
    at_once: Iterable[int] = (1, 2, 4, 8),
    seconds: float = 6.0,
    device: str = "cuda",
) -> pd.DataFrame:
    """Count steps a minute.

    Args:
        names: Keys of `WORKLOADS`.
        at_once: Numbers of cells that share the device.
        seconds: Time of every count, after the first steps.
        device: "cuda"; "cpu" is there for tests, and has no row of FLA layers.

    Returns:
        A row of FLA layers and one for every number of cells: `workload`, `way`, `at_once`,
        `steps_per_minute` (of all cells together), `ratio` to the FLA layers, `ms` of the device a
        step, `flops` of a step, `block_passes`, `peak_gib`, and `ready_s` (seconds until all cells
        were at steady steps, compiling included).

    Raises:
        ValueError: There is no CUDA device, or a name is not a workload.
    """
    for name in names:
        if name not in WORKLOADS:
            raise ValueError(unknown_name("workloads", name, WORKLOADS))
    if device == "cuda":
        require_cuda("study")
    rows = []
    for name in names:
        config = WORKLOADS[name].config(device=device)
        length = config.task.create().sequence_length(config.stages[0])
        facts = {
            "workload": name,
            "flops": step_flops(config.model, config.batch_size, length),
            "block_passes": config.model.num_layers * config.model.num_loops,
        }
        found = [asdict(plain_rate(config, seconds))] if device == "cuda" else []
        for count in at_once:
            configs = [WORKLOADS[name].config(seed, device=device) for seed in range(count)]
            found.append(asdict(shared_rate(configs, seconds)))
        first = found[0]["steps_per_minute"]
        rows += [
            facts | row | {
                "ms": 6e4 / row["steps_per_minute"],
                "ratio": row["steps_per_minute"] / first if device == "cuda" else None,
            }
            for row in found
        ]  # fmt: skip
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Rate:
    """One count.

    Attributes:
        way: What took the steps.
        at_once: Cells at a time.
        steps_per_minute: Of all cells together.
        ready_s: Seconds until all were at steady steps.
        peak_gib: Most device memory in use.
    """

    way: str
    at_once: int
    steps_per_minute: float
    ready_s: float
    peak_gib: float


def plain_rate(config: CurriculumConfig, seconds: float) -> Rate:
    """Steps of one model of FLA layers, one operation after the other.

    Args:
        config: A resolved configuration; on "cuda", but for tests.
        seconds: Time of the count.

    Returns:
        The count.
    """
    runtime = Runtime.of(config.device, config.dtype)
    on_gpu = config.device == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    torch.manual_seed(config.seed)
    model = FlaLoop(config.model).to(runtime.device)
    optimiser = make_optimiser(model, config.optimiser)
    task, stage = config.task.create(), config.stages[0]

    def step(number: int) -> None:
        batch = training_batch(task, config, stage, number)
        train_step(model, optimiser, batch, learning_rate=1e-3, clip=1.0, runtime=runtime)
        if number % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            predict(model, evaluation_batch(task, config, stage, number), runtime)

    for number in range(EVALUATE_EVERY - 5, EVALUATE_EVERY):
        step(number)
    ready, steps = time.perf_counter(), 0
    while time.perf_counter() - ready < seconds:
        step(steps)
        steps += 1
    passed = time.perf_counter() - ready
    way = f"FLA {model.layer}, eager"
    return Rate(way, 1, 60 * steps / passed, ready - began, _peak(on_gpu))


def shared_rate(configs: list[CurriculumConfig], seconds: float) -> Rate:
    """Steps of cells that share the device.

    Args:
        configs: The cells, on one device.
        seconds: Time of the count.

    Returns:
        The count.

    Raises:
        RuntimeError: A cell failed.
    """
    on_gpu = configs[0].device == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    marks: list[tuple[float, int]] = []
    began = time.perf_counter()

    def watch(board: Board[CurriculumConfig], taken: tuple[int, ...]) -> None:
        now = time.perf_counter()
        if marks or min(taken) >= FIRST_STEPS:
            marks.append((now, sum(taken)))
        if board.running() < len(configs) or (marks and now - marks[0][0] >= seconds):
            board.stop.requested = True

    with tempfile.TemporaryDirectory() as folder:
        jobs = [Job(config, Path(folder, str(config.seed))) for config in configs]
        accounts = share_device(jobs, device=configs[0].device, at_once=len(jobs), watch=watch)
    failed = [account.message for account in accounts.values() if account.state == "failed"]
    if failed or len(marks) < 2:
        raise RuntimeError(f"study: the cells did not run side by side: {failed}")
    (start, before), (end, after) = marks[0], marks[-1]
    rate = 60 * (after - before) / (end - start)
    return Rate("engine", len(configs), rate, start - began, _peak(on_gpu))


def _peak(on_gpu: bool) -> float:
    return float(torch.cuda.max_memory_allocated()) / 2**30 if on_gpu else 0.0
