"""A report as one HTML file: no scripts, nothing fetched, every text escaped."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from lt2theory.report.content import (
    PredictionRow,
    Provenance,
    Report,
    ReportFigure,
    ReportTable,
    Section,
    Verdict,
)
from lt2theory.report.embed import data_uri
from lt2theory.report.tables import MISSING, format_cell
from lt2theory.runs.atomic import write_text

REPORT = "report.html"
"""What a report is called in the folder that it is about."""

# Even if some text got past the escaping, a browser would run and fetch nothing.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
MARKS: dict[Verdict, str] = {"as predicted": "✓", "not as predicted": "✗", "inconclusive": "?"}

NUMERIC = re.compile(rf"^([-+]?[\d∞][\d.,e+-]*( \[.*\])?( %)?|{MISSING})$")


def render(report: Report) -> str:
    """The report's page.

    Args:
        report: What to show.

    Returns:
        A complete HTML document.
    """
    body = [
        f"<header><h1>{_text(report.title)}</h1>",
        *_paragraphs(report.summary, "summary"),
        "</header>",
        _contents(report),
        _predictions(report.predictions),
        *(_section(number, section) for number, section in enumerate(report.sections, 1)),
        _glossary(report),
        _provenance(report.provenance),
    ]
    style = resources.files("lt2theory.report").joinpath("page.css").read_text(encoding="utf-8")
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{_text(report.title)}</title><style>\n{style}</style>"
    )
    inside = "\n".join(part for part in body if part)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{inside}\n</body></html>\n'
    )


def write_report(report: Report, path: Path) -> Path:
    """Write the report's page, all or nothing.

    Args:
        report: What to show.
        path: The HTML file; its folder must exist.

    Returns:
        The path.

    Raises:
        ValueError: The file cannot be written there.
    """
    page = render(report)
    try:
        write_text(path, page)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        raise ValueError(f"report {path} cannot be written: {error.strerror}") from error
    return path


def table_html(table: ReportTable) -> str:
    """A table as HTML.

    Args:
        table: Rows and caption.

    Returns:
        A `figure` element that scrolls sideways where the page is narrow.
    """
    columns = [str(name) for name in table.frame.columns]
    cells = [[format_cell(value) for value in row] for row in table.frame.itertuples(index=False)]
    numeric = [
        all(NUMERIC.match(row[place]) for row in cells) and bool(cells)
        for place in range(len(columns))
    ]
    kinds = [' class="number"' if is_number else "" for is_number in numeric]
    heads = "".join(
        f'<th scope="col"{kind}>{_text(name)}</th>'
        for name, kind in zip(columns, kinds, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(f"<td{k}>{_text(c)}</td>" for c, k in zip(row, kinds, strict=True))
        + "</tr>"
        for row in cells
    )
    return (
        f'<figure class="table"><figcaption>{_text(table.caption)}</figcaption>'
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table>'
        "</div></figure>"
    )


def _text(value: str) -> str:
    return escape(value, quote=True)


def _paragraphs(texts: Iterable[str], kind: str = "") -> list[str]:
    mark = f' class="{kind}"' if kind else ""
    return [f"<p{mark}>{_text(text)}</p>" for text in texts]


def _contents(report: Report) -> str:
    entries = [("predictions", "Predicted and happened")] if report.predictions else []
    entries += [(_anchor(n), section.title) for n, section in enumerate(report.sections, 1)]
    entries += [("glossary", "Terms")] if report.glossary else []
    entries += [("provenance", "Where the numbers come from")]
    items = "".join(f'<li><a href="#{anchor}">{_text(name)}</a></li>' for anchor, name in entries)
    return f'<nav aria-label="Contents"><h2>Contents</h2><ol>{items}</ol></nav>'


def _anchor(number: int) -> str:
    return f"section-{number}"


def _badge(verdict: Verdict) -> str:
    kind = verdict.replace(" ", "-")
    return f'<span class="verdict {kind}">{MARKS[verdict]} {verdict}</span>'


def _predictions(rows: Sequence[PredictionRow]) -> str:
    if not rows:
        return ""
    lines = "\n".join(
        f"<tr><td>{_text(row.claim)}</td><td>{_text(row.basis)}</td>"
        f"<td>{_text(row.happened)}</td><td>{_badge(row.verdict)}</td></tr>"
        for row in rows
    )
    heads = "".join(
        f'<th scope="col">{name}</th>' for name in ("predicted", "basis", "happened", "verdict")
    )
    return (
        '<section id="predictions"><h2>Predicted and happened</h2><div class="scroll">'
        f'<table class="predictions"><thead><tr>{heads}</tr></thead>\n'
        f"<tbody>{lines}</tbody></table></div></section>"
    )


def _section(number: int, section: Section) -> str:
    parts = [
        f'<section id="{_anchor(number)}"><h2>{_text(section.title)}</h2><dl class="claim">',
        f"<dt>Question</dt><dd>{_text(section.question)}</dd>",
    ]
    if section.prediction:
        basis = f'<span class="basis">basis: {_text(section.basis)}</span>'
        parts.append(f"<dt>Predicted</dt><dd>{_text(section.prediction)} {basis}</dd>")
    badge = f" {_badge(section.verdict)}" if section.verdict else ""
    found = [_text(text) for text in section.happened]
    if found:
        inside = "<br>".join(found)
        parts.append(f"<dt>Happened</dt><dd>{inside}{badge}</dd>")
    parts.append("</dl>")
    parts += [_figure(figure) for figure in section.figures]
    parts += [table_html(table) for table in section.tables]
    parts += _paragraphs(section.notes, "note")
    parts.append("</section>")
    return "\n".join(parts)


def _figure(figure: ReportFigure) -> str:
    return (
        f'<figure class="plot"><img src="{data_uri(figure.figure)}" alt="{_text(figure.alt)}">'
        f"<figcaption>{_text(figure.caption)}</figcaption></figure>"
    )


def _glossary(report: Report) -> str:
    if not report.glossary:
        return ""
    items = "".join(
        f"<dt>{_text(term)}</dt><dd>{_text(meaning)}</dd>"
        for term, meaning in report.glossary.items()
    )
    return f'<section id="glossary"><h2>Terms</h2><dl class="terms">{items}</dl></section>'


def _provenance(provenance: Provenance) -> str:
    facts = "".join(
        f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in provenance.facts.items()
    )
    parts = ['<footer id="provenance"><h2>Where the numbers come from</h2>']
    parts += _paragraphs(provenance.warnings, "warning")
    parts.append(f'<dl class="facts">{facts}</dl>')
    if len(provenance.runs):
        parts.append(table_html(ReportTable(provenance.runs, "Runs behind this report.")))
    parts.append("</footer>")
    return "\n".join(parts)
