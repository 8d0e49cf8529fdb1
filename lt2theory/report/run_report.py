"""The report of one curriculum run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.report import views
from lt2theory.report.content import Report, ReportFigure, ReportTable, Section
from lt2theory.report.figures import accuracy_by_stage, exact_prefix, learning_curves
from lt2theory.report.glossary import terms
from lt2theory.report.html import REPORT, write_report
from lt2theory.report.provenance import provenance_of
from lt2theory.report.setting import setting_section
from lt2theory.report.tables import accuracy_table, counted, format_interval
from lt2theory.runs import RunFolder, run_table
from lt2theory.training.curriculum import KIND

NEEDED = {"status", "stages", "steps", "task"}
"""What a finished run's summary.json must hold to be reported."""
TERMS = (
    "loops (T)", "rescan", "accumulate", "stage", "scored accuracy", "floor", "floor's name",
    "splits",
)  # fmt: skip


def report_run(folder: Path, *, output: Path | None = None, command: str = "") -> Path:
    """Write the report of a curriculum run, finished or not.

    Args:
        folder: The run's folder.
        output: The HTML file; `report.html` in the folder if None.
        command: What a reader types to get the run again, or "".

    Returns:
        The HTML file.

    Raises:
        ValueError: The folder is not a curriculum run, or the file cannot be written.
    """
    report = run_content(RunFolder.open(folder), command=command)
    return write_report(report, output or folder / REPORT)


def run_content(run: RunFolder, *, command: str = "") -> Report:
    """What the report of a run says.

    Args:
        run: The run.
        command: What a reader types to get the run again, or "".

    Returns:
        The report.

    Raises:
        ValueError: The run is of another kind, or has measured nothing yet.
    """
    if run.kind != KIND:
        raise ValueError(f"{run.path} is a run of kind {run.kind!r}, allowed is {KIND!r}")
    table = run_table(run)
    summary: Mapping[str, Any] = run.summary() if run.status == "done" else {}
    if run.status == "done" and (lost := NEEDED - summary.keys()):
        raise ValueError(f"{run.path}: its summary.json is damaged, it lacks {min(lost)}")
    diverged = summary.get("status") == "diverged"
    if views.training_curves(table).empty and views.accuracies(table).empty and not diverged:
        raise ValueError(f"{run.path} has measured nothing yet, at least 1 evaluation is needed")
    card: Mapping[str, Any] = summary.get("task", {})
    sections = [
        _training(run, table, summary, card),
        *_test(run, table, card),
        *_rates(run),
        setting_section(run, _facts(summary, card)),
    ]
    return Report(
        title=f"{run.identity['label']}: {run.identity['task']}, seed {run.identity['seed']}",
        summary=[_status(run, summary)],
        sections=sections,
        glossary=terms(*TERMS),
        provenance=provenance_of([run], command=command),
    )


def _status(run: RunFolder, summary: Mapping[str, Any]) -> str:
    if not summary:
        return "The run is not finished; this shows what it has measured so far."
    stages, steps = summary["stages"], summary["steps"]
    solved = sum(stage["solved"] for stage in stages)
    planned = counted(len(run.config["stages"]), "stage")
    said = {
        "solved": f"The run solved all of its {planned} in {steps:,} steps.",
        "budget_exhausted": (
            f"The run solved {solved} of its {planned}; the step budget of the next one ran out, "
            f"after {steps:,} steps in all."
        ),
        "diverged": (
            f"The run diverged at step {summary.get('diverged_at')} "
            f"({summary.get('divergence')}) after solving {solved} of {planned}."
        ),
    }
    return said[summary["status"]]


def _training(
    run: RunFolder, table: pd.DataFrame, summary: Mapping[str, Any], card: Mapping[str, Any]
) -> Section:
    ended = views.stage_outcomes(table)
    found = [
        f"Stage {stage['stage']}: {'solved' if stage['solved'] else 'not solved'} "
        f"within {stage['steps']:,.0f} steps."
        for stage in ended.to_dict("records")
    ]
    marks = {
        f"{stage['stage']} solved": int(stage["step"])
        for stage in ended.to_dict("records")
        if stage["solved"]
    }
    figures = []
    curves = views.training_curves(table)
    if len(curves):
        drawing = learning_curves(
            curves,
            floors=views.constant_floors(table),
            pass_mark=run.config["pass_mark"],
            promotions=marks,
        )
        caption = (
            "Training loss (left) and accuracy on fresh evaluation instances (right) against the "
            f"training step.{' Vertical lines mark solved stages.' if marks else ''} Floors that "
            "are the same at every stage are dashed."
        )
        figures.append(ReportFigure(drawing, caption, f"Learning curves. {' '.join(found)}"))
    checks = [
        ReportTable(
            _checks(table, split, card), f"Last {name} of every stage; 95 % intervals (Wilson)."
        )
        for split, name in (("eval", "evaluation"), ("confirmation", "confirmation"))
        if len(views.accuracies(table, split))
    ]
    return Section(
        title="Training",
        question=(
            f"Does the model learn {run.identity['task']} within {run.config['step_budget']:,} "
            f"steps a stage? The pass mark is {run.config['pass_mark']:g}."
        ),
        happened=found or ["No stage has ended yet."],
        figures=figures,
        tables=checks,
        notes=[_status(run, summary)] if summary.get("status") == "diverged" else [],
    )


def _checks(table: pd.DataFrame, split: str, card: Mapping[str, Any]) -> pd.DataFrame:
    rows = views.accuracies(table, split)
    return pd.DataFrame(
        {
            views.stage_heading(card): rows["stage"],
            "scored accuracy": [
                format_interval(*ends)
                for ends in rows[["value", "low", "high"]].astype(float).itertuples(index=False)
            ],
            "n": rows["n"],
        }
    )


def _test(run: RunFolder, table: pd.DataFrame, card: Mapping[str, Any]) -> list[Section]:
    tested = views.accuracies(table)
    if tested.empty:
        return []
    floors, heading = views.floors(table), views.stage_heading(card)
    shown = accuracy_table(tested, floors, stage_label=heading)
    found = [
        f"{heading} {row[heading]}: {row['accuracy']} (above the best floor: "
        f"{row['above best floor']})."
        for row in shown.to_dict("records")
    ]
    # Stages that the run was to train on but never reached do not count.
    trained = views.training_curves(table)["stage"].max()
    figures = [
        ReportFigure(
            accuracy_by_stage(
                tested,
                floors=floors,
                stage_label=heading,
                pass_mark=run.config["pass_mark"],
                training_stage=int(trained) if pd.notna(trained) else None,
            ),
            "Scored accuracy on the test split with 95 % intervals (Wilson, over instances); "
            "floors are dashed.",
            f"Test accuracy by stage. {' '.join(found)}",
        )
    ]
    said = f" ({setting})" if (setting := views.task_setting(card)) else ""
    longest = views.longest_prefix_stage(table)
    if longest is not None:
        drawing = exact_prefix(views.exact_prefixes(table, longest))
        caption = f"Share of test instances ({heading} {longest}) without a wrong answer so far."
        figures.append(ReportFigure(drawing, caption, caption))
    caption = f"Scored accuracy on the test split, read once{said}; n is instances."
    return [
        Section(
            title="Test",
            question="What does the model score on instances that no decision has looked at?",
            happened=found,
            figures=figures,
            tables=[ReportTable(shown, caption)],
            notes=[
                "The intervals are about this one model. What another seed would do, one run "
                "cannot say."
            ],
        )
    ]


def _rates(run: RunFolder) -> list[Section]:
    # One record a trial: the tidy table would not say which numbers belong together.
    trials = [line["metrics"] for line in run.metrics() if line.get("split") == "selection"]
    if not trials:
        return []
    shown = pd.DataFrame(
        {
            "learning rate": [f"{trial['learning_rate']:g}" for trial in trials],
            "seed": [str(trial["candidate_seed"]) for trial in trials],
            "diverged": [bool(trial["diverged"]) for trial in trials],
            "scored accuracy": [trial.get(views.ACCURACY) for trial in trials],
        }
    )
    return [
        Section(
            title="Learning rate",
            question="Which learning rates were tried, and how did they do?",
            happened=[f"{counted(len(shown), 'trial')}, all of the same number of steps."],
            tables=[ReportTable(shown, "All trials, on the evaluation split.")],
        )
    ]


def _facts(summary: Mapping[str, Any], card: Mapping[str, Any]) -> dict[str, object]:
    """What stands above the options."""
    size = summary.get("parameters")
    return {
        "parameters": None if size is None else f"{size:,}",
        "peak learning rate used": summary.get("learning_rate"),
        **{
            f"task: {name.replace('_', ' ')}": card[name]
            for name in ("definition", "labelled", "supervision", "layout")
            if name in card
        },
    }
