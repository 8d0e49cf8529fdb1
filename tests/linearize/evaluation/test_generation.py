"""Repetition, diversity and loops of texts, and the probe that compares models by them."""

from collections.abc import Callable

import numpy as np
import pytest

from lt2theory.linearize.evaluation import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.generation import distinct, loop_period, prompts_of, text_rows

MakePair = Callable[..., Pair]


def naive_distinct(tokens: list[int], gram: int) -> float:
    runs = [tuple(tokens[i : i + gram]) for i in range(len(tokens) - gram + 1)]
    return len(set(runs)) / len(runs)


@pytest.mark.parametrize("gram", [1, 2, 4])
def test_distinct_is_its_definition(gram: int) -> None:
    rng = np.random.Generator(np.random.Philox(0))
    for length in (5, 17, 60):
        tokens = rng.integers(0, 4, length)
        assert distinct(tokens, gram) == naive_distinct(tokens.tolist(), gram)
    assert distinct(np.array([3]), 2) == 1.0
    with pytest.raises(ValueError, match="gram: 0 must be >= 1"):
        distinct(np.array([3]), 0)


def test_loops_are_found_at_the_end() -> None:
    rng = np.random.Generator(np.random.Philox(1))
    start = rng.permutation(500)[:40]
    assert loop_period(start) == 0
    for passage in ([7], [7, 8], [7, 8, 7, 9, 1]):
        text = np.concatenate([start, np.tile(passage, 16)])
        assert loop_period(text) == len(passage)
        assert loop_period(np.concatenate([text, start])) == 0  # it has come out of the loop
        assert loop_period(text[:-1]) == len(passage)  # cut within a passage
    assert loop_period(np.array([1, 2, 5, 5, 5])) == 0  # too short to be one
    assert loop_period(np.array([5, 5, 5]), least=3) == 1
    assert loop_period(np.array([], dtype=np.int64)) == 0
    with pytest.raises(ValueError, match="repeats: 1 must be >= 2"):
        loop_period(start, repeats=1)


def test_the_probe_shows_the_text_itself_beside_the_models(make_pair: MakePair) -> None:
    pair = make_pair()
    config = EvaluationConfig(texts=3, prompt=9, new_tokens=24)
    rows = {(row.model, row.kind, row.metric): row for row in text_rows(pair, config)}
    ways = {key[:2] for key in rows}
    assert ways == {
        ("text", "original"),
        *((model, way) for model in ("teacher", "student") for way in ("greedy", "drawn")),
    }
    assert rows["text", "original", "looping"].value == 0.0
    assert rows["text", "original", "repetition"].value < 0.3
    assert all(row.n == 3 for row in rows.values())
    again = {(row.model, row.kind, row.metric): row for row in text_rows(pair, config)}
    assert rows == again
    with pytest.raises(ValueError, match="prompt: 9000 with new_tokens 24"):
        prompts_of(pair, prompt=9000, new_tokens=24, count=1)
