"""Corpora of a few documents."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lt2theory.training.text import Corpus, CorpusConfig, prepare


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def make_corpus(tmp_path: Path) -> MakeCorpus:
    """Prepare a corpus of the texts; all of it for training, unless the options say otherwise."""
    made = 0

    def make(texts: Sequence[str], *, workers: int = 0, **options: Any) -> Corpus:
        nonlocal made
        source, folder = tmp_path / f"source{made}.jsonl", tmp_path / f"corpus{made}"
        made += 1
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        shares = {"eval_share": 0.0, "test_share": 0.0}
        prepare(CorpusConfig(sources=(str(source),), **shares | options), folder, workers=workers)
        return Corpus(folder)

    return make


@pytest.fixture(scope="session")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small Hugging Face tokenizer (byte-level BPE), trained here."""
    tokenizers = pytest.importorskip("tokenizers")
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["the cat and the dog and the bird"] * 9, trainer)
    folder = tmp_path_factory.mktemp("bpe")
    backend.save(str(folder / "tokenizer.json"))
    marks = {"bos_token": "<s>", "eos_token": {"content": "</s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(marks))
    return folder
