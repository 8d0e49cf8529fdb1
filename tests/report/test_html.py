"""The page: nothing fetched, nothing executed, every text escaped, every part present."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from lt2theory.report.content import (
    PredictionRow,
    Provenance,
    Report,
    ReportFigure,
    ReportTable,
    Section,
)
from lt2theory.report.html import render, table_html, write_report

EVIL = "<script>alert('x')</script> & \"quoted\" <img src=http://example.org/a.png>"
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and checks that tags are balanced."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def attributes(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def plot(points=3):
    figure = Figure()
    figure.subplots().plot(np.arange(points), np.sin(np.arange(points)))
    return figure


def evil_report():
    table = pd.DataFrame({EVIL: [EVIL, "plain"], "n": [1, 2]})
    section = Section(
        title=EVIL,
        question=EVIL,
        prediction=EVIL,
        basis=EVIL,
        happened=[EVIL, EVIL],
        verdict="inconclusive",
        figures=[ReportFigure(plot(), caption=EVIL, alt=EVIL)],
        tables=[ReportTable(table, caption=EVIL)],
        notes=[EVIL],
    )
    return Report(
        title=EVIL,
        summary=[EVIL],
        sections=[section],
        predictions=[PredictionRow(EVIL, EVIL, EVIL, "not as predicted")],
        glossary={EVIL: EVIL},
        provenance=Provenance({EVIL: EVIL}, table, [EVIL]),
    )


def test_text_is_data_everywhere():
    page = Page(render(evil_report()))
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "iframe", "link", "object"})
    assert len(page.attributes("img")) == 1
    assert page.attributes("img")[0]["alt"] == EVIL
    # Title twice, summary, contents, prediction (3), section (title, question, prediction, basis,
    # 2 found, caption, table's caption, heading and cell, note), terms (2), provenance (5).
    assert sum(text.count(EVIL) for text in page.texts) == 25
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


def test_nothing_is_fetched():
    text = render(evil_report())
    page = Page(text)
    for _, attrs in page.tags:
        for name in ("src", "href", "srcset", "data", "action"):
            if name in attrs:
                assert attrs[name].startswith(("data:image/", "#"))
    (style,) = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    policy = [meta for meta in page.attributes("meta") if "http-equiv" in meta]
    assert policy[0]["content"].startswith("default-src 'none'")


def test_contents_lead_to_every_part():
    report = evil_report()
    page = Page(render(report))
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    targets = [link["href"].removeprefix("#") for link in page.attributes("a")]
    assert targets == ["predictions", "section-1", "glossary", "provenance"]
    assert set(targets) <= ids


def test_a_section_starts_with_question_prediction_and_findings():
    section = Section("T", "Why?", "Because.", "W1", ["It did."], "as predicted",
                      figures=[ReportFigure(plot(), "cap", "alt")])  # fmt: skip
    text = render(Report("R", [], [section]))
    places = [text.index(part) for part in ("Why?", "Because.", "basis: W1", "It did.", "<img")]
    assert places == sorted(places)
    assert "✓ as predicted" in text


def test_a_section_without_a_prediction_shows_none():
    text = render(Report("R", [], [Section("T", "Why?", happened=["It did."])]))
    assert "Predicted" not in text
    assert "verdict" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)


def test_the_same_report_gives_the_same_bytes():
    assert render(evil_report()) == render(evil_report())


def test_page_serves_dark_screens_and_paper():
    text = render(Report("R", [], []))
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_table_cells_and_alignment():
    frame = pd.DataFrame(
        {
            "arm": ["a", "b"],
            "accuracy": ["0.912 [0.880, 0.940]", "1.000"],
            "n": pd.array([12345, None], dtype="Int64"),
            "solved": [True, False],
            "loss": [0.12345, np.nan],
        }
    )
    page = Page(table_html(ReportTable(frame, "caption")))
    assert "12,345" in page.texts
    assert {"yes", "no", "0.123"} <= set(page.texts)
    assert page.texts.count("—") == 2
    kinds = [attrs.get("class") for attrs in page.attributes("th")]
    assert kinds == [None, "number", "number", None, "number"]
    assert all(attrs["scope"] == "col" for attrs in page.attributes("th"))


def test_writing_replaces_the_page_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    assert write_report(evil_report(), path) == path
    assert path.read_text(encoding="utf-8") == render(evil_report())
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_an_unwritable_place_is_one_clear_line(tmp_path):
    with pytest.raises(
        ValueError, match=r"report .*missing/r.html cannot be written: No such file"
    ):
        write_report(evil_report(), tmp_path / "missing" / "r.html")


def test_words_that_are_missing_are_refused():
    with pytest.raises(ValueError, match="alt is empty"):
        ReportFigure(plot(), "caption", " ")
    with pytest.raises(ValueError, match="basis of section 'T' is empty"):
        Section("T", "Why?", prediction="Because.")
