"""Recovery by documents: against a plain loop over whole documents, and its intervals."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lt2theory.linearize.evaluation import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.intervals import mean_interval, ratio_interval, share_interval
from lt2theory.linearize.evaluation.recovery import document_sums, recovery_rows
from lt2theory.linearize.evaluation.table import COLUMNS, measured_table

MakePair = Callable[..., Pair]


def plainly(pair: Pair, row: int) -> dict[str, float]:
    """Sums of one document that is read at once."""
    ids = torch.from_numpy(pair.stream.document(row)[0].astype(np.int64))[None]
    with torch.no_grad():
        p, q = (model(ids)[0, :-1].log_softmax(-1) for model in (pair.teacher, pair.student))
        loops = [
            [m.read_out(h)[0, :-1].log_softmax(-1) for h in m.read_loops(ids)]
            for m in (pair.teacher, pair.student)
        ]
    first, second = loops[0][0], loops[1][0]
    return {
        "kl": float((p.exp() * (p - q)).sum()),
        "first": float((first.exp() * (first - second)).sum()),
        "student": float(F.nll_loss(q, ids[0, 1:], reduction="sum")),
        "teacher": float(F.nll_loss(p, ids[0, 1:], reduction="sum")),
        "agreement": float((p.argmax(-1) == q.argmax(-1)).sum()),
    }


@pytest.mark.parametrize("chunk", [1, 13, None])
def test_sums_are_those_of_whole_documents(chunk: int | None, make_pair: MakePair) -> None:
    pair = make_pair()
    found = document_sums(pair, length=4096, documents=3, chunk=chunk)
    for row in range(3):
        expected = plainly(pair, row)
        for name in ("kl", "student", "teacher", "agreement"):
            assert getattr(found, name)[row] == pytest.approx(expected[name], rel=1e-9)
        assert found.kl_by_loop[0, row] == pytest.approx(expected["first"], rel=1e-9)
        assert found.kl_by_loop[1, row] == found.kl[row]
        assert found.tokens[row] == len(pair.stream.document(row)[0]) - 1
        assert found.bytes[row] == pair.stream.document(row)[1]


def test_every_token_is_counted_once_in_short_windows(make_pair: MakePair) -> None:
    pair = make_pair()
    whole = document_sums(pair, length=4096, documents=4)
    short = document_sums(pair, length=37, documents=4)
    assert (short.tokens == whole.tokens).all()
    assert not np.allclose(short.kl, whole.kl, rtol=1e-6)


def test_a_teacher_is_its_own_student(make_pair: MakePair) -> None:
    pair = make_pair("full")
    rows = {
        (row.model, row.metric, row.loop): row
        for row in recovery_rows(pair, EvaluationConfig(documents=4, length=64))
    }
    assert rows["pair", "kl", None].value == rows["pair", "loss_gap", None].value == 0.0
    assert rows["pair", "agreement", None].value == 1.0
    one, other = rows["teacher", "bits_per_byte", None], rows["student", "bits_per_byte", None]
    assert one.value == other.value
    assert one.low < one.value < one.high  # type: ignore[operator]
    loss, perplexity = rows["teacher", "loss", None], rows["teacher", "perplexity", None]
    assert perplexity.value == pytest.approx(np.exp(loss.value))
    table = measured_table(rows.values())
    assert list(table.columns) == list(COLUMNS)
    assert {str(table[name].dtype) for name in table} == {"string", "Int64", "Float64"}


def test_intervals_are_over_documents_not_tokens() -> None:
    """Tokens of a document depend on one another: an interval over them would be too narrow."""
    rng = np.random.Generator(np.random.Philox(3))
    covered = by_tokens = 0
    for trial in range(200):
        sizes = rng.integers(20, 60, 40)
        means = 2.0 + rng.normal(size=40)  # one a document, shared by all its tokens
        one = ratio_interval(sizes * means, sizes, seed=trial)
        covered += one.low <= 2.0 <= one.high
        by_tokens += abs(one.value - 2.0) <= 1.96 / np.sqrt(sizes.sum())
    assert 172 <= covered <= 199
    assert by_tokens < 80
    same = ratio_interval(np.array([2.0, 4.0, 6.0]), np.array([1, 2, 3]))
    assert (same.value, same.low, same.high, same.n) == (2.0, 2.0, 2.0, 3)
    assert np.isnan(mean_interval(np.array([1.0])).low)
    with pytest.raises(ValueError, match="sizes: 0 of 0 documents"):
        ratio_interval(np.array([]), np.array([]))
    none = share_interval(np.zeros(20))
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(0.161, abs=0.002)
