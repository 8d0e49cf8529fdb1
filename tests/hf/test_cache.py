"""The cache's rows and lengths, and the masks that go with it."""

import copy

import pytest
import torch

from lt2theory.hf import LoopedLTCache
from tests.hf import tiny


def read(
    pattern: str, rows: int = 2, **options: int
) -> tuple[tiny.LoopedLTForCausalLM, LoopedLTCache]:
    model = tiny.model(**tiny.PATTERNS[pattern])
    cache = LoopedLTCache(model.model, rows, **options)
    model(tiny.tokens(rows, 9), cache=cache)
    return model, cache


@pytest.mark.parametrize("pattern", ["gdn", "hybrid"])
def test_rows_are_taken_repeated_and_copied(pattern: str) -> None:
    model, cache = read(pattern)
    twin = copy.deepcopy(cache)
    cache.reorder_cache(torch.tensor([1, 0]))
    cache.batch_repeat_interleave(2)
    cache.batch_select_indices(torch.tensor([0, 2, 3]))
    assert (cache.batch_size, twin.batch_size, twin.model is cache.model) == (3, 2, True)
    ids = tiny.tokens(2, 9)[[1, 0, 0]]
    next_ids = tiny.tokens(3, 4, seed=5)
    whole = model(torch.cat([ids, next_ids], 1)).logits[:, 9:]
    torch.testing.assert_close(model(next_ids, cache=cache).logits, whole)


def test_crop() -> None:
    model, cache = read("full")
    assert cache.is_croppable
    cache.crop(-3)
    cache.crop(0)
    assert (cache.get_seq_length(), len(cache.is_linear)) == (6, 1)
    with pytest.raises(ValueError, match="tokens_to_remove: 4"):
        cache.crop(4)
    _, states = read("gdn")
    assert not states.is_croppable
    with pytest.raises(ValueError, match="snapshot_every"):
        states.crop(-1)
    model, states = read("gdn", snapshot_every=4)
    assert states.is_croppable
    states.crop(-2)
    again = model(tiny.tokens(2, 9)[:, 7:], cache=states).logits
    torch.testing.assert_close(again, model(tiny.tokens(2, 9)).logits[:, 7:])
    states.reset()
    assert (states.get_seq_length(), states.is_initialized) == (0, False)


def test_a_full_cache_refuses() -> None:
    model, cache = read("full", capacity=11)
    assert (cache.get_max_length(), cache.get_mask_sizes(1, 0)) == (11, (10, 0))
    for _ in range(2):
        model(tiny.tokens(2, 1), cache=cache)
    with pytest.raises(ValueError, match="full"):
        model(tiny.tokens(2, 1), cache=cache)
    with pytest.raises(ValueError, match="more than a token a row"):
        model(tiny.tokens(2, 2), cache=cache)


def test_padding_must_stand_outside_the_text() -> None:
    model = tiny.model()
    ids = tiny.tokens(2, 4)
    with pytest.raises(ValueError, match="row 1 has padding between"):
        model(ids, attention_mask=torch.tensor([[1, 1, 1, 1], [1, 0, 1, 1]]))
    with pytest.raises(ValueError, match=r"attention_mask: shape \(2, 3\)"):
        model(ids, attention_mask=torch.ones(2, 3))


def test_a_text_padded_on_the_right_does_not_go_on() -> None:
    model = tiny.model()
    ids, right = tiny.tokens(2, 4), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    cache = model(ids, attention_mask=right).cache
    longer = torch.cat([right, torch.ones(2, 1, dtype=torch.int64)], 1)
    with pytest.raises(ValueError, match="row 1 has padding between"):
        model(ids[:, :1], attention_mask=longer, cache=cache)
    with pytest.raises(ValueError, match="shape None"):
        model(ids[:, :1], cache=cache)


def test_padding_does_not_begin_later() -> None:
    model = tiny.model()
    ids = tiny.tokens(2, 4)
    cache = model(ids).cache
    with pytest.raises(ValueError, match="began without padding"):
        model(ids[:, :2], attention_mask=torch.tensor([[1, 1], [1, 0]]), cache=cache)


def test_rows_of_padding_may_come_in_pieces() -> None:
    model = tiny.model(**tiny.PATTERNS["hybrid"])
    ids, mask = tiny.left_padded(tiny.tokens(2, 10), [10, 3])
    cache = None
    pieces = []
    for start in range(0, 10, 4):
        stop = min(start + 4, 10)
        out = model(ids[:, start:stop], attention_mask=mask[:, :stop], cache=cache, use_cache=True)
        cache = out.cache
        pieces.append(out.logits)
    whole = model(ids, attention_mask=mask).logits
    torch.testing.assert_close(torch.cat(pieces, 1)[mask == 1], whole[mask == 1])
