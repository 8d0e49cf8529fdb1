"""DeepSeek sparse attention in looped models: its indexer's loss, and hybrids under accumulate."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.ops import indexer_loss

Build = Callable[..., LoopedModel]
TOLERANCE = 1e-10  # float64; only the order of sums differs
HYBRID = {"pattern": "gdn,dsa", "loop_state": "accumulate"}


@pytest.fixture
def hybrid(build: Build) -> LoopedModel:
    return build("toy-dsa", **HYBRID, num_loops=3, positions="rope", num_kv_heads=1)


@pytest.mark.parametrize("cuts", [range(1, 23), [5, 6, 20]])
def test_hybrids_under_accumulate_stream(
    hybrid: LoopedModel, tokens: Tensor, cuts: list[int]
) -> None:
    cache = hybrid.new_cache(3)
    pieces = itertools.pairwise([0, *cuts, 23])
    streamed = torch.cat([hybrid(tokens[:, a:b], cache) for a, b in pieces], 1)
    torch.testing.assert_close(streamed, hybrid(tokens), atol=TOLERANCE, rtol=TOLERANCE)


def test_the_cache_holds_one_index_key_a_token_and_loop(build: Build, tokens: Tensor) -> None:
    model = build("toy-dsa")
    cache = model.new_cache(3)
    model(tokens, cache)
    for slot in cache.slots.values():
        assert slot.index_keys is not None
        assert slot.index_keys.shape == (3, 23, 6)


def test_selection_matters(build: Build, tokens: Tensor) -> None:
    """Else everything here would hold for softmax attention too."""
    model = build("toy-dsa")
    every = build("toy-dsa", top_k=23)
    assert torch.equal(model.head.weight, every.head.weight)
    assert (model(tokens) - every(tokens)).abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_loss_is_the_mean_over_layers_and_loops(
    build: Build, tokens: Tensor, kind: str
) -> None:
    model = build("toy-dsa", **HYBRID, num_layers=4, indexer_loss=kind)
    losses: dict[str, Tensor] = {}
    logits = model(tokens, losses=losses)
    assert torch.equal(logits, model(tokens))
    prepared = model.trace(tokens).factors
    parts = [indexer_loss(prepared[layer, loop], kind=kind) for layer in (1, 3) for loop in (0, 1)]
    assert set(losses) == {"indexer"}
    torch.testing.assert_close(losses["indexer"], torch.stack(parts).mean())
    assert losses["indexer"].item() > 0


def test_padding_counts_for_nothing(build: Build, tokens: Tensor) -> None:
    model = build("toy-dsa", positions="rope")
    losses = []
    for given, lengths in ((tokens[:1], None), (tokens[:1, 9:], None), (tokens[:1], [14])):
        found: dict[str, Tensor] = {}
        model(given, lengths=None if lengths is None else torch.tensor(lengths), losses=found)
        losses.append(found["indexer"])
    torch.testing.assert_close(losses[2], losses[1], atol=TOLERANCE, rtol=TOLERANCE)
    assert not torch.allclose(losses[0], losses[1])


def test_the_two_losses_train_different_parameters(hybrid: LoopedModel, tokens: Tensor) -> None:
    own: dict[str, Tensor] = {}
    logits = hybrid(tokens, losses=own)
    language = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    names, parameters = zip(*hybrid.named_parameters(), strict=True)
    of_language = torch.autograd.grad(language, parameters, allow_unused=True)
    of_indexer = torch.autograd.grad(own["indexer"], parameters, allow_unused=True)
    for name, a, b in zip(names, of_language, of_indexer, strict=True):
        assert (a is None) == (".index_" in name), name
        assert (b is None) == (".index_" not in name), name


@pytest.mark.parametrize("grain", ["loop", "block"])
def test_the_loss_under_checkpointing(build: Build, tokens: Tensor, grain: str) -> None:
    grads = []
    for changes in ({}, {"checkpointing": grain}):
        model = build("toy-dsa", **HYBRID, **changes)
        own: dict[str, Tensor] = {}
        (model(tokens, losses=own).square().mean() + own["indexer"]).backward()
        grads.append([p.grad for p in model.parameters()])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-10)


def test_models_without_an_indexer_have_no_such_loss(build: Build, tokens: Tensor) -> None:
    losses: dict[str, Tensor] = {}
    build("toy-full-gdn")(tokens, losses=losses)
    assert losses == {}


def test_a_loss_beside_a_cache_is_refused(build: Build, tokens: Tensor) -> None:
    model = build("toy-dsa")
    cache = model.new_cache(3)
    with pytest.raises(ValueError, match="losses: computed over whole sequences only"):
        model(tokens, cache, losses={})
    assert cache.length == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"top_k": 0}, "top_k"),
        ({"indexer_loss": "full"}, "indexer_loss"),
        (
            {"index_dim": 5, "positions": "rope"},
            "index_dim: 5 must be even for positions='rope'",
        ),
    ],
)
def test_bad_fields_are_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LoopedConfig.model_validate({"pattern": "dsa", **fields})
