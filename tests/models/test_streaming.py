"""Streams and their caches: what is refused, what survives a failure, what is held.

That streaming equals the parallel form is in `test_streaming_conformance`.
"""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.models import LoopCache, LoopedModel, toys

Build = Callable[..., LoopedModel]
TOLERANCE = 1e-10  # float64; only the order of sums differs
EVERY = sorted(toys())


def feed(model: LoopedModel, tokens: Tensor, cuts: list[int]) -> Tensor:
    cache = model.new_cache(tokens.shape[0])
    bounds = [0, *cuts, tokens.shape[1]]
    pieces = itertools.pairwise(bounds)
    return torch.cat([model(tokens[:, start:stop], cache) for start, stop in pieces], 1)


@pytest.mark.parametrize("preset", ["toy-full-gdn", "toy-gdn-window", "toy-kda-accumulate"])
def test_learned_positions_go_on_from_the_cache(build: Build, tokens: Tensor, preset: str) -> None:
    model = build(preset, positions="learned", max_length=23)
    torch.testing.assert_close(
        feed(model, tokens, [4, 5, 20]), model(tokens), atol=TOLERANCE, rtol=TOLERANCE
    )
    with pytest.raises(ValueError, match=r"length 24 .*max_length = 23"):
        model(torch.zeros(1, 24, dtype=torch.int64))


def test_memory_of_linear_and_window_models_is_bounded(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn-window")
    cache = model.new_cache(3)
    sizes = []
    for _ in range(4):
        model(tokens, cache)
        sizes.append(cache.num_bytes())
    assert sizes[0] == sizes[1] == sizes[2] == sizes[3] > 0
    assert cache.length == 4 * 23


def test_cache_of_another_kind_is_refused(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn")
    with pytest.raises(ValueError, match="cache: made for batch size 2, got tokens of 3"):
        model(tokens, model.new_cache(2))
    with pytest.raises(ValueError, match="cache: it was made by a model with another config"):
        model(tokens, build("toy-kda").new_cache(3))
    cache = model.new_cache(3)
    with pytest.raises(ValueError, match=r"cache: made for dtype torch\.float64"):
        model.float()(tokens, cache)
    with pytest.raises(ValueError, match="batch_size: 0"):
        model.new_cache(0)


def test_bad_lengths_and_documents(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn")
    with pytest.raises(ValueError, match=r"lengths: \[24, 1, 1\] must lie in 1..23"):
        model(tokens, lengths=torch.tensor([24, 1, 1]))
    with pytest.raises(ValueError, match="lengths: give lengths or documents"):
        model(tokens, lengths=torch.tensor([1, 1, 1]), documents=torch.zeros_like(tokens))
    with pytest.raises(ValueError, match=r"documents: shape \(3, 22\)"):
        model(tokens, documents=torch.zeros(3, 22, dtype=torch.int64))
    cache = model.new_cache(3)
    model(tokens, cache)
    with pytest.raises(ValueError, match="lengths: only the first call"):
        model(tokens, cache, lengths=torch.tensor([1, 1, 1]))
    with pytest.raises(ValueError, match="documents: the cached stream began without"):
        model(tokens, cache, documents=torch.zeros_like(tokens))


def test_cache_of_another_model_is_refused(build: Build, tokens: Tensor) -> None:
    with pytest.raises(ValueError, match="cache: it was made by another model of this config"):
        build("toy-gdn")(tokens, build("toy-gdn").new_cache(3))


def contents(cache: LoopCache) -> list[object]:
    own = [cache.length, cache.segments, cache.documents, cache.num_segments, cache.next_position]
    for slot in cache.slots.values():
        own += slot.tensors().values()
    return own


@pytest.mark.parametrize("preset", EVERY)
def test_a_failing_call_leaves_the_cache_untouched(
    build: Build, tokens: Tensor, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(preset)
    cache = model.new_cache(3)
    documents = torch.zeros_like(tokens)
    first = model(tokens[:, :9], cache, documents=documents[:, :9])
    before = contents(cache)
    with monkeypatch.context() as patch:
        patch.setattr(model.blocks[1].mixer, "output", None)  # fails after the first layer ran
        with pytest.raises(TypeError):
            model(tokens[:, 9:12], cache)
    with pytest.raises(ValueError, match="tokens: id 11"):
        model(tokens[:, 9:12] * 0 + 11, cache)
    after = contents(cache)
    assert all(x is y for x, y in zip(before, after, strict=True))
    rest = model(tokens[:, 9:], cache)
    torch.testing.assert_close(
        torch.cat([first, rest], 1), model(tokens), atol=TOLERANCE, rtol=TOLERANCE
    )


@pytest.mark.parametrize("preset", EVERY)
def test_caches_hold_no_more_than_they_say(build: Build, tokens: Tensor, preset: str) -> None:
    model = build(preset)
    cache = model.new_cache(3)
    with torch.no_grad():
        model(tokens, cache)
    held = [x for x in contents(cache)[5:] if isinstance(x, Tensor)]
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in held}
    assert sum(storages.values()) == cache.num_bytes()


@pytest.mark.parametrize("preset", EVERY)
def test_all_negative_ids_are_one_padding(build: Build, tokens: Tensor, preset: str) -> None:
    """A document that goes on in the next call, behind padding of several ids."""
    model = build(preset, positions="rope")
    documents = torch.zeros_like(tokens)
    documents[:, :3] = torch.tensor([-1, -2, -1])
    documents[1, 3:5] = -7
    cache = model.new_cache(3)
    parts = [
        model(tokens[:, a:b], cache, documents=documents[:, a:b])
        for a, b in itertools.pairwise([0, 2, 8, 12])
    ]
    logits = torch.cat([*parts, model(tokens[:, 12:], cache)], 1)
    for row, start in enumerate((3, 5, 3)):
        alone = model(tokens[row : row + 1, start:])
        torch.testing.assert_close(
            logits[row : row + 1, start:], alone, atol=TOLERANCE, rtol=TOLERANCE
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_lengths_and_documents_are_integers(
    build: Build, tokens: Tensor, dtype: torch.dtype
) -> None:
    model = build("toy-gdn")
    with pytest.raises(ValueError, match=f"lengths: got {dtype}; must be an integer"):
        model(tokens, lengths=torch.ones(3, dtype=dtype))
    with pytest.raises(ValueError, match=f"documents: got {dtype}; must be an integer"):
        model(tokens, documents=torch.ones(3, 23, dtype=dtype))
