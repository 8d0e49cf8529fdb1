"""The curriculum runner: stages in turn, promotion on measured accuracy, one test at the end."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from lt2theory.models import LoopedModel
from lt2theory.runs import Progress, RunFolder, read_json, write_json
from lt2theory.runs.environment import capture, record
from lt2theory.runs.layout import CONFIG, SUMMARY
from lt2theory.training.checkpoint import load_weights
from lt2theory.training.conclusion import conclude
from lt2theory.training.config import CurriculumConfig, resolve
from lt2theory.training.determinism import deterministic_algorithms
from lt2theory.training.lines import candidate_line
from lt2theory.training.records import Candidate, Candidates, CurriculumSummary, checked
from lt2theory.training.runtime import Runtime, torch_threads
from lt2theory.training.seat import Seat
from lt2theory.training.selection import select_learning_rate
from lt2theory.training.signals import StopRequest, stop_requests
from lt2theory.training.trainer import CurriculumTrainer

KIND = "curriculum"
SELECTION = "selection.json"


def run_curriculum(
    config: CurriculumConfig,
    folder: Path,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
    seat: Seat | None = None,
) -> CurriculumSummary:
    """Carry out a run, continue it, or return what it found before.

    However often and however hard it was killed, metrics.jsonl comes out the same, byte for byte,
    as that of an undisturbed run on the same machine with the same number of threads.

    Args:
        config: What to do.
        folder: The run's folder; made if it is missing.
        overwrite: Start afresh, whatever run the folder holds.
        progress: Told how far the run is.
        seat: The run's place among others that go on at once; its request to stop is then heeded,
            rather than signals.

    Returns:
        The summary, which is also the folder's summary.json.

    Raises:
        ValueError: The configuration does not fit the task or the machine, or the folder cannot be
            this run's.
        DiskFullError: The disk is full; the same call continues the run.
        Interrupted: SIGINT or SIGTERM came; the same call continues the run.
    """
    config = resolve(config)
    runtime = Runtime.of(config.device, config.dtype)
    with (
        deterministic_algorithms(config.deterministic, config.device),
        torch_threads(config.threads) as threads,
        contextlib.nullcontext(seat) if seat else _own_seat() as place,
        RunFolder.writing(
            folder,
            kind=KIND,
            config=config.to_json(),
            identity=config.identity(),
            overwrite=overwrite,
        ) as run,
    ):
        if run.status == "done":
            return checked(CurriculumSummary, run.summary(), run.path / SUMMARY)
        rate, candidates = _choose_rate(config, run, place.stop)
        trainer = CurriculumTrainer(
            config, run, runtime=runtime, rate=rate, seat=place, progress=progress
        )
        trainer.restore()
        environment = capture(threads=threads, device=runtime.device_name)
        record(run.path, environment, step=trainer.state.step)
        if not run.checkpoints():
            for trial in candidates:
                run.append_metrics(candidate_line(trial, stage=config.stages[0]))
        trainer.train()
        summary = conclude(trainer, candidates)
        run.write_summary(summary.model_dump(mode="json"))
        return summary


@contextlib.contextmanager
def _own_seat() -> Iterator[Seat]:
    with stop_requests() as stop:
        yield Seat(stop)


def _choose_rate(
    config: CurriculumConfig, run: RunFolder, stop: StopRequest
) -> tuple[float, tuple[Candidate, ...]]:
    # Every trial is kept as soon as it is done, so that a kill costs one trial at most.
    path = run.path / SELECTION
    kept = read_json(path) if path.exists() else {"candidates": ()}
    tried = list(checked(Candidates, kept, path).candidates)

    def keep(trial: Candidate) -> None:
        tried.append(trial)
        write_json(path, {"candidates": [trial.model_dump(mode="json") for trial in tried]})

    return select_learning_rate(config, tried=tuple(tried), on_candidate=keep, stop=stop)


def load_summary(folder: Path) -> CurriculumSummary:
    """Read a finished run's summary.

    Args:
        folder: The run's folder.

    Returns:
        The summary.

    Raises:
        ValueError: The folder is not a finished curriculum run.
    """
    return checked(CurriculumSummary, _open(folder).summary(), folder / SUMMARY)


def load_model(
    run_folder: Path, *, device: torch.device | str = "cpu"
) -> tuple[LoopedModel, CurriculumConfig]:
    """Read the model that a run has trained so far.

    Args:
        run_folder: The folder of a curriculum run, finished or not.
        device: Where the model goes. On a CPU, kernels of a GPU that the run names are left to
            'auto'.

    Returns:
        The model with the weights of the newest checkpoint, and the run's own resolved
        configuration, whatever the model's own says of backends.

    Raises:
        ValueError: The folder is not a curriculum run, or has no checkpoint yet.
    """
    run = _open(run_folder)
    config = checked(CurriculumConfig, run.config, run_folder / CONFIG)
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise ValueError(f"{run_folder} has no checkpoint yet")
    model = LoopedModel(config.model.on(device)).to(device)
    load_weights(checkpoints[0], model)
    return model, config


def _open(folder: Path) -> RunFolder:
    run = RunFolder.open(folder)
    if run.kind != KIND:
        raise ValueError(f"{folder} holds a {run.kind} run; expected a {KIND} run")
    return run
