"""What a caller may do with a cache: what it costs, what is refused, and how it goes back."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.mixers import MIXERS
from lt2theory.mixers.short_conv import ShortConvolution
from lt2theory.models import LoopedModel, toys
from lt2theory.ops.factors import Factors, IndexedInputs

Build = Callable[..., LoopedModel]
TOLERANCE = 1e-10
EVERY = sorted(toys())


def same(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, atol=TOLERANCE, rtol=TOLERANCE)


def bytes_told(model: LoopedModel, tokens: Tensor, layer: int, loop: int) -> dict[str, int]:
    """Claim C2 for one layer and loop in float64, from what its mixer prepares."""
    batch, length = tokens.shape
    config = model.config
    mixer = model.blocks[layer].mixers[config.mixer_number(layer, loop)]
    prepared = model.trace(tokens).factors[layer, loop]
    told = dict.fromkeys(["keys", "index_keys", "state", "convolution", "snapshots"], 0)
    if isinstance(prepared, Factors):
        heads, width = prepared.k.shape[-2:]
        normalised = prepared.log_write is not None
        told["state"] = heads * width * (prepared.v.shape[-1] + normalised) + heads * normalised
        convolutions = [m for m in mixer.modules() if isinstance(m, ShortConvolution)]
        channels = sum(m.weight.shape[0] for m in convolutions)
        told["convolution"] = (config.conv_width - 1) * channels
    else:
        window = config.window if config.loops[loop][layer].mixer == "window" else length + 1
        kept = min(length, window - 1)
        told["keys"] = kept * prepared.k.shape[2] * (prepared.k.shape[3] + prepared.v.shape[3])
        if isinstance(prepared, IndexedInputs):
            told["index_keys"] = length * prepared.index_k.shape[-1]
    return {kind: 8 * batch * count for kind, count in told.items()}


@pytest.mark.parametrize("preset", EVERY)
@pytest.mark.parametrize("length", [3, 23])
def test_bytes_are_those_of_claim_c2(
    build: Build, tokens: Tensor, preset: str, length: int
) -> None:
    model, tokens = build(preset, value_dim=6), tokens[:, :length]
    cache = model.new_cache(3)
    assert set(cache.bytes_by_layer()) == {(layer, loop) for layer in range(2) for loop in range(2)}
    assert cache.num_bytes() == 0
    model(tokens, cache)
    for (layer, loop), counted in cache.bytes_by_layer().items():
        assert counted == bytes_told(model, tokens, layer, loop), (layer, loop)
    assert cache.num_bytes() == sum(sum(row.values()) for row in cache.bytes_by_layer().values())


def test_bytes_of_snapshots_and_bookkeeping(build: Build, tokens: Tensor) -> None:
    """A snapshot of the present costs nothing until the slots move on; storage is what is told."""
    model = build("toy-gdn-window")
    cache = model.new_cache(3, snapshot_every=4)
    with torch.no_grad():
        model(tokens[:, :20], cache, documents=torch.zeros_like(tokens[:, :20]))
    state, window = (cache.bytes_by_layer()[layer, 0] for layer in range(2))
    assert state["snapshots"] == 4 * (state["state"] + state["convolution"])
    assert window["snapshots"] == 4 * window["keys"]  # w - 1 = 4 keys from the first one on
    with torch.no_grad():
        model(tokens[:, 20:21], cache)
    assert cache.bytes_by_layer()[0, 0]["snapshots"] == 5 * (state["state"] + state["convolution"])
    slots = [*cache.slots.values(), *(s for each in cache.snapshots for s in each.slots.values())]
    held = [x for slot in slots for x in slot.tensors().values()]
    held += [cache.segments, cache.documents, cache.num_segments, cache.next_position, cache.tokens]
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in held}
    assert sum(storages.values()) == cache.num_bytes()
    assert cache.tokens.shape == cache.segments.shape == cache.documents.shape == (3, 21)


def test_attention_over_the_whole_past_is_cut_without_snapshots(
    build: Build, tokens: Tensor
) -> None:
    for name in ("full", "nsa", "dsa"):
        model = build(f"toy-{name}", positions="rope")
        cache = model.new_cache(3, snapshot_every=4)
        assert cache.snapshot_every is None  # nothing to keep
        model(tokens[:, :15], cache)
        cache.roll_back(6)
        same(model(tokens[:, 9:], cache), model(tokens)[:, 9:])
    for slot in cache.slots.values():
        assert all(x.untyped_storage().nbytes() == 8 * x.numel() for x in slot.tensors().values())


def test_a_window_is_cut_while_it_holds_everything(build: Build, tokens: Tensor) -> None:
    model = build("toy-full-window")  # a window of 5: four keys between calls
    cache = model.new_cache(3)
    model(tokens[:, :4], cache)
    cache.crop(2)
    same(model(tokens[:, 2:], cache), model(tokens)[:, 2:])
    with pytest.raises(ValueError, match=r"length: 22 .*since layers 1 \(window\) do not keep"):
        cache.crop(22)


@pytest.mark.parametrize("preset", ["toy-gdn", "toy-mlstm-accumulate", "toy-full-gdn"])
def test_what_cannot_be_cut_is_named(build: Build, tokens: Tensor, preset: str) -> None:
    model = build(preset)
    cache = model.new_cache(3)
    model(tokens, cache)
    named = ", ".join(
        f"{i} ({layer.mixer})"
        for i, layer in enumerate(model.config.layers)
        if layer.mixer != "full"
    )
    with pytest.raises(ValueError) as refused:
        cache.crop(9, model=model)
    assert named in str(refused.value)
    assert "allowed: 0 and 23, or any with new_cache(batch_size, snapshot_every=n)" in str(
        refused.value
    )
    cache.crop(23)
    cache.roll_back(23)
    same(model(tokens, cache), model(tokens))


def test_a_snapshot_is_gone_back_to_without_the_model(build: Build, tokens: Tensor) -> None:
    model = build("toy-full-gdn")
    cache = model.new_cache(3, snapshot_every=5)
    model(tokens, cache)
    assert [each.length for each in cache.snapshots] == [5, 10, 15, 20]
    with pytest.raises(ValueError, match=r"model: tokens 10\.\.11 must be read again; .* 0, 5, 10"):
        cache.crop(12)
    with pytest.raises(ValueError, match="cache: it was made by another model"):
        cache.crop(12, model=build("toy-full-gdn"))
    with pytest.raises(ValueError, match=r"length: 24 must lie in 0\.\.23"):
        cache.crop(24)
    with pytest.raises(ValueError, match=r"tokens: -1 must lie in 0\.\.23"):
        cache.roll_back(-1)
    assert cache.length == 23  # untouched by what was refused
    same(model(tokens[:, :1], cache.copy()), model(torch.cat([tokens, tokens[:, :1]], 1))[:, 23:])
    cache.crop(10)
    assert [each.length for each in cache.snapshots] == [5, 10]
    same(model(tokens[:, 10:], cache), model(tokens)[:, 10:])
    assert [each.length for each in cache.snapshots] == [5, 10, 15, 20]


DOCUMENTS = [[5] * 8 + [2] * 1 + [9] * 14, [-3, -1] + [0] * 21, [1] * 3 + [-1] * 3 + [1] * 17]


@pytest.mark.parametrize("preset", ["toy-full", "toy-gdn-window", "toy-kda-accumulate"])
@pytest.mark.parametrize("kept", [21, 12, 9, 8, 7, 3, 1])
def test_documents_survive_a_crop(build: Build, tokens: Tensor, preset: str, kept: int) -> None:
    """Inside a document, between two, behind a document of one token, and inside padding."""
    model, documents = build(preset, positions="rope"), torch.tensor(DOCUMENTS)
    cache = model.new_cache(3, snapshot_every=4)
    for start, stop in ((0, 10), (10, 23)):
        model(tokens[:, start:stop], cache, documents=documents[:, start:stop])
    cache.crop(kept, model=model)
    fresh = model.new_cache(3)
    model(tokens[:, :kept], fresh, documents=documents[:, :kept])
    assert torch.equal(cache.num_segments, fresh.num_segments)
    open_documents = documents[:, kept - 1] >= 0
    ends = (cache.next_position, fresh.next_position)
    assert torch.equal(ends[0][open_documents], ends[1][open_documents])
    whole = model(tokens, documents=documents)
    rest = model(tokens[:, kept:], cache, documents=documents[:, kept:])
    real = documents[:, kept:] >= 0
    same(rest[real], whole[:, kept:][real])


def test_last_logits_of_a_call_in_pieces(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn")
    for wanted in (0, 1, 4, 5, 23):
        cache = model.new_cache(3, snapshot_every=4)
        model(tokens[:, :2], cache)
        got = model(tokens[:, 2:], cache, last_logits=min(wanted, 21))
        same(got, model(tokens)[:, 23 - min(wanted, 21) :])
        assert [each.length for each in cache.snapshots] == [4, 8, 12, 16, 20]


def test_gradients_flow_through_a_cropped_cache(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn")
    cache = model.new_cache(3, snapshot_every=4)
    model(tokens[:, :9], cache)
    cache.crop(6, model=model)
    model(tokens[:, 6:], cache).square().sum().backward()
    streamed = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(tokens)[:, 6:].square().sum().backward()
    for got, want in zip(streamed, model.parameters(), strict=True):
        torch.testing.assert_close(got, want.grad, atol=1e-9, rtol=1e-9)


def test_bad_rows_and_numbers(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn")
    cache = model.new_cache(3)
    model(tokens, cache)
    for rows in (torch.tensor([0.0]), torch.tensor([True]), torch.tensor([[0]]), torch.tensor([])):
        with pytest.raises(ValueError, match=r"rows: got .*must be integers of shape \[n\]"):
            cache.reorder(rows)
    with pytest.raises(ValueError, match=r"rows: \[0, 3\] must lie in 0\.\.2"):
        cache.reorder(torch.tensor([0, 3]))
    with pytest.raises(ValueError, match=r"rows: \[-1\] must lie in 0\.\.2"):
        cache.reorder(torch.tensor([-1]))
    with pytest.raises(ValueError, match="times: 0 must be >= 1"):
        cache.repeat(0)
    with pytest.raises(ValueError, match="snapshot_every: 0 must be >= 1"):
        model.new_cache(3, snapshot_every=0)
    assert cache.batch_size == 3


def test_a_snapshot_holds_all_that_cannot_be_cut(build: Build, tokens: Tensor) -> None:
    """For every mixer: a field that a new one adds is in the snapshot or is cut."""
    for name in MIXERS:
        model = build(f"toy-{name}")
        cache = model.new_cache(3, snapshot_every=1)
        model(tokens[:, :9], cache)
        cache.crop(8, model=model)
        fresh = model.new_cache(3)
        model(tokens[:, :8], fresh)
        for place, slot in cache.slots.items():
            want = fresh.slots[place].tensors()
            assert slot.tensors().keys() == want.keys(), name
            for field, x in slot.tensors().items():
                same(x, want[field])
