"""`lt2 train`: presets and overrides, resuming, refusals."""

import json
import os
import signal
from pathlib import Path

import pytest

from lt2theory.cli import main
from lt2theory.training.lm import LmConfig
from lt2theory.training.lm.step import LmStepper

Output = pytest.CaptureFixture[str]

TINY = """
    --preset toy-gdn --model.vocab-size 258 --steps 3 --batch-size 2 --sequence-length 32
    --evaluate-every 3 --evaluation-documents 1 --threads 1
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "corpus"
    options = ["--sources", "excerpt", "--piece-bytes", "500", "--out", str(folder)]
    assert main(["data", "prepare", *options]) == 0
    return folder


def run(data: Path, *argv: str) -> int:
    """Run the verb on a tiny model."""
    return main(["train", "--data", str(data), *TINY.split(), *argv])


def test_a_run_leaves_its_summary_and_is_not_done_twice(
    data: Path, tmp_path: Path, capsys: Output
) -> None:
    out, copy = tmp_path / "run", tmp_path / "copy.json"
    assert run(data, "--out", str(out), "--json", str(copy), "--model.num-loops", "3") == 0
    first = capsys.readouterr().out
    assert first.startswith(f"{out}: finished, 3 steps, 192 tokens, ")
    assert "bits per byte, 1 documents" in first
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads(copy.read_text()) == summary
    config = LmConfig.model_validate(json.loads((out / "config.json").read_text())["config"])
    assert (config.model.num_loops, config.model.pattern) == (3, "gdn")
    assert json.loads((out / "corpus.json").read_text())["folder"] == str(data)
    assert run(data, "--out", str(out), "--model.num-loops=3") == 0
    assert capsys.readouterr().out == first.replace(f"{out}: ", f"{out}: done before: ", 1)
    assert run(data, "--out", str(out)) == 2
    refused = capsys.readouterr().err
    assert "run of another configuration" in refused
    assert refused.endswith("give --overwrite\n")


def test_without_arguments_the_corpus_is_missed(capsys: Output) -> None:
    assert main(["train"]) == 2
    assert "lt2: error: --data: no value given (required)" in capsys.readouterr().err


def test_a_recipe_gives_the_defaults(data: Path, tmp_path: Path, capsys: Output) -> None:
    out, options = tmp_path / "run", ["train", "--data", str(data), *TINY.split()]
    changed = ["--recipe", "byte-10m-8min", "--device", "cpu", "--dtype", "float32"]
    assert main([*options, *changed, "--out", str(out)]) == 0
    config = LmConfig.model_validate(json.loads((out / "config.json").read_text())["config"])
    assert (config.label, config.optimiser.schedule, config.steps) == ("byte-10m-8min", "wsd", 3)
    assert config.model.pattern == "gdn", "the preset replaces the recipe's model"
    assert main([*options, "--recipe", "none"]) == 2
    assert "recipe: 'none' is not allowed (choose from byte-10m-8min" in capsys.readouterr().err


def test_sigterm_ends_with_130_and_the_same_command_goes_on(
    data: Path, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    apply = LmStepper.apply

    def apply_and_signal(self: LmStepper, rate: float) -> None:
        apply(self, rate)
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(LmStepper, "apply", apply_and_signal)
        assert run(data, "--out", str(out)) == 130
    assert "the same command continues the run" in capsys.readouterr().err
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["000001-step-1"]
    assert run(data, "--out", str(out)) == 0


REFUSED = {
    "--steps": (["--steps", "None"], "--steps: got None with tokens None; give one of the two"),
    "--preset": (
        ["--preset", "toy-gnd"],
        "preset: 'toy-gnd' is not allowed, perhaps you meant toy-gdn (one of",
    ),
    "vocabulary": (["--model.vocab-size", "99"], "--model.vocab-size: 99 must be at least the 258"),
    "--batch-size": (["--batch-size", "0"], "--batch-size: 0 is not allowed (should be greater"),
    "--optimiser": (["--optimiser.name", "sgd"], "--optimiser.name: 'sgd' is not allowed"),
    "--data": (["--data", "nowhere"], "nowhere is no prepared corpus"),
    "unknown": (["--model.num-lops", "3"], "--model.num-lops: no such option, perhaps you meant"),
    "--sinks": (["--sinks", "wandb"], "sinks: 'wandb' needs the package wandb"),
    "--device": (["--device", "cuda"], "device: got 'cuda', but torch sees no CUDA device"),
    "--sequence-length": (
        ["--sequence-length", "90000"],
        "--sequence-length: 90000 must be at most",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_usage_is_one_line(
    case: str, data: Path, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setitem(__import__("sys").modules, "wandb", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    argv, message = REFUSED[case]
    assert run(data, "--out", str(tmp_path / "run"), *argv) == 2
    said = capsys.readouterr().err
    assert said.startswith("lt2: error: ")
    assert message in said
    assert said.count("\n") == 1


def test_help_explains_every_option(capsys: Output) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--help"])
    assert stopped.value.code == 0
    words = capsys.readouterr().out
    for flag in ("--tokens", "--parallel", "--optimiser.decay-share", "--stability.spike-action"):
        assert flag in words
