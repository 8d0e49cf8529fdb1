"""The report of a study: arms compared over seeds, one section a problem."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.report import views
from lt2theory.report.content import Report, ReportFigure, ReportTable, Section
from lt2theory.report.figures import (
    accuracy_by_stage,
    exact_prefix,
    learning_curves,
    steps_to_solve,
    success_rates,
)
from lt2theory.report.glossary import GLOSSARY
from lt2theory.report.html import REPORT, write_report
from lt2theory.report.provenance import provenance_of
from lt2theory.report.statistics import seed_summary, success_table
from lt2theory.report.style import ArmStyle, arm_styles
from lt2theory.report.tables import accuracy_table, counted, outcome_table
from lt2theory.runs import Study, collect, read_table
from lt2theory.runs.study import RESULTS
from lt2theory.training.curriculum import KIND

OVER_SEEDS = "Clopper-Pearson intervals over seeds"


def report_study(root: Path, *, output: Path | None = None, command: str = "") -> Path:
    """Write the report of a study of curriculum runs, complete or not.

    Args:
        root: The study's folder: manifest.json, and the runs' folders or results.parquet.
        output: The HTML file; `report.html` in the folder if None.
        command: What a reader types to get the study again, or "".

    Returns:
        The HTML file.

    Raises:
        ValueError: The folder is not a study of curriculum runs, none of them has measured
            anything, or the file cannot be written.
    """
    return write_report(study_content(Study(root), command=command), output or root / REPORT)


def study_content(study: Study, *, command: str = "") -> Report:
    """What the report of a study says.

    Args:
        study: The study.
        command: What a reader types to get the study again, or "".

    Returns:
        The report, with one section for every task and setting of its knobs.

    Raises:
        ValueError: The study is of another kind, or none of its runs has measured anything.
    """
    if study.kind != KIND:
        raise ValueError(f"{study.root} is a study of {study.kind!r}, allowed is {KIND!r}")
    folders = study.run_folders()
    # A published study may hold its table alone.
    table = collect(folders) if folders else read_table(study.root / RESULTS)
    problems = {run.folder: problem_name(run.config["task"]) for run in study.runs}
    table = table.assign(problem=table["run"].map(problems))
    if views.training_curves(table).empty and views.accuracies(table).empty:
        raise ValueError(f"{study.root} has measured nothing yet, at least 1 run is needed")
    looks = arm_styles(table["label"])
    cards = {
        problems[run.path.name]: run.summary()["task"] for run in folders if run.status == "done"
    }
    sections = [
        problem_section(str(name), rows, looks, card=cards.get(str(name), {}))
        for name, rows in table.groupby("problem", sort=False)
    ]
    ended = len(views.outcomes(table))
    return Report(
        title=f"Study: {study.root.resolve().name}",
        summary=[
            f"{ended} of {counted(len(study.runs), 'run')} ended: {counted(len(looks), 'arm')}, "
            f"{counted(int(table['seed'].nunique()), 'seed')}, "
            f"{counted(len(sections), 'problem')}."
        ],
        sections=sections,
        glossary=GLOSSARY,
        provenance=provenance_of(folders, command=command),
    )


def problem_name(task: Mapping[str, Any]) -> str:
    """A task and its knobs in words.

    Args:
        task: `name` and `knobs` of a run's configuration.

    Returns:
        For instance `group_word (group S3)`.
    """
    knobs = ", ".join(f"{name} {value}" for name, value in task.get("knobs", {}).items())
    return f"{task['name']} ({knobs})" if knobs else str(task["name"])


def problem_section(
    name: str,
    table: pd.DataFrame,
    looks: Mapping[str, ArmStyle],
    *,
    card: Mapping[str, Any] | None = None,
) -> Section:
    """Arms on one problem, compared over seeds; a prediction can be added by `dataclasses.replace`.

    Args:
        name: The problem in words.
        table: Tidy table of its runs.
        looks: Looks of the arms, the same in all sections.
        card: The task's card, which says what a stage counts.

    Returns:
        The section, without a prediction.
    """
    section = Section(
        title=name,
        question=" ".join(
            [
                f"Which arms learn {name}, how soon, and how far does what they learn carry?",
                str((card or {}).get("definition", "")),
            ]
        ).strip(),
        figures=_curves(table, looks),
        notes=_unfinished(table),
    )
    ends = views.outcomes(table)
    if ends.empty:
        return replace(section, happened=["No run has ended yet."])
    outcomes = success_table(ends)
    shown = outcome_table(outcomes)
    found = [
        f"{arm['arm']}: {arm['solved']} solved; median steps: {arm['median steps to solve']}."
        for arm in shown.to_dict("records")
    ]
    diverged = int(ends["diverged"].sum())
    found += [f"{counted(diverged, 'run')} diverged, which counts as not solved."] * bool(diverged)
    test_figures, test_tables = _tests(table, looks, card or {})
    said = " ".join(found)
    figures = [
        *section.figures,
        ReportFigure(
            success_rates(outcomes, styles=looks),
            f"Share of seeds that solved every stage; {OVER_SEEDS}.",
            f"Success rates. {said}",
        ),
        ReportFigure(
            steps_to_solve(ends, styles=looks),
            "Steps to solve every stage, one mark a seed. Seeds that did not solve are censored: "
            "their arrow stands where they stopped.",
            f"Steps to solve. {said}",
        ),
        *test_figures,
    ]
    tables = [ReportTable(shown, f"Outcome of every arm; {OVER_SEEDS}."), *test_tables]
    return replace(section, happened=found, figures=figures, tables=tables)


def _curves(table: pd.DataFrame, looks: Mapping[str, ArmStyle]) -> list[ReportFigure]:
    curves = views.training_curves(table)
    if curves.empty:
        return []
    drawing = learning_curves(curves, floors=views.constant_floors(table), styles=looks)
    caption = (
        "Training loss (left) and accuracy on fresh evaluation instances (right), one line a seed. "
        "A curve falls back where its run moves to a harder stage, and ends where the run does."
    )
    return [ReportFigure(drawing, caption, "Learning curves, described by the outcomes below.")]


def _tests(
    table: pd.DataFrame, looks: Mapping[str, ArmStyle], card: Mapping[str, Any]
) -> tuple[list[ReportFigure], list[ReportTable]]:
    tested, floors = views.accuracies(table), views.floors(table)
    if tested.empty:
        return [], []
    means = seed_summary(tested, by=["label", "stage"], bounds=(0.0, 1.0))
    heading = views.stage_heading(card)
    shown = accuracy_table(
        means.rename(columns={"n": "seeds"}).assign(n=_instances(tested)),
        floors,
        stage_label=heading,
    )
    drawing = accuracy_by_stage(
        means,
        floors=floors,
        stage_label=heading,
        training_stage=_training_stage(table, means),
        styles=looks,
    )
    caption = (
        "Scored accuracy on the test split: mean over seeds with t intervals, drawn where seeds "
        "differ; floors are dashed. Arms are tested only on stages that they reached, and on those "
        "that are only tested."
    )
    said = "; ".join(
        f"{row['arm']} at {heading} {row[heading]}: {row['accuracy']}"
        for row in shown.to_dict("records")
    )
    figures = [ReportFigure(drawing, caption, f"Test accuracy. {said}")]
    longest = views.longest_prefix_stage(table)
    if longest is not None:
        text = (
            f"Share of test instances ({heading} {longest}) without a wrong answer so far, one "
            "line a seed."
        )
        prefixes = views.exact_prefixes(table, longest)
        figures.append(ReportFigure(exact_prefix(prefixes, styles=looks), text, text))
    setting = f" ({said})" if (said := views.task_setting(card)) else ""
    note = f"Mean scored accuracy on the test split{setting}, t intervals over seeds; n: instances."
    return figures, [ReportTable(shown, note)]


def _training_stage(table: pd.DataFrame, means: pd.DataFrame) -> int | None:
    """Largest stage that was trained on, where larger ones were tested too."""
    trained = int(table[table["split"] == "stage"]["stage"].max())
    return trained if trained < means["stage"].max() else None


def _instances(tested: pd.DataFrame) -> list[str]:
    """Instances behind each cell of a summary over seeds."""
    groups = tested.groupby(["label", "stage"], sort=False)["n"]
    return [", ".join(f"{n:,}" for n in sorted(set(cell.dropna()))) for _, cell in groups]


def _unfinished(table: pd.DataFrame) -> list[str]:
    begun, ended = set(table["run"]), set(views.outcomes(table)["run"])
    missing = len(begun - ended)
    return [f"Not ended, so not in any rate: {counted(missing, 'run')}."] if missing else []
