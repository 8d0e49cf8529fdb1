"""The circular stream of a split: what it reads is the documents one after the other."""

import numpy as np
import pytest

from lt2theory.training.text import Corpus
from tests.training.text.conftest import MakeCorpus

TEXTS = ["a", "bcdefgh", "", "ij", "k" * 30, "lmno"]


def joined(corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """All tokens, and where documents begin, one document at a time."""
    stream = corpus.stream("train")
    documents = [stream.document(index)[0] for index in range(stream.num_documents)]
    begins = [np.arange(len(document)) == 0 for document in documents]
    return np.concatenate(documents), np.concatenate(begins)


@pytest.mark.parametrize("shard_tokens", [1, 8, 20, 1000])
def test_read_from_everywhere(shard_tokens: int, make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(TEXTS, shard_tokens=shard_tokens)
    stream = corpus.stream("train")
    tokens, begins = joined(corpus)
    count = len(tokens)
    assert stream.num_tokens == count == 44 + 2 * 5
    assert (tokens[begins] == 256).all()
    twice, both = np.tile(tokens, 3), np.tile(begins, 3)
    for length in (0, 1, 7, count, count + 1):
        found, marks = stream.read(np.arange(count), length)
        assert found.dtype == np.int64
        for start in range(count):
            assert np.array_equal(found[start], twice[start : start + length])
            assert np.array_equal(marks[start], both[start : start + length])


def test_refusals(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(TEXTS)
    stream = corpus.stream("train")
    for start in (-1, stream.num_tokens):
        with pytest.raises(ValueError, match=r"starts: must lie in 0..53"):
            stream.read(np.array([start]), 1)
    with pytest.raises(ValueError, match=r"count: 56 must lie in 0..55"):
        stream.read(np.array([0]), 56)
    with pytest.raises(ValueError, match=r"document: 5 of split train must lie in 0..4"):
        stream.document(5)
    with pytest.raises(ValueError, match=r"split: 'dev' is not allowed \(choose from train, eval,"):
        corpus.stream("dev")
    with pytest.raises(ValueError, match=r"split: 'eval' of .* holds no document"):
        corpus.stream("eval")
