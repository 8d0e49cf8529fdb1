"""Quotients over softmax, the page, its figures, and the page of this tree."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from lt2theory.report.efficiency import (
    FILE,
    efficiency_figures,
    efficiency_page,
    main,
    with_ratios,
)

ROOT = Path(__file__).parents[2]


def row(arm, length, rate, *, form="looped", phase="decode", batch=8, reason=None):
    return {
        "arm": arm,
        "form": form,
        "phase": phase,
        "batch": batch,
        "length": length,
        "path": None if rate is None else "fused",
        "ms": None if rate is None else 8e3 / rate,
        "tokens_per_second": rate,
        "peak_gib": None if rate is None else 10.0,
        "cache_gib": 1.5,
        "parameters_m": 1300.0,
        "floor_ms": 1.0,
        "reason": reason,
    }


OUT = "out of memory: cache 168 GiB and weights 2.6 GiB of 140 GiB"
ROWS = [
    row("full", 8192, 500.0),
    row("full", 32768, None, reason=OUT),
    row("gdn", 8192, 1500.0),
    row("gdn", 32768, 1450.0, reason="fused: ValueError: no"),
    row("full", 8192, 2000.0, form="same-parameters"),
    row("gdn", 8192, 6000.0, form="same-parameters"),
    row("full", 8192, 9e4, phase="prefill", batch=1),
    row("gdn", 8192, None, phase="prefill", batch=1, reason="left out: takes at least 30 s"),
]
CONTENT = {
    "commands": ["lt2 bench efficiency x.json"],
    "date": "2026-12-01",
    "environment": {"device": "A device", "packages": {"torch": "2.13"}},
    "rows": ROWS,
}


def test_quotients_are_over_softmax_of_the_same_cell():
    table = with_ratios(pd.DataFrame(ROWS))
    own = table.set_index(["arm", "form", "phase", "length"])["over_softmax"]
    assert own["gdn", "looped", "decode", 8192] == 3
    assert own["gdn", "same-parameters", "decode", 8192] == 3
    assert math.isnan(own["gdn", "looped", "decode", 32768])
    assert table["fits"].tolist() == [True, False, True, True, True, True, True, True]
    gone = table[(table["arm"] == "gdn") & (table["length"] == 32768)].iloc[0]
    assert gone["softmax_reason"] == OUT


def test_the_page_says_what_did_not_fit():
    page = efficiency_page(CONTENT)
    assert "| 8,192 | 500 | 1,500 (3x) |" in page
    assert "| 32,768 | out of memory | 1,450 |" in page
    assert "| 8,192 | 90,000 | left out |" in page
    assert "| 32,768 | 1.5, out of memory | 1.5, 10 |" in page
    assert "## Four loops" in page
    assert "## The same parameters, used once" in page
    assert "untied" not in page
    assert "- softmax, decode: fused" in page
    assert "`lt2 bench efficiency x.json`; 2026-12-01; A device; torch 2.13." in page
    assert efficiency_page({}).endswith("Not measured yet.\n")


def test_figures_mark_what_did_not_fit(line):
    figures = efficiency_figures(pd.DataFrame(ROWS))
    assert list(figures) == ["efficiency", "efficiency-memory"]
    decode, prefill = figures["efficiency"].axes
    assert (decode.get_title("left"), prefill.get_title("left")) == (
        "decode, batch 8",
        "prefill, batch 1",
    )
    assert line(decode, "LT2-linear (GDN)").tolist() == [[8192, 1500], [32768, 1450]]
    assert line(decode, "softmax").tolist() == [[8192, 500]]
    assert line(decode, "softmax (out of memory)")[:, 0].tolist() == [32768]
    assert line(prefill, "LT2-linear (GDN)").tolist() == []
    assert [tick.get_text() for tick in decode.get_xticklabels()] == ["8k", "32k"]
    assert efficiency_figures(pd.DataFrame(ROWS).query("form != 'looped'")) == {}


def test_writing_and_checking(tmp_path, capsys):
    (tmp_path / FILE).write_text(json.dumps(CONTENT), encoding="utf-8")
    page = tmp_path / "efficiency.md"
    arguments = ["--results", str(tmp_path), "--page", str(page)]
    assert main([*arguments, "--check"]) == 1
    assert "make efficiency" in capsys.readouterr().err
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == ["efficiency-memory.svg", "efficiency.svg"]


def test_the_page_of_this_tree_is_current():
    pages = ["--results", str(ROOT / "results"), "--page", str(ROOT / "docs" / "efficiency.md")]
    assert main([*pages, "--check"]) == 0


@pytest.mark.parametrize("column", ["label", "fits"])
def test_a_figure_names_a_missing_column(column):
    from lt2theory.report.figures import cost_by_length

    frame = pd.DataFrame(
        {"label": ["a"], "heading": ["x"], "length": [8], "tokens_per_second": [1.0], "fits": True}
    )
    with pytest.raises(ValueError, match=f"column '{column}' is missing"):
        cost_by_length(frame.drop(columns=column))
