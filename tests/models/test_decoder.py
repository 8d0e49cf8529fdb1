"""Decoding from fixed buffers gives what the model gives with a growing cache."""

import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel, presets, toys
from lt2theory.models.decoder import Decoder

NAMES = list(toys())
SPARSE = {"block_size": 2, "num_blocks": 3, "top_k": 4, "index_heads": 2, "index_dim": 4}


def model_of(name: str, **changes: object) -> LoopedModel:
    small = {"vocab_size": 11, "width": 16, "num_heads": 2, "window": 5, **SPARSE, **changes}
    config = LoopedConfig.model_validate(presets()[name].model_dump() | small)
    return LoopedModel(config, generator=torch.Generator().manual_seed(1)).double()


def tokens_of(*size: int) -> torch.Tensor:
    return torch.randint(0, 11, size, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_steps_are_the_models(name: str) -> None:
    prompt = 1 + len(name) % 8  # from shorter than a convolution to longer than the window
    model, tokens = model_of(name), tokens_of(3, 13)
    cache = model.new_cache(3)
    model(tokens[:, :prompt], cache)
    decoder = Decoder(model, cache, capacity=13)
    bytes_before = cache.num_bytes()
    for t in range(prompt, 13):
        found = decoder.step(tokens[:, t])
        wanted = model(tokens[:, : t + 1], last_logits=1)[:, 0]
        torch.testing.assert_close(found, wanted, atol=1e-10, rtol=1e-10)
    assert cache.num_bytes() == bytes_before, "the cache stays as it was"
    with pytest.raises(ValueError, match=r"the decoder is full .capacity 13."):
        decoder.step(tokens[:, 0])


@pytest.mark.parametrize(
    "name", ["toy-full-gdn", "toy-window", "toy-mlstm", "toy-gdn-window", "toy-nsa", "toy-dsa"]
)
@torch.no_grad()
def test_rows_padded_on_the_left(name: str) -> None:
    model, tokens = model_of(name, positions="rope"), tokens_of(2, 14)
    lengths = torch.tensor([3, 7])
    cache = model.new_cache(2)
    model(tokens[:, :7], cache, lengths=lengths)
    decoder = Decoder(model, cache, capacity=20)
    for t in range(7, 14):
        found = decoder.step(tokens[:, t])
        for row, length in enumerate(lengths.tolist()):
            alone = model(tokens[row : row + 1, 7 - length : t + 1], last_logits=1)[0, 0]
            torch.testing.assert_close(found[row], alone, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    "name", ["toy-gdn", "toy-mamba2", "toy-gated_deltaproduct-accumulate", "toy-gdn-window"]
)
@torch.no_grad()
def test_rows_shorter_than_a_convolution(name: str) -> None:
    """The convolution's history holds padding, or the end of another document, before them."""
    model, tokens = model_of(name), tokens_of(4, 10)
    lengths = torch.tensor([1, 2, 3, 6])
    padded, packed = model.new_cache(4), model.new_cache(4)
    model(tokens[:, :6], padded, lengths=lengths)
    begun = torch.arange(6) >= 6 - lengths[:, None]
    model(tokens[:, :6], packed, documents=begun.long())
    decoders = [Decoder(model, cache, capacity=10) for cache in (padded, packed)]
    for t in range(6, 10):
        steps = [decoder.step(tokens[:, t]) for decoder in decoders]
        for row, length in enumerate(lengths.tolist()):
            alone = model(tokens[row : row + 1, 6 - length : t + 1], last_logits=1)[0, 0]
            for found in steps:
                torch.testing.assert_close(found[row], alone, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm_between_loops": True, "sandwich_norm": True},
        {"positions": "learned", "max_length": 17},
        {"num_kv_heads": 1, "positions": "rope"},
        {"loop_gate": False, "tie_embeddings": True, "conv_width": 0},
    ],
    ids=lambda changes: " ".join(changes),
)
@torch.no_grad()
def test_other_models(changes: dict[str, object]) -> None:
    model, tokens = model_of("toy-full-gdn", num_loops=3, **changes), tokens_of(2, 12)
    cache = model.new_cache(2)
    model(tokens[:, :5], cache)
    decoder = Decoder(model, cache, capacity=12)
    for t in range(5, 12):
        wanted = model(tokens[:, : t + 1], last_logits=1)[:, 0]
        torch.testing.assert_close(decoder.step(tokens[:, t]), wanted, atol=1e-10, rtol=1e-10)


@torch.no_grad()
def test_refusals() -> None:
    model, tokens = model_of("toy-gdn"), tokens_of(2, 6)
    empty = model.new_cache(2)
    with pytest.raises(ValueError, match="cache: it is empty"):
        Decoder(model, empty, capacity=8)
    model(tokens, empty)
    with pytest.raises(ValueError, match="capacity: got 6, allowed are more than 6"):
        Decoder(model, empty, capacity=6)
    with pytest.raises(ValueError, match="another model"):
        Decoder(model_of("toy-gdn"), empty, capacity=8)
    with pytest.raises(ValueError, match="graph: True needs a CUDA device"):
        Decoder(model, empty, capacity=8, graph=True)
    decoder = Decoder(model, empty, capacity=8)
    for wrong in (tokens[:, :1], tokens[:1, 0], tokens[:, 0].int()):
        with pytest.raises(ValueError, match=r"tokens: got torch.int.* must be int64"):
            decoder.step(wrong)
    learned = model_of("toy-full", positions="learned", max_length=7)
    cache = learned.new_cache(2)
    learned(tokens, cache)
    with pytest.raises(ValueError, match="capacity: got 8, allowed are at most 7"):
        Decoder(learned, cache, capacity=8)


@pytest.mark.interpreter
@pytest.mark.parametrize(
    "name", ["toy-gdn", "toy-deltanet", "toy-full-gdn", "toy-nsa", "toy-dsa", "toy-window"]
)
@torch.no_grad()
def test_the_fused_step_in_the_interpreter(name: str) -> None:
    model, tokens = model_of(name, num_loops=2, value_dim=10).float(), tokens_of(2, 8)
    cache = model.new_cache(2)
    model(tokens[:, :3], cache)
    decoder = Decoder(model, cache, capacity=8, fused=True)
    for t in range(3, 8):
        wanted = model.double()(tokens[:, : t + 1], last_logits=1)[:, 0]
        model.float()
        found = decoder.step(tokens[:, t]).double()
        assert (found - wanted).norm() <= 1e-5 * wanted.norm()


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_a_graph_replays_the_steps(name: str) -> None:
    model, tokens = model_of(name).float().cuda(), tokens_of(3, 40).cuda()
    cache = model.new_cache(3)
    model(tokens[:, :9], cache)
    decoder = Decoder(model, cache, capacity=40)
    for t in range(9, 40):
        found = decoder.step(tokens[:, t]).clone()
        wanted = model(tokens[:, : t + 1], last_logits=1)[:, 0]
        torch.testing.assert_close(found, wanted, atol=2e-3, rtol=2e-3)


@torch.no_grad()
def test_blocks_beyond_the_buffers() -> None:
    model, tokens = model_of("toy-nsa", block_size=2**40, num_blocks=2**40), tokens_of(2, 9)
    cache = model.new_cache(2)
    model(tokens[:, :4], cache)
    decoder = Decoder(model, cache, capacity=9)
    for t in range(4, 9):
        wanted = model(tokens[:, : t + 1], last_logits=1)[:, 0]
        torch.testing.assert_close(decoder.step(tokens[:, t]), wanted, atol=1e-10, rtol=1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["toy-gdn", "toy-full-gdn", "toy-window"])
@torch.no_grad()
def test_a_graph_recorded_under_autocast_outlives_what_autocast_kept(name: str) -> None:
    model, tokens = model_of(name).float().cuda(), tokens_of(3, 12).cuda()
    cache = model.new_cache(3)
    with torch.autocast("cuda", torch.bfloat16):
        model(tokens[:, :6], cache)
        decoder = Decoder(model, cache, capacity=12)
        decoder.step(tokens[:, 6])
    # What was freed is given out again, and holds no weights any more.
    held = [torch.full((size,), torch.nan, device="cuda") for size in (64, 512, 4096) * 50]
    for t in range(7, 12):
        found = decoder.step(tokens[:, t])
        with torch.autocast("cuda", torch.bfloat16):
            wanted = model(tokens[:, : t + 1], last_logits=1)[:, 0]
        torch.testing.assert_close(found.float(), wanted.float(), atol=5e-2, rtol=5e-2)
    assert len(held) == 150
