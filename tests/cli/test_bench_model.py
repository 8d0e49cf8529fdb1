"""`lt2 bench model`: a preset on the screen and as JSON."""

import json
from pathlib import Path

import pytest

from lt2theory.bench.model import COPIES
from lt2theory.bench.train_step import PRODUCTS
from lt2theory.cli import main
from lt2theory.cli.bench_model import ModelOptions


def test_a_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "model.json"
    argv = ["byte-1m-gdn", "--contexts", "128", "256", "--batch", "2", "--json", str(out)]
    assert main(["bench", "model", *argv]) == 0
    text = capsys.readouterr().out
    content = json.loads(out.read_text(encoding="utf-8"))
    assert content["preset"] == "byte-1m-gdn"
    assert [row["context"] for row in content["rows"]] == [128, 256]
    assert f"{content['parameters']['total']:,}" in text
    assert text.endswith("floors at 4.28 TB/s and 784 TFLOP/s\n")


def test_the_rates_are_those_of_the_benchmarks() -> None:
    """The options are read without torch, so that their defaults stand there as numbers."""
    options = ModelOptions(preset="any")
    assert (options.copies, options.products) == (COPIES, PRODUCTS)


def test_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "model", "all"]) == 0
    text = capsys.readouterr().out
    assert "ouro-1.4b" in text
    assert "toy-gdn" in text


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("", "PRESET: no value given (required)"),
        ("ouro", "preset: 'ouro' is not allowed, perhaps you meant ouro-2.6b (one of "),
        ("toy-gdn --batch 0", "--batch: 0 is not allowed"),
        ("toy-gdn --contexts 0", "--contexts: (0,) is not allowed (numbers >= 1)"),
        ("toy-gdn --copies 0", "--copies: 0.0 is not allowed"),
        ("toy-gdn --json no/x.json", "--json: 'no/x.json' cannot be written (no folder no)"),
    ],
)
def test_refusals(argv: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "model", *argv.split()]) == 2
    assert capsys.readouterr().err.startswith(f"lt2: error: {line}")
