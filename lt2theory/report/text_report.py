"""The report of one language-model run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.report.analysis_instruments import instrument_sections
from lt2theory.report.content import Report, ReportFigure, ReportTable, Section
from lt2theory.report.figures import speed_over_training, text_curves
from lt2theory.report.frames import numbers
from lt2theory.report.glossary import terms
from lt2theory.report.html import REPORT, write_report
from lt2theory.report.provenance import provenance_of
from lt2theory.report.setting import setting_section
from lt2theory.report.tables import counted, format_number
from lt2theory.report.text_baseline import PRIMED, baselines_of
from lt2theory.runs import RunFolder, run_table

TERMS = ("loops (T)", "rescan", "accumulate", "bits per byte", "xz")
NEEDED = {"status", "steps", "tokens", "parameters"}
"""What a finished run's summary.json must hold to be reported."""


def report_text_run(folder: Path, *, output: Path | None = None, command: str = "") -> Path:
    """Write the report of a language-model run, finished or not.

    Args:
        folder: The run's folder.
        output: The HTML file; `report.html` in the folder if None.
        command: What a reader types to get the run again, or "".

    Returns:
        The HTML file.

    Raises:
        ValueError: The run has recorded nothing yet, or the file cannot be written.
    """
    report = text_run_content(RunFolder.open(folder), command=command)
    return write_report(report, output or folder / REPORT)


def text_run_content(run: RunFolder, *, command: str = "") -> Report:
    """What the report of a language-model run says.

    Args:
        run: The run.
        command: What a reader types to get the run again, or "".

    Returns:
        The report.

    Raises:
        ValueError: The run has recorded nothing yet, or its summary is damaged.
    """
    table = run_table(run)
    summary: Mapping[str, Any] = run.summary() if run.status == "done" else {}
    if run.status == "done" and (lost := NEEDED - summary.keys()):
        raise ValueError(f"{run.path}: its summary.json is damaged, it lacks {min(lost)}")
    if _rows(table, "train", "loss").empty and _rows(table, "eval", "bits_per_byte").empty:
        raise ValueError(f"{run.path} has measured nothing yet, at least 1 record is needed")
    model = run.config["model"]
    sections = [
        _training(run, table),
        *instrument_sections(
            table, num_layers=int(model["num_layers"]), num_loops=int(model["num_loops"])
        ),
        *_speed(run),
        *_events(table),
        setting_section(run, {"parameters": f"{summary['parameters']:,}"} if summary else None),
    ]
    return Report(
        title=f"{run.identity['label']}: language model, seed {run.identity['seed']}",
        summary=[_status(summary)],
        sections=sections,
        glossary=terms(*TERMS),
        provenance=provenance_of([run], command=command),
    )


def _rows(table: pd.DataFrame, split: str, metric: str) -> pd.DataFrame:
    return table[(table["split"] == split) & (table["metric"] == metric)].sort_values("step")


def _status(summary: Mapping[str, Any]) -> str:
    if not summary:
        return "The run is not finished; this shows what it has measured so far."
    size = f"{summary['parameters']:,} parameters"
    read = f"{summary['steps']:,} steps, {summary['tokens']:,} tokens"
    if summary["status"] == "diverged":
        return f"A model of {size} diverged after {read}."
    return f"A model of {size} was trained for {read}."


def _training(run: RunFolder, table: pd.DataFrame) -> Section:
    losses = _rows(table, "train", "loss")
    held_out = _rows(table, "eval", "bits_per_byte")
    found, baselines = [], {}
    if len(losses):
        first, last = losses.iloc[0], losses.iloc[-1]
        found.append(
            f"Training loss: {format_number(float(first['value']))} nats a token at step "
            f"{int(first['step']):,}, {format_number(float(last['value']))} at step "
            f"{int(last['step']):,}."
        )
    notes = []
    if len(held_out):
        last, values = held_out.iloc[-1], numbers(held_out, "value")
        best = int(values.argmin())
        place = int(held_out["step"].iloc[best])
        here = best == len(values) - 1
        least = (
            "the least so far" if here else f"the least was {values[best]:.4f} at step {place:,}"
        )
        found.append(
            f"Held out: {float(last['value']):.4f} bits per byte at step {int(last['step']):,} "
            f"({counted(int(last['n']), 'document')}); {least}."
        )
        baselines = baselines_of(run)
        found += _beside(float(last["value"]), baselines)
        if run.config.get("evaluation_documents") is not None and baselines:
            notes.append("The model was evaluated on some of the documents, xz on all of them.")
        if not baselines:
            notes.append("The corpus is not at its place any more, so xz is not shown beside it.")
    said = "Training loss (left) and bits per byte on the held-out documents (right)."
    drawing = text_curves(table, baselines=baselines)
    return Section(
        title="Training",
        question="How well does the model predict text, beside a compressor that learns nothing?",
        happened=found,
        figures=[ReportFigure(drawing, said, f"Curves of training. {' '.join(found)}")],
        notes=notes,
    )


def _beside(value: float, baselines: Mapping[str, float]) -> list[str]:
    """The last evaluation against every baseline, in words."""
    if not baselines:
        return []
    each = ", ".join(f"{name} {bits:.4f}" for name, bits in baselines.items())
    better = [name for name, bits in baselines.items() if value < bits]
    verdict = "less than both" if len(better) == 2 else f"less than {better[0]}" if better else ""
    return [
        f"Bits per byte of {each}: the model spends {verdict or 'no less than either'}.",
        *(
            [f"That is {100 * (1 - value / baselines[PRIMED]):.1f} % less than xz with the text."]
            if PRIMED in better
            else []
        ),
    ]


def _speed(run: RunFolder) -> list[Section]:
    frame = pd.DataFrame(run.timing())
    if frame.empty or "tokens_per_second" not in frame:
        return []
    middle = frame.median(numeric_only=True)
    found = [f"Median: {middle['tokens_per_second']:,.0f} tokens a second"]
    if "mfu" in middle:
        found[0] += f", {100 * middle['mfu']:.1f} % of the device's peak"
    if "peak_memory_gib" in frame:
        found[0] += f", at most {frame['peak_memory_gib'].max():.1f} GiB of memory"
    found[0] += "."
    caption = "Rates between two records of training; evaluations and checkpoints are left out."
    figure = ReportFigure(speed_over_training(frame), caption, f"Speed. {found[0]}")
    return [Section(title="Speed", question="How fast was it?", happened=found, figures=[figure])]


def _events(table: pd.DataFrame) -> list[Section]:
    """Steps that were not finite or spikes; nothing where there were none."""
    events = table[table["split"] == "event"]
    kinds = events[events["metric"] != "loss"]
    if kinds.empty:
        return []
    losses = events[events["metric"] == "loss"].set_index("step")["value"]
    shown = pd.DataFrame(
        {
            "step": [int(step) for step in kinds["step"]],
            "what": [str(kind).replace("_", " ") for kind in kinds["metric"]],
            "loss": [
                format_number(float(losses.get(step, float("nan")))) for step in kinds["step"]
            ],
        }
    )
    return [
        Section(
            title="Steps that went wrong",
            question="Was the training smooth?",
            happened=[f"{counted(len(shown), 'step')} out of line."],
            tables=[ReportTable(shown, "Steps that were not finite, and spikes of the loss.")],
        )
    ]
