"""NSA for one token by kernels, against its plain form in float64.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

import pytest
import torch

from lt2theory.ops.factors import BlockSparseInputs
from lt2theory.ops.fused.sparse_step import _compressed, _selected, block_step, pooled_blocks

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def in_order(blocks: torch.Tensor) -> torch.Tensor:
    """The own block, then the others by number, -1 behind."""
    end = torch.iinfo(blocks.dtype).max
    others = blocks[..., 1:].masked_fill(blocks[..., 1:] < 0, end).sort().values
    return torch.cat([blocks[..., :1], others.masked_fill(others == end, -1)], -1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (6, 2)])
@pytest.mark.parametrize(
    ("length", "size", "count", "window"), [(1, 4, 3, 7), (97, 1, 5, 30), (200, 3, 9, 1)]
)
@pytest.mark.parametrize("equal", [False, True])
def test_blocks_and_branches(
    device: str, heads: int, groups: int, length: int, size: int, count: int, window: int,
    equal: bool,
) -> None:  # fmt: skip
    from lt2theory.ops.fused.triton_block_step import choose_blocks
    from lt2theory.ops.fused.triton_chosen_attention import Gates, chosen_attention

    rng = torch.Generator().manual_seed(length)
    row = torch.randn(2, heads * 12 + 3 * heads, generator=rng).to(device)
    keys = torch.randn(2, 205, groups, 12, generator=rng).to(device)
    if equal:  # ties, exact in any order of summation
        keys = torch.ones_like(keys)
        row[:, : heads * 12].unflatten(1, (heads, 12))[..., 1:] = 0.0
    values = torch.randn(2, 205, groups, 20, generator=rng).to(device)
    first = torch.tensor([0, min(2, length - 1)], device=device)
    where = {"length": torch.tensor([length], device=device), "first": first}
    pooled = [pooled_blocks(x, first, size) for x in (keys, values)]
    arrived = torch.zeros(2, groups, dtype=torch.int32, device=device)
    compressed, chosen = choose_blocks(
        row, *pooled, arrived, heads=heads, **where, block_size=size, num_blocks=count
    )
    inputs = BlockSparseInputs(
        row[:, : heads * 12].unflatten(1, (heads, 12))[:, None].double(),
        keys[:, :1].double(),
        values[:, :1].double(),
        window=window,
        gates=row[:, heads * 12 :].unflatten(1, (heads, 3))[:, None].double().sigmoid(),
        block_size=size,
        num_blocks=count,
    )
    buffers = {
        "keys": keys.double(),
        "values": values.double(),
        "pooled_keys": pooled[0].double(),
        "pooled_values": pooled[1].double(),
    }
    position = length - 1 - first
    weights, read = _compressed(inputs, buffers, complete=(position + 1) // size)
    torch.testing.assert_close(compressed.double(), read, atol=1e-5, rtol=1e-5)
    own = position // size
    tokens = (first + own * size)[:, None] + torch.arange(size, device=device)
    lists = _selected(inputs, weights, own, tokens, where["length"])
    begins = lists[..., ::size][..., :count].long()
    blocks = torch.where(begins < 0, -1, (begins - first[:, None, None]) // size)
    assert torch.equal(in_order(chosen.long()[..., : blocks.shape[-1]]), in_order(blocks))
    wanted = block_step(inputs, buffers, **where)
    for share in (64, None):
        out = torch.full((2, heads * 20), torch.nan, device=device)
        chosen_attention(
            row, keys, values, arrived, out, **where, chosen=chosen, size=size, window=window,
            compressed=compressed, gates=Gates(branches=heads * 12), share=share,
        )  # fmt: skip
        assert (out.double() - wanted.flatten(1)).norm() <= 2e-6 * wanted.norm()
        assert not arrived.any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("share", [32, 96, None])
def test_chosen_places_and_a_ring(device: str, share: int | None) -> None:
    from lt2theory.ops.fused.decode_attention import reference_buffer_attention
    from lt2theory.ops.fused.triton_chosen_attention import chosen_attention

    rng = torch.Generator().manual_seed(3)
    q = torch.randn(2, 4, 8, generator=rng).to(device)
    keys, values = (torch.randn(2, 130, 2, n, generator=rng).to(device) for n in (8, 6))
    first = torch.tensor([0, 40], device=device)
    arrived = torch.zeros(2, 2, dtype=torch.int32, device=device)
    places = torch.stack([torch.randperm(90, generator=rng)[:70] for _ in range(2)])[:, None]
    places = places.int().to(device)
    places[0, 0, 60:] = -1
    where = {"length": torch.tensor([130], device=device), "first": first}
    out = q.new_full((2, 24), torch.nan)
    chosen_attention(q.flatten(1), keys, values, arrived, out, **where, chosen=places, share=share)
    lists = torch.where(places < 0, -1, places + first[:, None, None].int())
    exact = (q.double(), keys.double(), values.double())
    wanted = reference_buffer_attention(*exact, **where, lists=lists).flatten(1)
    assert (out - wanted).norm() <= 2e-6 * wanted.norm()
    for length in (5, 130, 200):
        where = {"length": torch.tensor([length], device=device), "first": first.clamp(max=4)}
        chosen_attention(
            q.flatten(1), keys, values, arrived, out, **where, window=130, ring=True, share=share
        )
        wanted = reference_buffer_attention(*exact, **where, ring=True).flatten(1)
        assert (out - wanted).norm() <= 2e-6 * wanted.norm()
