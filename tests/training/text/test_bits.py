"""Bits per byte: one token at a time gives the same sums."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training import Runtime
from lt2theory.training.text import TokenStream, bits_per_byte
from lt2theory.training.text import bits as bits_module
from tests.training.text.conftest import MakeCorpus

CPU = Runtime(torch.device("cpu"))
TEXTS = ["a", "some text of a middling length", "xyz" * 9, "日本", "the end"]


def small_model(vocab_size: int = 258, pattern: str = "gdn") -> LoopedModel:
    config = LoopedConfig(
        vocab_size=vocab_size,
        width=16,
        num_heads=2,
        num_layers=1 + pattern.count(","),
        pattern=pattern,
        init_std=0.3,
    )
    return LoopedModel(config).double()


def bits_naive(model: LoopedModel, stream: TokenStream, length: int, context: int) -> list[float]:
    """Every token from the window that is its own, one call each."""
    found = []
    for row in range(stream.num_documents):
        tokens = stream.document(row)[0].astype(np.int64)
        total, start = 0.0, 0
        for place in range(1, len(tokens)):
            if place - start > length:
                start = place - context
            with torch.no_grad():
                logits = model(torch.from_numpy(tokens[start:place])[None])[0, -1]
            total -= float(logits.log_softmax(-1)[tokens[place]]) / math.log(2)
        found.append(total)
    return found


@pytest.mark.parametrize(
    ("pattern", "length", "context"),
    [("gdn", 1, 1), ("gdn", 7, 3), ("full", 7, 7), ("gdn,full", 16, None), ("full", 1000, None)],
)
def test_against_one_token_at_a_time(
    pattern: str, length: int, context: int | None, make_corpus: MakeCorpus
) -> None:
    stream = make_corpus(TEXTS).stream("train")
    model = small_model(pattern=pattern)
    found = bits_per_byte(model, stream, CPU, length=length, context=context)
    overlap = max(1, length // 2) if context is None else context
    expected = bits_naive(model, stream, length, overlap)
    np.testing.assert_allclose(found.document_bits, expected, rtol=1e-10)
    sizes = [len(text.encode()) for text in TEXTS]
    assert found.document_bytes.tolist() == sizes
    assert found.tokens == sum(sizes) + len(sizes)
    assert found.value == pytest.approx(sum(expected) / sum(sizes))
    assert found.bits_per_token == pytest.approx(sum(expected) / found.tokens)
    assert (found.length, found.context) == (length, overlap)


def test_batching_changes_nothing(make_corpus: MakeCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = make_corpus(TEXTS).stream("train")
    model = small_model()
    together = bits_per_byte(model, stream, CPU, length=20)
    monkeypatch.setattr(bits_module, "TOKENS_AT_ONCE", {"cpu": 1})
    alone = bits_per_byte(model, stream, CPU, length=20)
    np.testing.assert_allclose(together.document_bits, alone.document_bits, rtol=1e-10)


def test_a_uniform_model_spends_the_logarithm_of_its_vocabulary(
    make_corpus: MakeCorpus, bpe: Path
) -> None:
    """Whatever the tokenizer, bits are of tokens and bytes of the text."""
    for name in ("bytes", str(bpe)):
        corpus = make_corpus(["the cat and the dog"] * 3, tokenizer=name)
        stream = corpus.stream("train")
        model = small_model(512)
        with torch.no_grad():
            model.head.weight.zero_()
        found = bits_per_byte(model, stream, CPU, length=8)
        assert found.tokens == stream.num_tokens - 3
        assert found.value == pytest.approx(9 * found.tokens / (3 * 19))
        assert found.bits_per_token == pytest.approx(9)


def test_first_documents_only(make_corpus: MakeCorpus) -> None:
    stream = make_corpus(TEXTS).stream("train")
    model = small_model().train()
    whole = bits_per_byte(model, stream, CPU, length=20)
    part = bits_per_byte(model, stream, CPU, length=20, documents=2)
    np.testing.assert_allclose(part.document_bits, whole.document_bits[:2], rtol=1e-10)
    assert model.training


def test_refusals(make_corpus: MakeCorpus) -> None:
    stream = make_corpus(TEXTS).stream("train")
    model = small_model()
    with pytest.raises(ValueError, match=r"context: 9 must lie in 1..8 \(length\)"):
        bits_per_byte(model, stream, CPU, length=8, context=9)
    with pytest.raises(ValueError, match="length: 0 must be >= 1"):
        bits_per_byte(model, stream, CPU, length=0)
    with pytest.raises(ValueError, match="documents: 0 must be >= 1 or None"):
        bits_per_byte(model, stream, CPU, length=8, documents=0)
    with pytest.raises(ValueError, match="vocab_size: 256 of the model must be at least the 258"):
        bits_per_byte(small_model(256), stream, CPU, length=8)
