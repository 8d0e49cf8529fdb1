"""Needles by length in tokens, and associative recall: against plain greedy decoding."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from lt2theory.linearize.evaluation import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.needle import answered, needle_prompts, needle_rows
from lt2theory.linearize.evaluation.recall import recall_ids, recall_rows, recalled
from lt2theory.models import generate
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import ByteTokenizer
from lt2theory.training.text.needles import NEEDLES, needle_texts
from tasks import Batch
from tasks.mqar import Mqar

MakePair = Callable[..., Pair]


@pytest.mark.parametrize("kind", ["number", "word", "hex"])
@pytest.mark.parametrize("length", [256, 301])
def test_texts_are_as_long_as_fits(kind: str, length: int) -> None:
    prompts = needle_prompts(kind, ByteTokenizer(), length=length, size=6, seed=1)  # type: ignore[arg-type]
    sizes = [len(one.context) + len(one.answer) for one in prompts]
    assert max(sizes) <= length
    assert max(sizes) > length - 30
    for one in prompts:
        text, answer = bytes(one.context[1:].astype(np.uint8)), bytes(one.answer.astype(np.uint8))
        assert one.context[0] == ByteTokenizer.begin
        assert text.endswith(b" is")
        assert text.count(answer + b".") == 1
    (plain,) = needle_prompts("word", ByteTokenizer(), length=length, size=1, haystack="random")
    (same,) = needle_prompts("word", ByteTokenizer(), length=length, size=1)
    words = [len(set(bytes(one.context[1:].astype(np.uint8)).split())) for one in (plain, same)]
    assert words[1] < words[0]
    with pytest.raises(ValueError, match="needle_lengths: 40 tokens of 'bytes'"):
        needle_prompts(kind, ByteTokenizer(), length=40, size=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [300, 999, 2500])
def test_few_texts_are_written_to_find_those_that_fit(length: int) -> None:
    """A word more, and one of them no longer fits; that is found without a bisection."""
    texts = 0

    class Counted(ByteTokenizer):
        def encode(self, text: bytes) -> np.ndarray:
            nonlocal texts
            texts += 1
            return super().encode(text)

    def sizes(words: int) -> list[int]:
        made = needle_texts(replace(NEEDLES["number"], haystack="repeated"), stage=words, size=4)
        return [len(one["context"]) + len(one["answer"]) + 2 for one in made]

    prompts = needle_prompts("number", Counted(), length=length, size=4)
    assert texts <= 2 * 4 * 8
    own = [len(one.context) + len(one.answer) for one in prompts]
    words = next(n for n in range(20, length) if sizes(n) == own)
    assert max(own) <= length < max(sizes(words + 1))
    before = texts
    assert needle_prompts("number", Counted(), length=length, size=4) is prompts
    assert texts == before


def test_right_means_that_greedy_decoding_gives_the_value(make_pair: MakePair) -> None:
    """One call on the whole text says what decoding token by token would, padding or not."""
    pair = make_pair()
    prompts = needle_prompts("word", pair.tokenizer, length=256, size=5)
    runtime = Runtime(torch.device("cpu"))
    model = pair.student
    easy = []
    for one in prompts[:3]:  # what the model would say is made the answer
        start = torch.from_numpy(one.context)[None]
        said = generate(model, start, len(one.answer)).tokens[0].numpy()
        easy.append(type(one)(one.context, said))
    wrong = easy[0].answer.copy()
    wrong[-1] = (wrong[-1] + 1) % 256
    mixed = [easy[0], type(easy[0])(easy[0].context, wrong), *easy[1:], *prompts[3:]]
    right, nats = answered(model, mixed, runtime)
    expected = [True, False, True, True]
    for one in prompts[3:]:
        said = generate(model, torch.from_numpy(one.context)[None], len(one.answer)).tokens[0]
        expected.append(bool((said.numpy() == one.answer).all()))
    assert right.tolist() == expected
    whole = torch.from_numpy(np.concatenate([prompts[4].context, prompts[4].answer]))[None]
    with torch.no_grad():
        log_p = model(whole)[0].log_softmax(-1)
    first = len(prompts[4].context)
    costs = [-float(log_p[i - 1, whole[0, i]]) for i in range(first, whole.shape[1])]
    assert nats[-1] == pytest.approx(np.mean(costs), rel=1e-6)


def test_rows_have_floors_and_leave_out_what_is_too_long(make_pair: MakePair) -> None:
    pair = make_pair("gdn", positions="learned", max_length=260)
    config = EvaluationConfig(needle_kinds=("number",), needle_lengths=(256, 300), needles=3)
    rows = needle_rows(pair, config)
    assert {row.length for row in rows} == {256}
    assert [(row.model, row.metric) for row in rows] == [
        ("teacher", "found"),
        ("teacher", "answer_nats"),
        ("student", "found"),
        ("student", "answer_nats"),
    ]
    assert rows[0].floor == 1e-7
    assert rows[0].n == 3
    assert rows[0].high == pytest.approx(0.56, abs=0.01)  # none of three proves little


def test_recall_counts_queries(make_pair: MakePair) -> None:
    pair = make_pair()
    ids = recall_ids(258, 0)
    assert len(set(ids.tolist())) == len(ids) == 128
    task = Mqar(vocab=len(ids))
    batch = task.batch(stage=4, split="test", size=6)
    runtime = Runtime(torch.device("cpu"))
    with torch.no_grad():
        answers = pair.student(torch.from_numpy(ids[batch.inputs])).argmax(-1).numpy()
    # The model's own answers are made the labels of the first rows: those are right.
    places = {int(token): place for place, token in enumerate(ids)}
    targets = batch.targets.copy()
    for row in range(6):
        for t in np.flatnonzero(batch.mask[row]):
            if row < 3 and int(answers[row, t]) in places:
                targets[row, t] = places[int(answers[row, t])]
    shares, among = recalled(pair.student, Batch(batch.inputs, targets, batch.mask), ids, runtime)
    expected = (ids[targets.clip(min=0)] == answers) & batch.mask
    assert shares == pytest.approx(expected.sum(1) / batch.mask.sum(1))
    assert ((among >= 0) & (among <= 1)).all()
    rows = recall_rows(pair, EvaluationConfig(pairs=(4, 1000), recalls=8))
    assert len(rows) == 4  # 1000 pairs have no room
    assert rows[0].floor == pytest.approx(0.25)  # some value of the context
    with pytest.raises(ValueError, match="vocab_size: 5 must be >= 8"):
        recall_ids(5, 0)
