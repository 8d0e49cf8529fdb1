"""A run beside xz, its texts beside recomputation, and its losses beside another's."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

from lt2theory.experiments import text_checks
from lt2theory.experiments.text_checks import check_run, losses_compared, texts_by_three_ways
from lt2theory.models import LoopedConfig, LoopedModel, at_depth
from lt2theory.training.lm import Execution, LmConfig, run_lm
from lt2theory.training.text import CorpusConfig, prepare

MODEL = LoopedConfig(
    vocab_size=258, pattern="gdn,full", width=16, num_loops=2, num_heads=2, init_std=0.4
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps, and a copy of it that went on from the second with other windows."""
    root = tmp_path_factory.mktemp("checks")
    sources = CorpusConfig(sources=("excerpt",), piece_bytes=400, eval_share=0.1, test_share=0.1)
    prepare(sources, root / "tokens")
    config = LmConfig(
        model=MODEL, steps=4, batch_size=2, sequence_length=32, log_every=1, evaluate_every=2
    )
    execution = Execution(checkpoint_every=2)
    run_lm(config, execution, data=root / "tokens", folder=root / "run")
    shutil.copytree(root / "run", root / "two")
    (root / "two" / "summary.json").unlink()
    newest = max((root / "two" / "checkpoints").iterdir())
    shutil.rmtree(newest)
    parts = Execution(micro_batch_size=1)
    run_lm(config, parts, data=root / "tokens", folder=root / "two")
    return root / "run"


def test_losses_after_the_checkpoint_are_compared(run: Path) -> None:
    found = losses_compared(run, run.parent / "two")
    assert found["from_step"] >= 2
    steps = [row["step"] for row in found["steps"]]
    assert steps == list(range(found["from_step"] + 1, 5))
    assert all(row["relative"] < 1e-5 for row in found["steps"])
    lines = (run.parent / "two" / "metrics.jsonl").read_text().splitlines()
    other = run.parent / "other"
    shutil.copytree(run.parent / "two", other)
    changed = [json.loads(line) for line in lines]
    for line in changed:
        if line["step"] > 2 and "loss" in line["metrics"]:
            line["metrics"]["loss"] *= 1.5
    (other / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))
    found = losses_compared(run, other)
    assert found["from_step"] == 2
    assert [row["step"] for row in found["steps"]] == [3, 4]
    assert all(row["relative"] == pytest.approx(0.5, rel=1e-3) for row in found["steps"])
    assert [row["step"] for row in found["bits_per_byte"]] == [4]


def test_texts_are_told_apart() -> None:
    model = LoopedModel(MODEL, generator=torch.Generator().manual_seed(1)).double().eval()
    prompts = torch.randint(258, (2, 9), generator=torch.Generator().manual_seed(0))
    found = texts_by_three_ways(model, prompts, 8)
    assert (found["rows"], found["new_tokens"], found["decoder"], found["cache"]) == (2, 8, 1, 1)
    assert 0 < found["least_margin"] < 10


def test_a_wrong_text_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = LoopedModel(MODEL, generator=torch.Generator().manual_seed(1)).double().eval()
    prompts = torch.randint(258, (2, 9), generator=torch.Generator().manual_seed(0))
    whole = text_checks.generate

    def shallow(own: LoopedModel, *arguments: object, **named: object) -> object:
        return whole(at_depth(own, 1), *arguments, **named)

    monkeypatch.setattr(text_checks, "generate", shallow)
    found = texts_by_three_ways(model, prompts, 8)
    assert found["decoder"] < 1


def test_everything_together(run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "checks.json"
    argv = [str(run), "--json", str(out), "--other", str(run.parent / "two"), "--new-tokens", "4"]
    monkeypatch.setattr(sys, "argv", ["text_checks", *argv])
    monkeypatch.setattr(text_checks, "PROMPT", 16)
    text_checks.main()
    found = json.loads(out.read_text())
    assert set(found) == {"held_out", "xz", "texts", "processes"}
    summary = json.loads((run / "summary.json").read_text())
    told = found["held_out"]["eval"]["bits_per_byte"]
    assert told == pytest.approx(summary["held_out"]["bits_per_byte"], rel=1e-6)
    alone, primed = found["xz"].values()
    assert 0 < primed < alone
    assert "processes" not in check_run(run, new_tokens=2)
