"""Sections on a student beside its teacher: needles, recall, recovery, speed, selected layers."""

import math
from typing import Any

import pandas as pd

from lt2theory.report.content import ReportFigure, ReportTable, Section
from lt2theory.report.figures.linearization import found_by_length
from lt2theory.report.tables import MISSING, above_floor, format_interval, format_number

QUESTIONS = {
    "recovery": ("Held-out text", "How near is the student to the teacher on documents?"),
    "cloze": ("Cloze", "Does it know the word behind a passage?"),
    "needle": ("Needles by length", "Does it find what stood far above?"),
    "mqar": ("Associative recall", "Does it recall pairs of arbitrary tokens, untrained?"),
    "text": ("Generated text", "Does it write, or repeat itself?"),
    "states": ("States", "How much do its matrix states hold?"),
    "speed": ("Speed and memory", "What was gained?"),
    "zero_shot": ("Zero-shot tasks", "What does it answer?"),
}
"""Title and question of each part of an evaluation, in the order of the report."""
NAMES = {
    "kl": "divergence (nats a token)",
    "loss": "loss (nats a token)",
    "loss_gap": "loss above the teacher's (nats a token)",
    "agreement": "same likeliest token (share)",
    "answer_nats": "cost of the answer (nats)",
    "snr": "signal-to-noise ratio (dB)",
    "horizon": "horizon (pairs)",
    "weights_mib": "weights (MiB)",
    "cache_mib": "cache (MiB)",
    "peak_mib": "peak memory (MiB)",
    "prefill_ms": "prompt (ms)",
    "decode_ms": "one token more (ms)",
}
"""What a metric is called, with its unit; others by their own names."""
CAPTIONS = {"speed": "In brackets the middle 95 % of single steps, n of them."}
"""Captions of parts whose brackets are no intervals of an estimate."""
_SHOWN = 200
"""Rows of a part that a table shows at most: states have one a layer and loop."""


def evaluation_sections(table: pd.DataFrame) -> list[Section]:
    """Sections of an evaluation.

    Args:
        table: From `lt2theory.linearize.evaluation.evaluate_pair`.

    Returns:
        One section a part that was measured.
    """
    sections = []
    for part, (title, question) in QUESTIONS.items():
        rows = table[table["part"] == part]
        if rows.empty:
            continue
        figures = [_needles(rows)] if part == "needle" else []
        caption = CAPTIONS.get(
            part, "95 % intervals; the floor needs no model; n counts independent units."
        )
        if not rows[["layer", "loop"]].isna().all(axis=None):
            caption += " Layers and loops count from 0."
        if len(rows) > _SHOWN:
            caption += f" The first {_SHOWN} of {len(rows)} rows."
        shown = ReportTable(_numbers(rows.head(_SHOWN)), caption)
        sections.append(Section(title=title, question=question, figures=figures, tables=[shown]))
    return sections


def _needles(rows: pd.DataFrame) -> ReportFigure:
    found = rows[rows["metric"] == "found"]
    frame = found.assign(label=[f"{m}, {k}" for m, k in zip(found["model"], found["kind"],
                                                            strict=True)])  # fmt: skip
    ends = [
        f"{name}: {float(own['value'].iloc[0]):.2f} at {int(own['length'].iloc[0])} and "
        f"{float(own['value'].iloc[-1]):.2f} at {int(own['length'].iloc[-1])} tokens."
        for name, own in frame.groupby("label", sort=False)
    ]
    caption = "Share of texts in which greedy decoding gives the whole value, Wilson intervals."
    return ReportFigure(found_by_length(frame), caption, f"Needles. {' '.join(ends)}")


def _numbers(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows for reading, without columns that are empty."""
    shown = pd.DataFrame(
        {
            "model": rows["model"].astype(str).replace("pair", "both"),
            **{
                name: [MISSING if pd.isna(value) else str(value) for value in rows[name]]
                for name in ("kind", "length", "layer", "loop")
            },
            "number": [NAMES.get(str(n), str(n).replace("_", " ")) for n in rows["metric"]],
            "value": [
                format_interval(_plain(value), _plain(low), _plain(high))
                for value, low, high in zip(rows["value"], rows["low"], rows["high"], strict=True)
            ],
            "floor": [format_number(_plain(value)) for value in rows["floor"]],
            "above the floor": [
                _above(_plain(low), _plain(high), _plain(floor))
                for low, high, floor in zip(rows["low"], rows["high"], rows["floor"], strict=True)
            ],
            "n": [MISSING if pd.isna(value) else f"{int(value):,}" for value in rows["n"]],
        }
    )
    empty = [name for name in shown if (shown[name] == MISSING).all()]
    return shown.drop(columns=empty)


def _above(low: float, high: float, floor: float) -> str:
    """Whether a number is above its floor, where both an interval and a floor are known."""
    return MISSING if math.isnan(floor) or math.isnan(low) else above_floor(low, high, floor)


def _plain(value: Any) -> float:
    """A number, NaN where it is missing."""
    return math.nan if pd.isna(value) else float(value)


def selection_section(scores: pd.DataFrame) -> Section:
    """The section of a selection of layers.

    Args:
        scores: From `lt2theory.linearize.selectors_compared.scores_table`.

    Returns:
        The section: what each selector chooses, and all scores with the spread of their seeds.
    """
    said = []
    for selector, own in scores.groupby("selector", sort=False):
        chosen = own[own["chosen"]]
        layers = ", ".join(str(int(layer)) for layer in chosen["layer"])
        agreed = 100 * float(chosen["share"].mean())
        noun = "layer" if len(chosen) == 1 else "layers"
        said.append(f"{selector} keeps {noun} {layers}, as {agreed:.0f} % of single seeds would.")
    shown = pd.DataFrame(
        {
            "selector": scores["selector"].astype(str),
            "layer": [str(int(layer)) for layer in scores["layer"]],
            "score": [
                format_interval(_plain(mean), _plain(low), _plain(high))
                for mean, low, high in zip(
                    scores["mean"], scores["lowest"], scores["highest"], strict=True
                )
            ],
            "chosen": ["yes" if one else "" for one in scores["chosen"]],
            "seeds that choose it": [f"{100 * float(one):.0f} %" for one in scores["share"]],
        }
    )
    caption = (
        "Mean over seeds, with the lowest and the highest seed in brackets. Scores of different "
        "selectors are in different units. Layers count from 0."
    )
    return Section(
        title="Layers that keep softmax",
        question="Which layers matter, and how far is the choice noise?",
        happened=said,
        tables=[ReportTable(shown, caption)],
    )
