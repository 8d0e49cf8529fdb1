"""The baseline of `xz -9`: the size that the tool itself writes."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lt2theory.training.text import xz as xz_module
from lt2theory.training.text import xz_baseline, xz_bits_per_byte
from tests.training.text.conftest import MakeCorpus

CONSTITUTION = Path(xz_module.__file__).parent / "excerpt" / "constitution.txt"


@pytest.fixture(autouse=True)
def small_dictionary(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Preset 9 takes 0.7 GB; 4 has the same method with less, and all but one test need no more."""
    if "tool" not in request.node.name:
        monkeypatch.setattr(xz_module, "PRESET", 4)


@pytest.mark.skipif(shutil.which("xz") is None, reason="needs the tool xz")
def test_the_tool_agrees() -> None:
    text = CONSTITUTION.read_bytes()
    done = subprocess.run(["xz", "-9", "-c", "-T1"], input=text, capture_output=True, check=True)
    assert xz_bits_per_byte(text) == 8 * len(done.stdout) / len(text)


def test_noise_costs_eight_bits_and_repetition_none() -> None:
    noise = np.random.default_rng(0).bytes(20000)
    assert 8 < xz_bits_per_byte(noise) < 8.1
    assert xz_bits_per_byte(noise, training=noise) < 0.2
    text = CONSTITUTION.read_bytes()
    half = len(text) // 2
    assert xz_bits_per_byte(text[half:], training=text[:half]) < xz_bits_per_byte(text[half:])


def test_of_a_corpus(make_corpus: MakeCorpus) -> None:
    paragraphs = CONSTITUTION.read_text().split("\n\n")
    corpus = make_corpus(paragraphs, eval_share=0.2)
    found = xz_baseline(corpus)
    streams = {split: corpus.stream(split) for split in ("train", "eval")}
    held_out, training = (
        b"".join(bytes(s.document(i)[0][1:-1].astype(np.uint8)) for i in range(s.num_documents))
        for s in (streams["eval"], streams["train"])
    )
    assert found.held_out_bytes == len(held_out) == streams["eval"].num_bytes
    assert found.training_bytes == len(training)
    assert found.alone == xz_bits_per_byte(held_out)
    assert found.primed == xz_bits_per_byte(held_out, training=training) < found.alone


def test_only_the_last_training_text_counts(
    make_corpus: MakeCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = make_corpus([f"text {n}" for n in range(100)], eval_share=0.3)
    monkeypatch.setattr(xz_module, "WINDOW", 50)
    assert xz_baseline(corpus).training_bytes == 50


def test_refusals(make_corpus: MakeCorpus) -> None:
    with pytest.raises(ValueError, match="held_out: must not be empty"):
        xz_bits_per_byte(b"")
    corpus = make_corpus(["a"])
    with pytest.raises(ValueError, match="holds no document"):
        xz_baseline(corpus)
    tokenizer = corpus.manifest.tokenizer.model_copy(update={"lossless": False})
    corpus.manifest = corpus.manifest.model_copy(update={"tokenizer": tokenizer})
    with pytest.raises(ValueError, match="tokenizer: 'bytes' does not give the text back"):
        xz_baseline(corpus)
