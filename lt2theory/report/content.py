"""What a report is made of, before any HTML: every string here is plain text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd
from matplotlib.figure import Figure

Verdict = Literal["as predicted", "not as predicted", "inconclusive"]


@dataclass(frozen=True)
class ReportFigure:
    """A figure with the words that go with it.

    Attributes:
        figure: The drawing.
        caption: What is drawn, and how to read it.
        alt: What somebody who cannot see it should know, the finding included.
    """

    figure: Figure
    caption: str
    alt: str

    def __post_init__(self) -> None:
        if not self.alt.strip():
            raise ValueError("alt is empty, every figure needs a text that can stand in for it")


@dataclass(frozen=True)
class ReportTable:
    """A table with its caption.

    Attributes:
        frame: Rows to show; the columns' names are the headings and the index is left out.
        caption: What is listed, with the n and the kind of interval.
    """

    frame: pd.DataFrame
    caption: str


@dataclass(frozen=True)
class PredictionRow:
    """One prediction and what became of it.

    Attributes:
        claim: What was predicted, before the run.
        basis: Where the prediction comes from: an id of the theory ledger such as `W1`, or
            `experience`.
        happened: What was measured, with n and interval.
        verdict: Whether the two agree; `inconclusive` if the interval allows both.
    """

    claim: str
    basis: str
    happened: str
    verdict: Verdict


@dataclass(frozen=True)
class Section:
    """One question: asked, predicted, answered, shown.

    Attributes:
        title: Heading, also in the table of contents.
        question: What one wants to know.
        prediction: What was expected, or "" where nothing was.
        basis: Basis of the prediction: a theory id or `experience`.
        happened: Paragraphs of what was found.
        verdict: Whether it agrees with the prediction, or None without one.
        figures: Shown after the findings.
        tables: Shown after the figures.
        notes: Caveats, shown last.
    """

    title: str
    question: str
    prediction: str = ""
    basis: str = ""
    happened: Sequence[str] = ()
    verdict: Verdict | None = None
    figures: Sequence[ReportFigure] = ()
    tables: Sequence[ReportTable] = ()
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.prediction and not self.basis:
            raise ValueError(
                f"basis of section {self.title!r} is empty, a prediction needs a theory id or "
                "'experience'"
            )


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from.

    Attributes:
        facts: Name and value, such as the command, the device, threads and versions.
        runs: One row a run: folder, arm, seed, configuration hash.
        warnings: What a reader must know, such as runs resumed under other versions.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
        title: Heading and title of the page.
        summary: Opening paragraphs: what was done and what came out.
        sections: The questions.
        predictions: Predicted-against-happened table above the sections; may be empty.
        glossary: Terms that the report uses, explained in one sentence each.
        provenance: The footer.
    """

    title: str
    summary: Sequence[str]
    sections: Sequence[Section]
    predictions: Sequence[PredictionRow] = ()
    glossary: Mapping[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
