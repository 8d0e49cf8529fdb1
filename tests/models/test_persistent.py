"""A step as one kernel gives what the model gives.

In Triton's interpreter, where one program runs alone, and on a GPU.
"""

import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.block import Block
from lt2theory.models.decoder import Decoder
from lt2theory.models.persistent import PersistentBlocks, Tiles, in_tiles, why_not_persistent
from lt2theory.models.static_cache import new_buffers

CASES = [
    {},
    {"pattern": "deltanet", "conv_width": 0, "loop_gate": False},
    {"ffn_width": 0, "conv_width": 2, "negative_eigenvalues": False},
]
SMALL = Tiles(inputs=16, slices=2, stages=2)


def model_of(**changes: object) -> LoopedModel:
    odd = {"width": 40, "num_heads": 2, "head_dim": 6, "value_dim": 20, "ffn_width": 52}
    small = {"vocab_size": 11, "num_layers": 2, "num_loops": 2, "pattern": "gdn", **odd}
    config = LoopedConfig.model_validate(small | changes)
    rng = torch.Generator().manual_seed(1)
    model = LoopedModel(config, generator=rng)
    for parameter in model.parameters():  # norms and gates start as ones and zeros
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=rng)
    return model


def tokens_of(*size: int) -> torch.Tensor:
    return torch.randint(0, 11, size, generator=torch.Generator().manual_seed(2))


@pytest.mark.interpreter
@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("changes", CASES, ids=lambda changes: " ".join(changes) or "gdn")
@torch.no_grad()
def test_steps_in_the_interpreter(rows: int, changes: dict[str, object]) -> None:
    model, tokens = model_of(**changes), tokens_of(rows, 6)
    config = model.config
    cache = model.new_cache(rows)
    model(tokens[:, :4], cache)
    buffers = new_buffers(config, cache, 6, torch.zeros(rows, dtype=torch.int64))
    blocks = [block for block in model.blocks if isinstance(block, Block)]
    gate = model.loop_gate if config.loop_gate else None
    together = PersistentBlocks(blocks, config, buffers, gate, tiles=SMALL)
    wanted = model.double()(tokens)
    model.float()
    for t in range(4, 6):
        found = model.read_out(together.step(model.embedding(tokens[:, t]))[:, None])[:, 0]
        assert (found - wanted[:, t]).norm() <= 2e-6 * wanted[:, t].norm()
    model(tokens[:, 4:], cache)
    for place, held in cache.slots.items():
        for name, x in buffers[place].slot.tensors().items():
            torch.testing.assert_close(x, getattr(held, name), atol=1e-5, rtol=1e-5)


@pytest.mark.interpreter
@torch.no_grad()
def test_a_decoder_of_one_kernel() -> None:
    model, tokens = model_of(), tokens_of(2, 6)
    cache = model.new_cache(2)
    model(tokens[:, :4], cache)
    decoder = Decoder(model, cache, capacity=6, persistent=True)
    for t in range(4, 6):
        wanted = model(tokens[:, : t + 1], last_logits=1)[:, 0]
        found = decoder.step(tokens[:, t])
        assert (found - wanted).norm() <= 1e-5 * wanted.norm()


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 3, 8, 16])
@pytest.mark.parametrize("changes", CASES, ids=lambda changes: " ".join(changes) or "gdn")
@torch.no_grad()
def test_steps_on_a_gpu(rows: int, changes: dict[str, object]) -> None:
    wide = {"width": 384, "num_heads": 16, "head_dim": 48, "value_dim": 72, "num_layers": 3}
    wide |= {"ffn_width": 1000} | changes
    model, tokens = model_of(**wide).cuda().bfloat16(), tokens_of(rows, 12).cuda()
    cache = model.new_cache(rows)
    model(tokens[:, :4], cache)
    reason = why_not_persistent(model.config, rows, model.dtype, tokens.device, 12)
    if reason is not None:
        pytest.skip(reason)
    ways = [Decoder(model, cache, capacity=12, persistent=way) for way in (True, True, False)]
    exact = LoopedModel(model.config).cuda().double()
    exact.load_state_dict(model.state_dict())
    wanted = exact(tokens)
    for t in range(4, 12):
        one, again, many = (way.step(tokens[:, t]).clone() for way in ways)
        assert torch.equal(one, again), "sums in one order, whatever the programs' timing"
        far = (many.double() - wanted[:, t]).norm()
        assert (one.double() - wanted[:, t]).norm() <= 1.5 * far + 1e-3 * wanted[:, t].norm()


def test_tiles_hold_every_weight_once() -> None:
    weight = torch.arange(1.0, 1 + 18 * 50).view(18, 50)
    flat = in_tiles(weight, SMALL)
    assert flat.numel() == 32 * 64
    assert torch.equal(flat[flat > 0].sort().values, weight.flatten())
    # tile 0, part 1, slice 0, output 3, input 2
    assert flat[(1 * 2 * 16 + 3) * 16 + 2] == weight[3, 32 + 2]


@pytest.mark.parametrize(
    ("changes", "rows", "reason"),
    [
        ({"pattern": "gdn,full"}, 2, "needs layers of one delta rule, got full, gdn"),
        ({}, 17, "at most 16 rows, got 17"),
        ({"norm_between_loops": True}, 2, "a norm between loops"),
        ({"head_dim": 130}, 2, "a state of 130 x 20 does not fit"),
        ({}, 2, "no fast products of a few rows in torch.float64|measured on Hopper only"),
    ],
)
@torch.no_grad()
def test_refusals(changes: dict[str, object], rows: int, reason: str) -> None:
    model, tokens = model_of(**changes).double(), tokens_of(rows, 3)
    cache = model.new_cache(rows)
    model(tokens, cache)
    with pytest.raises(ValueError, match=f"persistent: got True, but ({reason})"):
        Decoder(model, cache, capacity=6, persistent=True)
