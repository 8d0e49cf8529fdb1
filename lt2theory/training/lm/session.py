"""How runs of text are carried out: processes and signals of a call, a run from folder to summary.

`run_lm` is one such run; a linearization is several, one after the other, in one session.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lt2theory.runs import Progress, RunFolder, write_json
from lt2theory.runs.environment import capture, record
from lt2theory.runs.layout import SUMMARY
from lt2theory.training.lm.checks import check_execution, shared_execution
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.learner import Learner
from lt2theory.training.lm.options import Execution
from lt2theory.training.lm.placement import Placement
from lt2theory.training.lm.ranks import Ranks, join_ranks, losses_of_peers_named
from lt2theory.training.lm.records import LmSummary
from lt2theory.training.lm.sinks import check_sinks, open_sinks
from lt2theory.training.lm.step import lm_runtime
from lt2theory.training.lm.trainer import LmTrainer
from lt2theory.training.records import checked
from lt2theory.training.runtime import Runtime, torch_threads
from lt2theory.training.signals import StopRequest, stop_requests
from lt2theory.training.text import Corpus, Windows

KIND = "lm"
STAGE_KIND = "stage"
"""A stage of a linearization, whose config.json holds a language model's configuration, and more.
"""
CORPUS = "corpus.json"
"""Copy of the corpus's manifest, and where it was, in the run's folder."""


@dataclass(frozen=True)
class Session:
    """What the runs of one call share: processes, threads, and the wish to stop.

    Attributes:
        execution: How they are carried out, as far as several processes can.
        ranks: The processes.
        stop: Asked between steps.
        threads: Threads that a tensor operation may use.
    """

    execution: Execution
    ranks: Ranks
    stop: StopRequest
    threads: int


@contextlib.contextmanager
def open_session(execution: Execution, *, seconds: float | None = None) -> Iterator[Session]:
    """Take this process's place among those of a call, and listen to signals.

    Args:
        execution: How runs are carried out.
        seconds: Time after which they stop as if a signal had come; None for no end.

    Yields:
        What the runs of the call share.

    Raises:
        ValueError: The device or a package of a sink is not there.
        LostProcessError: Another process is gone.
        Interrupted: As the block raises.
    """
    check_sinks(execution.sinks)
    Runtime.of(execution.device, "float32")  # refuses a device that is not there
    with (
        torch_threads(execution.threads) as threads,
        stop_requests(seconds) as stop,
        join_ranks(execution.device) as ranks,
        losses_of_peers_named(ranks.size),
    ):
        shared = shared_execution(execution, ranks.size, tell=ranks.is_first)
        yield Session(shared, ranks, stop, threads)


@dataclass(frozen=True)
class Task:
    """What a run does, where it is no language model from its own draw.

    Attributes:
        kind: Kind of the run.
        header: What its config.json tells besides the configuration.
        learner: Makes what is trained, at step 0; called only where there are steps to take.
        windows: What is read; None for the corpus's train split in a shuffled order.
    """

    kind: str
    header: Mapping[str, Any]
    learner: Callable[[], Learner]
    windows: Windows | None = None


def train_in(
    session: Session,
    config: LmConfig,
    corpus: Corpus,
    *,
    folder: Path,
    task: Task | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> LmSummary:
    """One run of a call: from its folder, new or not, to its summary.

    Args:
        session: What the runs of the call share.
        config: The resolved configuration.
        corpus: What is trained on, and evaluated on.
        folder: The run's folder; made if it is missing.
        task: What is done; None trains a language model.
        overwrite: Start afresh, whatever run the folder holds.
        progress: Told how far the run is, in the first process.

    Returns:
        The summary, which is also the folder's summary.json.

    Raises:
        ValueError: As `run_lm`.
        DiskFullError: Likewise.
        Interrupted: Likewise.
    """
    ranks = session.ranks
    check_execution(config, session.execution, ranks.size)
    kind = KIND if task is None else task.kind
    header = config.to_json() | ({} if task is None else dict(task.header))
    identity = config.identity()
    with shared_folder(ranks, folder, kind, header, identity, overwrite=overwrite) as run:
        done = ranks.from_first(run.summary() if run and run.status == "done" else None)
        if done is not None:
            return checked(LmSummary, done, folder / SUMMARY)
        check_corpus(ranks, corpus)
        trainer = LmTrainer(
            config,
            session.execution,
            corpus,
            ranks=ranks,
            folder=folder,
            run=run,
            learner=None if task is None else task.learner(),
            windows=None if task is None else task.windows,
        )
        trainer.restore()
        with contextlib.ExitStack() as stack, ranks.first_decides():
            if run is not None:
                _note(
                    run, corpus, _environment(config, session, trainer.stepper.placement), trainer
                )
                trainer.progress = progress
                names = session.execution.sinks
                trainer.sinks = open_sinks(names, folder, header, run.config_hash)
                for sink in trainer.sinks:
                    stack.callback(sink.close)
            closing = stack.pop_all()
        with closing:
            trainer.train(session.stop)
        summary = trainer.summary(ranks.from_first(run.config_hash if run else None))
        if run is not None:
            run.write_summary(summary.model_dump(mode="json"))
        return summary


@contextlib.contextmanager
def shared_folder(
    ranks: Ranks,
    folder: Path,
    kind: str,
    header: Mapping[str, Any],
    identity: Mapping[str, Any],
    *,
    overwrite: bool,
) -> Iterator[RunFolder | None]:
    """A run's folder, open for writing in the first of several processes.

    Args:
        ranks: The processes.
        folder: The folder.
        kind: As in `RunFolder.writing`.
        header: Its `config`.
        identity: As there.
        overwrite: As there.

    Yields:
        The run in the first process, None in the others.

    Raises:
        ValueError: As `RunFolder.writing`.
    """
    with contextlib.ExitStack() as stack:
        run = None
        with ranks.first_decides():
            if ranks.is_first:
                run = stack.enter_context(
                    RunFolder.writing(
                        folder, kind=kind, config=header, identity=identity, overwrite=overwrite
                    )
                )
        yield run


def check_corpus(ranks: Ranks, corpus: Corpus) -> None:
    """Let the first process read a corpus, and no process go on where it is damaged.

    Args:
        ranks: The processes.
        corpus: The corpus.

    Raises:
        ValueError: A shard is not what was prepared.
    """
    with ranks.first_decides():
        if ranks.is_first:
            corpus.check()


def _environment(config: LmConfig, session: Session, placement: Placement) -> dict[str, Any]:
    """What the run is carried out on, and by how many processes."""
    ranks = session.ranks
    runtime = lm_runtime(ranks.device, config.dtype)
    shared = "alone" if ranks.size == 1 else "fsdp" if placement.sharded else "replicate"
    found = capture(threads=session.threads, device=runtime.device_name)
    return found | {"processes": ranks.size, "parallel": shared}


def _note(run: RunFolder, corpus: Corpus, environment: dict[str, Any], trainer: LmTrainer) -> None:
    """Keep what the run is trained on and carried out by."""
    record(run.path, environment, step=trainer.state.step)
    manifest = corpus.manifest.model_dump(mode="json")
    write_json(run.path / CORPUS, {"folder": str(corpus.folder), "manifest": manifest})
