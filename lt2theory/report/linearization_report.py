"""The report of a linearization: how near the student came, stage by stage, and what it kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.linearize.evaluation.evaluate import TABLE as EVALUATION
from lt2theory.linearize.results import STAGES
from lt2theory.linearize.selection import RUNS
from lt2theory.linearize.selectors_compared import KIND as SELECTION
from lt2theory.linearize.selectors_compared import SCORES
from lt2theory.report.content import Report, ReportFigure, ReportTable, Section
from lt2theory.report.evaluation_sections import evaluation_sections, selection_section
from lt2theory.report.figures.linearization import recovery_by_stage, stage_courses
from lt2theory.report.glossary import terms
from lt2theory.report.html import REPORT, write_report
from lt2theory.report.provenance import provenance_of, provenance_of_evaluation
from lt2theory.report.setting import setting_section
from lt2theory.report.tables import MISSING, format_number
from lt2theory.runs import RunFolder, read_json, run_status
from lt2theory.runs.layout import CONFIG

TERMS = ("loops (T)", "bits per byte")
BEFORE = "before"
"""What the student before its first stage is called."""


def report_linearization(folder: Path, *, output: Path | None = None, command: str = "") -> Path:
    """Write the report of a linearization, of a selection of layers, or of an evaluation.

    Args:
        folder: Its folder. A linearization shows an evaluation in its folder `evaluation` too, and
            a selection in `selection`.
        output: The HTML file; `report.html` in the folder if None.
        command: What a reader types to get the numbers again, or "".

    Returns:
        The HTML file.

    Raises:
        ValueError: Nothing was measured yet, or the file cannot be written.
    """
    if run_status(folder) != "absent" and not (folder / EVALUATION).is_file():
        run = RunFolder.open(folder)
        content = _selected if run.kind == SELECTION else linearization_content
        report = content(run, command=command)
    else:
        report = evaluation_content(folder, command=command)
    return write_report(report, output or folder / REPORT)


def linearization_content(run: RunFolder, *, command: str = "") -> Report:
    """What the report of a linearization says.

    Args:
        run: The linearization.
        command: What a reader types to get it again, or "".

    Returns:
        The report.

    Raises:
        ValueError: It has measured nothing yet.
    """
    names = [stage["name"] for stage in run.config["recipe"]["stages"]]
    found = _recoveries(run, names)
    stages = [RunFolder.open(path) for path in sorted((run.path / STAGES).glob("*-*"))]
    sections = [*_recovery(found), *_courses(stages), *_speed(stages)]
    if not sections:
        raise ValueError(f"{run.path} has measured nothing yet, at least 1 record is needed")
    sections += _beside(run.path)
    sections.append(setting_section(run))
    summary: Mapping[str, Any] = run.summary() if run.status == "done" else {}
    recipe = run.config["recipe"]
    return Report(
        title=f"{recipe['name']}: {run.config['teacher']['name']} linearized, seed "
        f"{recipe['seed']}",
        summary=[_status(summary, recipe)],
        sections=sections,
        glossary=terms(*TERMS),
        provenance=provenance_of(stages, command=command),
    )


def evaluation_content(folder: Path, *, command: str = "") -> Report:
    """What the report of an evaluation says.

    Args:
        folder: The evaluation.
        command: What a reader types to get it again, or "".

    Returns:
        The report.

    Raises:
        ValueError: It is not finished.
    """
    path = folder / EVALUATION
    if not path.is_file():
        raise ValueError(f"{folder} holds no finished evaluation: it has no {EVALUATION} yet")
    about = read_json(folder / CONFIG)["about"]
    named = {name: about.get(name) for name in ("student", "teacher")}
    said = [one["name"] if isinstance(one, dict) else "student" for one in named.values()]
    return Report(
        title=f"Evaluation of {said[0]}",
        summary=[f"A student beside its teacher, {said[1]}, with floors and 95 % intervals."],
        sections=evaluation_sections(pd.read_parquet(path)),
        glossary=terms(*TERMS),
        provenance=provenance_of_evaluation(folder, command=command),
    )


def _selected(run: RunFolder, *, command: str = "") -> Report:
    """What the report of a selection says."""
    if not (run.path / SCORES).is_file():
        raise ValueError(f"{run.path} has no scores yet: the selection is not finished")
    runs = [RunFolder.open(path) for path in sorted((run.path / RUNS).glob("seed-*/*"))]
    return Report(
        title=f"Layers that keep softmax: {run.identity['label']}",
        summary=["Selectors side by side: the trained one, and those that need no training."],
        sections=[selection_section(pd.read_parquet(run.path / SCORES)), setting_section(run)],
        glossary=terms(*TERMS),
        # The runs that the trained selector compares say what they ran on.
        provenance=provenance_of(runs or [run], command=command),
    )


def _beside(folder: Path) -> list[Section]:
    """Sections of what lies in the folder of a linearization beside its stages."""
    sections = []
    if (folder / "evaluation" / EVALUATION).is_file():
        sections += evaluation_sections(pd.read_parquet(folder / "evaluation" / EVALUATION))
    if (folder / "selection" / SCORES).is_file():
        sections.append(selection_section(pd.read_parquet(folder / "selection" / SCORES)))
    return sections


def _recoveries(run: RunFolder, names: list[str]) -> pd.DataFrame:
    """A row a measurement: before the first stage, and after each."""
    records = [one for one in run.metrics() if one.get("split") == "recovery"]
    rows = [
        {"stage": name, "step": one["step"], **one["metrics"]}
        for name, one in zip([BEFORE, *names], records, strict=False)
    ]
    return pd.DataFrame(rows, columns=["stage", "step", "kl", "loss", "teacher_loss", "agreement"])


def _recovery(found: pd.DataFrame) -> list[Section]:
    if found.empty:
        return []
    first, last = found.iloc[0], found.iloc[-1]
    said = (
        f"Divergence from the teacher: {format_number(float(first['kl']))} nats a token before, "
        f"{format_number(float(last['kl']))} after {last['stage']}; both find the same token "
        f"likeliest at {100 * float(last['agreement']):.1f} %."
    )
    shown = pd.DataFrame(
        {
            "after": found["stage"],
            "steps": [f"{int(step):,}" for step in found["step"]],
            **{
                heading: [format_number(float(value)) for value in found[name]]
                for heading, name in (
                    ("divergence", "kl"),
                    ("loss", "loss"),
                    ("teacher's loss", "teacher_loss"),
                    ("agreement", "agreement"),
                )
            },
        }
    )
    caption = "Divergence (left) and losses (right), nats a token on windows of the eval split."
    return [
        Section(
            title="Recovery by stage",
            question="How near did the student come to its teacher?",
            happened=[said],
            figures=[ReportFigure(recovery_by_stage(found), caption, f"Recovery. {said}")],
            tables=[ReportTable(shown, "Windows of the eval split, without an interval.")],
        )
    ]


def _courses(stages: list[RunFolder]) -> list[Section]:
    rows, steps = [], 0
    for run in stages:
        records = [one for one in run.metrics() if one.get("split") == "train"]
        for one in records:
            place = {"stage": run.config["label"], "step": steps + one["step"]}
            rows.append(place | {"value": one["metrics"]["loss"]})
        steps += records[-1]["step"] if records else 0
    if not rows:
        return []
    frame = pd.DataFrame(rows)
    ends = frame.groupby("stage", sort=False)["value"].agg(["first", "last"])
    said = [
        f"{name}: {format_number(float(row['first']))} to {format_number(float(row['last']))}."
        for name, row in ends.iterrows()
    ]
    caption = "What each stage minimises, by step over all stages; stages differ in what that is."
    drawing = ReportFigure(stage_courses(frame), caption, f"Courses. {' '.join(said)}")
    question = "Did each stage learn what it was told?"
    return [Section(title="Course", question=question, happened=said, figures=[drawing])]


def _speed(stages: list[RunFolder]) -> list[Section]:
    rows = []
    for run in stages:
        timing = pd.DataFrame(run.timing())
        if timing.empty or "tokens_per_second" not in timing:
            continue
        memory = float(timing["peak_memory_gib"].max()) if "peak_memory_gib" in timing else None
        rows.append(
            {
                "stage": str(run.config["label"]),
                "tokens a second": f"{float(timing['tokens_per_second'].median()):,.0f}",
                "peak memory (GiB)": MISSING if memory is None else f"{memory:.1f}",
            }
        )
    if not rows:
        return []
    table = ReportTable(pd.DataFrame(rows), "Median over the records of each stage.")
    return [Section(title="Speed of training", question="How fast was it?", tables=[table])]


def _status(summary: Mapping[str, Any], recipe: Mapping[str, Any]) -> str:
    if not summary:
        return "The linearization is not finished; this shows what it has measured so far."
    size, tokens = f"{summary['parameters']:,} parameters", f"{summary['tokens']:,} tokens"
    ended = "diverged after" if summary["status"] == "diverged" else "was trained on"
    return f"A student of {size} with mixers {summary['pattern']} {ended} {tokens}."
