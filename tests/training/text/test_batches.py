"""Batches by step: each window once an epoch, the same for any number of ranks, at any step."""

import subprocess
import sys

import numpy as np
import pytest

from lt2theory.training.text import NO_TARGET, Corpus, TextBatch, TextBatches
from tests.training.text.conftest import MakeCorpus

TEXTS = [f"document {n}: " + "text " * (n % 9) for n in range(40)]


def batches(corpus: Corpus, **changes: int) -> TextBatches:
    options = {"length": 13, "batch_size": 6, "seed": 3}
    return TextBatches(corpus.stream("train"), **options | changes)


def equal(one: TextBatch, other: TextBatch) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("shard_tokens", [1, 100, 1 << 20])
def test_against_the_documents(shard_tokens: int, make_corpus: MakeCorpus) -> None:
    """Targets are the next tokens of the same document; a change of `documents` is a boundary."""
    corpus = make_corpus(TEXTS, shard_tokens=shard_tokens)
    stream = corpus.stream("train")
    documents = [stream.document(i)[0].tolist() for i in range(stream.num_documents)]
    whole = {tuple(document) for document in documents}
    text = ",".join(",".join(map(str, document)) for document in documents)
    text = f",{text},{text},"
    for step in range(20):
        inputs, targets, ids = batches(corpus).batch(step)
        assert inputs.shape == targets.shape == ids.shape == (6, 13)
        for row in range(6):
            assert f",{','.join(map(str, inputs[row].tolist()))}," in text
            for number in np.unique(ids[row]):
                inside = ids[row] == number
                assert (np.diff(np.flatnonzero(inside)) == 1).all()
                run, following = inputs[row][inside].tolist(), targets[row][inside].tolist()
                assert following[:-1] == run[1:]
                ends = run[-1] == 257
                assert (following[-1] == NO_TARGET) == ends
                if run[0] == 256 and ends:
                    assert tuple(run) in whole
                assert 256 not in run[1:]
                assert 257 not in run[:-1]


@pytest.mark.parametrize("length", [1, 7, 13, 100])
def test_an_epoch_reads_every_window_once(length: int, make_corpus: MakeCorpus) -> None:
    """Windows of an epoch do not overlap and leave out fewer tokens than one holds."""
    corpus = make_corpus(TEXTS)
    made = batches(corpus, length=length, batch_size=1)
    count = corpus.stream("train").num_tokens
    assert made.num_windows == count // length
    orders = []
    for epoch in range(3):
        steps = np.arange(made.num_windows) + epoch * made.num_windows
        starts = made._starts(steps)
        seen = (starts[:, None] + np.arange(length)).ravel() % count
        assert len(np.unique(seen)) == made.num_windows * length
        assert count - len(np.unique(seen)) < length
        orders.append(starts.tolist())
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 6])
def test_ranks_share_the_batch(num_ranks: int, make_corpus: MakeCorpus) -> None:
    made = batches(make_corpus(TEXTS))
    for step in (0, 5, 1000):
        parts = [made.batch(step, rank=rank, num_ranks=num_ranks) for rank in range(num_ranks)]
        together = TextBatch(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        assert equal(together, made.batch(step))


def test_rows_are_those_of_the_batch(make_corpus: MakeCorpus) -> None:
    made = batches(make_corpus(TEXTS))
    whole, part = made.batch(4), made.rows(4, 2, 5)
    assert equal(part, TextBatch(*(array[2:5] for array in whole)))


def test_batches_straddle_epochs(make_corpus: MakeCorpus) -> None:
    """The batch size only groups windows: the same ones in the same order."""
    corpus = make_corpus(TEXTS)
    one = batches(corpus, batch_size=1)
    many = batches(corpus, batch_size=35)
    assert one.num_windows % 35
    for step in range(4):
        rows = [one.batch(35 * step + row).inputs[0] for row in range(35)]
        assert np.array_equal(many.batch(step).inputs, np.stack(rows))


def test_seeds_differ_and_repeat(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(TEXTS)
    assert equal(batches(corpus).batch(7), batches(corpus).batch(7))
    assert not equal(batches(corpus).batch(7), batches(corpus, seed=4).batch(7))


def test_a_fresh_process_resumes_at_any_step(make_corpus: MakeCorpus) -> None:
    """The same bytes without the steps before, in another interpreter with another hash seed."""
    corpus = make_corpus(TEXTS)
    made = batches(corpus)
    for step in range(12):
        made.batch(step)
    code = (
        "import sys; from lt2theory.training.text import Corpus, TextBatches; "
        f"s = Corpus({str(corpus.folder)!r}).stream('train'); "
        "b = TextBatches(s, length=13, batch_size=6, seed=3).batch(12, rank=1, num_ranks=2); "
        "sys.stdout.buffer.write(b''.join(array.tobytes() for array in b))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    expected = made.batch(12, rank=1, num_ranks=2)
    assert found == b"".join(array.tobytes() for array in expected)


def test_bytes_of_a_batch_are_fixed(make_corpus: MakeCorpus) -> None:
    """A change of these starts would silently change every resumed run."""
    made = batches(make_corpus(TEXTS))
    assert made._starts(np.arange(4)).tolist() == [1, 1328, 14, 677]


def test_one_document_as_long_as_a_window(make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(["abc"])
    inputs, targets, _ = batches(corpus, length=5, batch_size=2).batch(0)
    assert sorted(inputs[0].tolist()) == sorted([256, 97, 98, 99, 257])
    assert (targets == NO_TARGET).sum() == 2
    with pytest.raises(ValueError, match="length: 6 must be at most the 5 tokens of split train"):
        batches(corpus, length=6)


@pytest.mark.parametrize("name", ["length", "batch_size", "seed"])
def test_ranges(name: str, make_corpus: MakeCorpus) -> None:
    corpus = make_corpus(TEXTS)
    with pytest.raises(ValueError, match=f"{name}: -1 must be >= "):
        batches(corpus, **{name: -1})


def test_refusals(make_corpus: MakeCorpus) -> None:
    made = batches(make_corpus(TEXTS))
    with pytest.raises(ValueError, match="num_ranks: 4 must divide the batch_size of 6"):
        made.batch(0, num_ranks=4)
    with pytest.raises(ValueError, match=r"rank: 2 must lie in 0..1"):
        made.batch(0, rank=2, num_ranks=2)
    with pytest.raises(ValueError, match="step: -1 must be >= 0"):
        made.batch(-1)
    with pytest.raises(ValueError, match=r"rows: 3..3 must lie in 0..6"):
        made.rows(0, 3, 3)
    assert made.tokens_per_step == 78
