"""`lt2 analyze` of a language model: instruments of training and measurements of its end."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from lt2theory.cli import main
from lt2theory.experiments.analyze import analyze_run
from lt2theory.models import LoopedConfig
from lt2theory.training.lm import Execution, LmConfig, StabilityConfig, run_lm
from lt2theory.training.text import CorpusConfig, prepare


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of four steps, and its corpus."""
    root = tmp_path_factory.mktemp("lm")
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcd "), size)) for size in rng.integers(40, 90, 40)]
    (root / "source.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    prepare(CorpusConfig(sources=(str(root / "source.jsonl"),), eval_share=0.2), root / "tokens")
    config = LmConfig(
        model=LoopedConfig(
            vocab_size=261, width=16, num_layers=2, num_loops=2, num_heads=2, pattern="gdn,full"
        ),
        steps=4,
        batch_size=2,
        sequence_length=24,
        evaluate_every=0,
        stability=StabilityConfig(measure_every=2),
        label="hybrid",
    )
    run_lm(config, Execution(), data=root / "tokens", folder=root / "run")
    return root


def test_tables_and_report(trained, tmp_path, capsys):
    out = tmp_path / "a.json"
    argv = ["analyze", str(trained / "run"), "--instances", "3", "--json", str(out)]
    assert main(argv) == 0
    report = trained / "run" / "analysis" / "report.html"
    assert capsys.readouterr().out.splitlines()[-1] == str(report)
    facts = json.loads(out.read_text())
    assert (facts["task"], facts["instances"], facts["length"]) == ("text", 3, 24)
    titles = list(facts["findings"])
    assert titles[0] == "Instruments during training"
    assert any("Saw-tooth" in title for title in titles)
    found = facts["findings"][titles[0]]
    assert "at step 2" in found[0]
    assert "at step 4" in found[0]
    tables = {path.stem: pd.read_parquet(path) for path in report.parent.glob("*.parquet")}
    assert {"residuals", "first_token", "transitions", "weight_gradients"} <= tables.keys()
    assert set(tables["residuals"][["loop", "layer"]].itertuples(index=False, name=None)) == {
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    }
    page = report.read_text(encoding="utf-8")
    assert "3 held-out windows of text, 24 tokens each" in page
    assert page.count("<img") >= 5


def test_refusals(trained, tmp_path):
    with pytest.raises(ValueError, match=r"stage: 8 is not allowed here \(of language models"):
        analyze_run(trained / "run", stage=8)
    shutil.copytree(trained / "run", tmp_path / "run")
    note = tmp_path / "run" / "corpus.json"
    content = json.loads(note.read_text()) | {"folder": str(tmp_path / "gone")}
    note.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"data: the corpus is no longer at .*gone; give its"):
        analyze_run(tmp_path / "run")
    analysis = analyze_run(tmp_path / "run", data=trained / "tokens", instances=1)
    assert analysis.facts["instances"] == 1
