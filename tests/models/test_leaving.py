"""Tokens that leave the loop early: through a cache as in one call, and what the caches hold."""

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.models import LoopedModel, Reading, at_depth, generate, read_leaving

Build = Callable[..., LoopedModel]
OURO = {"sandwich_norm": True, "norm_between_loops": True, "loop_gate": False}
CASES = {
    "toy-full": {"positions": "rope", **OURO},
    "toy-full-gdn": {"positions": "rope"},
    "toy-window": {},
    "toy-gdn-accumulate": {},
    "toy-mlstm": {},
    "toy-dsa": {},
}
THRESHOLD = 0.55


def gated(build: Build, preset: str, **changes: object) -> LoopedModel:
    """A model of three loops, whose gate sends tokens out after each of them."""
    options = {"num_loops": 3, "exit_gate": True, **CASES.get(preset, {}), **changes}
    model = build(preset, **options)
    with torch.no_grad():
        model.exit_gate.weight.mul_(4.0)
    return model


@pytest.mark.parametrize("preset", CASES)
@torch.no_grad()
def test_a_cache_gives_what_one_call_gives(build: Build, tokens: Tensor, preset: str) -> None:
    model, first = gated(build, preset), 7
    whole = read_leaving(model, tokens, THRESHOLD, first=first)
    assert len(whole.exits[:, first:].unique()) > 1, "some leave early, some do not"
    cache = model.new_cache(3, snapshot_every=8)
    pieces = [read_leaving(model, tokens[:, :first], THRESHOLD, first=first, cache=cache)]
    bounds = [7, 8, 9, 12, 20, 23]
    for start, stop in itertools.pairwise(bounds):
        pieces.append(read_leaving(model, tokens[:, start:stop], THRESHOLD, cache=cache))
    assert torch.equal(torch.cat([piece.exits for piece in pieces], 1), whole.exits)
    for loop, state in enumerate(whole.states):
        found = torch.cat([piece.states[loop] for piece in pieces], 1)
        torch.testing.assert_close(found, state, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("preset", ["toy-full", "toy-full-gdn"])
@torch.no_grad()
def test_the_ends_of_the_scale(build: Build, tokens: Tensor, preset: str) -> None:
    """A threshold of 1 is the model, one of 0 the model of one loop; logits of all loops."""
    model = gated(build, preset)
    full = read_leaving(model, tokens, 1.0)
    for state, wanted in zip(full.states, model.read_loops(tokens), strict=True):
        torch.testing.assert_close(state, wanted, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(model.read_out(full.last), model(tokens), atol=1e-12, rtol=0)
    none = read_leaving(model, tokens, 0.0)
    assert not none.exits.any()
    torch.testing.assert_close(
        model.read_out(none.last), at_depth(model, 1)(tokens), atol=1e-12, rtol=1e-12
    )
    assert all(torch.equal(state, none.states[0]) for state in none.states)


@pytest.mark.parametrize("preset", CASES)
def test_generation_is_the_repeated_call(build: Build, tokens: Tensor, preset: str) -> None:
    """Rows of several lengths together, against each alone on the growing text."""
    model, lengths = gated(build, preset), [9, 2, 5]
    reading = Reading(exit_threshold=THRESHOLD)
    made = generate(model, tokens[:, :9], 6, lengths=torch.tensor(lengths), reading=reading)
    assert made.exits is not None
    for row, length in enumerate(lengths):
        text, exits = tokens[row : row + 1, 9 - length : 9], []
        for _ in range(6):
            found = read_leaving(model, text, THRESHOLD, first=length)
            chosen = model.read_out(found.last[:, -1:]).argmax(-1)
            exits.append(int(found.exits[0, -1]))
            text = torch.cat([text, chosen], 1)
        assert torch.equal(made.tokens[row], text[0, length:])
        assert made.exits[row].tolist() == exits
    pieces = Reading(chunk=4, exit_threshold=THRESHOLD)
    again = generate(model, tokens[:, :9], 6, lengths=torch.tensor(lengths), reading=pieces)
    assert torch.equal(again.tokens, made.tokens)


def test_thresholds_in_generation(build: Build, tokens: Tensor) -> None:
    model = gated(build, "toy-full-gdn")
    for threshold, depth in ((1.0, 3), (0.0, 1)):
        made = generate(model, tokens, 5, reading=Reading(exit_threshold=threshold))
        assert torch.equal(made.tokens, generate(at_depth(model, depth), tokens, 5).tokens)
        assert made.exits is not None
        assert (made.exits == depth - 1).all()


@torch.no_grad()
def test_later_loops_share_the_keys_of_the_last(build: Build, tokens: Tensor) -> None:
    """Attention layers: of the loop after which a token left, of all loops for a prompt."""
    model, cache = gated(build, "toy-full", **OURO), None
    cache = model.new_cache(3)
    found = read_leaving(model, tokens, THRESHOLD, first=7, cache=cache)
    plain = model.new_cache(3)
    model(tokens[:, :7], plain)
    for (layer, loop), slot in cache.slots.items():
        keys = slot.keys
        assert keys is not None
        torch.testing.assert_close(keys[:, :7], plain.slots[layer, loop].keys, atol=1e-12, rtol=0)
        if loop == 0:
            continue
        before = cache.slots[layer, loop - 1].keys
        same = (keys[:, 7:] - before[:, 7:]).abs().amax((-1, -2)) < 1e-12
        assert torch.equal(same, found.exits[:, 7:] < loop)


def test_refusals(build: Build, tokens: Tensor) -> None:
    with pytest.raises(ValueError, match="threshold: the model has no exit gate"):
        read_leaving(build("toy-gdn"), tokens, 0.5)
    with pytest.raises(ValueError, match=r"exit_threshold: 1.5 .* \[0, 1\]"):
        Reading(exit_threshold=1.5)
    with pytest.raises(ValueError, match="fast: True is not allowed with exit_threshold"):
        Reading(exit_threshold=0.5, fast=True)
