"""Cloze: which words are asked, and what the floor is."""

from collections import Counter
from collections.abc import Callable

import pytest

from lt2theory.linearize.evaluation import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.cloze import KINDS, cloze_rows, cloze_texts
from lt2theory.training.text import ByteTokenizer, TokenStream

MakePair = Callable[..., Pair]


def test_words_stand_in_the_text_and_kinds_are_right(stream: TokenStream) -> None:
    texts = cloze_texts(stream, ByteTokenizer(), context=100, size=15, seed=2)
    held_out = b"".join(
        ByteTokenizer().decode(stream.document(i)[0]) for i in range(stream.num_documents)
    )
    counts = Counter(one.kind for one in texts)
    assert set(counts) == set(KINDS)
    assert max(counts.values()) <= 15
    for one in texts:
        assert 32 <= len(one.context) <= 100
        assert len(one.word) >= 4
        assert one.word.isalpha()
        assert one.context + b" " + one.word in held_out
        words = one.context.replace(b"-", b" ").split()
        if one.kind == "new":
            assert one.word not in words
    assert texts == cloze_texts(stream, ByteTokenizer(), context=100, size=15, seed=2)
    assert texts != cloze_texts(stream, ByteTokenizer(), context=100, size=15, seed=3)


def test_rows_have_the_commonest_word_as_floor(make_pair: MakePair) -> None:
    pair = make_pair()
    config = EvaluationConfig(clozes=12, cloze_context=64)
    rows = cloze_rows(pair, config)
    found = [row for row in rows if row.metric == "found"]
    assert [(row.kind, row.model) for row in found] == [
        (kind, model) for kind in KINDS for model in ("teacher", "student")
    ]
    texts = cloze_texts(pair.stream, pair.tokenizer, context=64, size=12, seed=0)
    for row in found:
        words = [one.word for one in texts if one.kind == row.kind]
        assert row.n == len(words)
        assert row.floor == max(Counter(words).values()) / len(words)
        assert row.value == 0.0  # an untrained model


def test_text_without_words_is_refused(make_pair: MakePair) -> None:
    pair = make_pair()
    with pytest.raises(ValueError, match="split: 'eval' is not allowed for cloze"):
        cloze_texts(pair.stream, pair.tokenizer, context=10_000_000, size=1, seed=0)
