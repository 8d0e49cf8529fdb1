"""The demo: paired controls with registered predictions, run, measured and reported."""

import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import joblib
import pandas as pd

from lt2theory import __version__
from lt2theory.experiments import distance, parity, recall, word_problem
from lt2theory.experiments.question import Answer, Evidence, Question
from lt2theory.report import PredictionRow, Report, provenance_of, terms, write_report
from lt2theory.report.content import Verdict
from lt2theory.runs import (
    Progress,
    ProgressEvent,
    RunFolder,
    Study,
    StudyRun,
    config_hash,
    read_json,
    read_table,
    study_run,
    write_json,
)
from lt2theory.runs.atomic import TEMPORARY_SUFFIX
from lt2theory.runs.lock import LOCK_NAME, locked
from lt2theory.runs.study import MANIFEST, RESULTS
from lt2theory.training import CurriculumConfig, resolve, run_many
from lt2theory.training.signals import termination_interrupts

REPORT = "report.html"
SUMMARY = "summary.json"
MARK = "demo.json"
"""Says that a folder is a demo's, from its first moment on: only such a folder is cleared."""
WORKERS = 2


@dataclass(frozen=True)
class Demo:
    """A finished demo.

    Attributes:
        report: Its HTML report.
        predictions: What was predicted and what happened; read back where it was done before.
        done_before: Nothing had to be run.
    """

    report: Path
    predictions: tuple[PredictionRow, ...]
    done_before: bool


def questions() -> tuple[Question, ...]:
    """What the demo asks.

    Returns:
        The questions in the order of the report.
    """
    return (parity.question(), word_problem.question(), distance.question(), recall.question())


def run_demo(folder: Path, *, fresh: bool = False, progress: Progress | None = None) -> Demo:
    """Run what is not done yet, measure the trained models, and write the report.

    Args:
        folder: The demo's folder, which is a study of all its runs.
        fresh: Remove what an earlier demo left there, and start over.
        progress: Told how many runs are done.

    Returns:
        The demo; one that was done before is returned as it is.

    Raises:
        ValueError: The folder holds something else, or the demo of another version, or another
            process writes there.
        StudyError: Runs failed; the others are kept.
        Interrupted: SIGINT or SIGTERM came; the same call goes on.
    """
    asked = questions()
    identity = _identity(asked)
    before = None if fresh else _done_before(folder, identity)
    if before is not None:
        return before
    _check_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder), termination_interrupts():
        write_json(folder / MARK, {"version": __version__})
        if fresh:
            _clear(folder)
        # The longest runs are asked last; they go first, so that no core waits for one at the end.
        configs = [config for question in reversed(asked) for config in question.configs]
        _check_runs(folder, configs)
        run_many(configs, folder, workers=min(WORKERS, joblib.cpu_count()), progress=progress)
        answers = _answers(asked, Study(folder), progress)
        report = write_report(_report(answers, Study(folder)), folder / REPORT)
        predictions = tuple(row for answer in answers for row in answer.predictions)
        rows = [vars(row) for row in predictions]
        write_json(folder / SUMMARY, {"identity": identity, "predictions": rows})
    return Demo(report, predictions, done_before=False)


def _identity(asked: tuple[Question, ...]) -> str:
    """Names this version of the demo: its runs and the package that reads them."""
    runs = [resolve(config).to_json() for question in asked for config in question.configs]
    return config_hash({"version": __version__, "runs": runs})


def _done_before(folder: Path, identity: str) -> Demo | None:
    if not (folder / SUMMARY).exists() or not (folder / REPORT).exists():
        return None
    kept = read_json(folder / SUMMARY)
    if kept.get("identity") != identity or "predictions" not in kept:
        return None
    rows = tuple(PredictionRow(**row) for row in kept["predictions"])
    return Demo(folder / REPORT, rows, done_before=True)


def _check_folder(folder: Path) -> None:
    """Refuse a folder in which something else than a demo is kept.

    Raises:
        ValueError: It is one.
    """
    if not folder.exists() or (folder / MARK).is_file():
        return
    names = {entry.name for entry in folder.iterdir() if entry.suffix != TEMPORARY_SUFFIX}
    if others := names - {LOCK_NAME}:
        raise ValueError(
            f"{folder} is not empty and no demo (it holds {min(others)}); choose another folder"
        )


def _check_runs(folder: Path, configs: list[CurriculumConfig]) -> None:
    """Refuse a demo with other runs than this version's, which may be somebody's results.

    Raises:
        ValueError: It has some.
    """
    if not (folder / MANIFEST).exists():
        return
    lost = {run.folder for run in Study(folder).runs} - {run.folder for run in _runs(configs)}
    if lost:
        raise ValueError(
            f"{folder} holds the demo of another version, with {len(lost)} other runs (such as "
            f"{min(lost)}); choose another folder, or start over with fresh=True"
        )


def _runs(configs: Iterable[CurriculumConfig]) -> list[StudyRun]:
    return [study_run(c.to_json(), c.identity()) for c in map(resolve, configs)]


def _clear(folder: Path) -> None:
    """Remove what a demo has written, and nothing else; what marks it as done goes first."""
    for name in (SUMMARY, REPORT, RESULTS):
        (folder / name).unlink(missing_ok=True)
    if not (folder / MANIFEST).exists():
        return
    present = {entry.name for entry in folder.iterdir()}
    for run in Study(folder).runs:
        if run.folder in present:
            shutil.rmtree(folder / run.folder)
    (folder / MANIFEST).unlink()


def _answers(asked: tuple[Question, ...], study: Study, progress: Progress | None) -> list[Answer]:
    table = read_table(study.root / RESULTS)
    answers = []
    for done, question in enumerate(asked, start=1):
        answers.append(question.answer(_evidence(question, study, table)))
        if progress is not None:
            progress(
                ProgressEvent(
                    "measure", done, len(asked), unit="question", final=done == len(asked)
                )
            )
    return answers


def _evidence(question: Question, study: Study, table: pd.DataFrame) -> Evidence:
    runs = _runs(question.configs)
    names = [run.folder for run in runs]
    first = RunFolder.open(study.root / names[0])
    return Evidence(
        table=table[table["run"].isin(names)].reset_index(drop=True),
        folders={
            (str(run.identity["label"]), int(run.identity["seed"])): study.root / run.folder
            for run in runs
        },
        card=first.summary()["task"],
    )


def _report(answers: list[Answer], study: Study) -> Report:
    predictions = [row for answer in answers for row in answer.predictions]
    counts = Counter(row.verdict for row in predictions)
    said = ", ".join(f"{counts[name]} {name}" for name in get_args(Verdict) if counts[name])
    return Report(
        title="lt2theory demo: what looping a small mixer buys",
        summary=[
            "Small models, trained on a CPU and then measured. What would come out was predicted "
            "beforehand: from theory (ids of the ledger of claims) or, where marked, from "
            "experience.",
            f"Outcome of the {len(predictions)} predictions: {said}.",
        ],
        sections=[section for answer in answers for section in answer.sections],
        predictions=predictions,
        glossary=terms(
            "arm",
            "seed",
            "loops (T)",
            "rescan",
            "accumulate",
            "stage",
            "scored accuracy",
            "floor",
            "floor's name",
            "splits",
            "interval",
            "claim id",
            "reach",
            "beta",
            "gate baseline",
            "effective rank",
            "orthogonal keys",
        ),
        provenance=provenance_of(study.run_folders(), command="lt2 demo"),
    )
