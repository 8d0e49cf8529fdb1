"""One token against a cache of fixed capacity: the same as attention over what is in use."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def plain(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    """Attention of `[b h k]` to the keys `[b m g k]` where `seen [b m]`, in float64."""
    q, k, v = q.double(), k.double(), v.double()
    repeats = q.shape[1] // k.shape[2]
    k, v = k.repeat_interleave(repeats, 2), v.repeat_interleave(repeats, 2)
    scores = torch.einsum("bhk,bmhk->bhm", q, k) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~seen[:, None], -torch.inf).softmax(-1)
    return torch.einsum("bhm,bmhv->bhv", weights, v)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (6, 2), (17, 1)])
@pytest.mark.parametrize("splits", [1, 3, None])
@pytest.mark.parametrize(("capacity", "length"), [(70, 1), (70, 69), (200, 131), (200, 200)])
def test_a_growing_cache(
    device: str, heads: int, groups: int, splits: int | None, capacity: int, length: int
) -> None:
    from lt2theory.ops.fused.triton_decode_attention import decode_attention

    rng = torch.Generator().manual_seed(heads + length)
    q = torch.randn(2, heads, 12, generator=rng).to(device)
    k = torch.randn(2, capacity, groups, 12, generator=rng).to(device)
    v = torch.randn(2, capacity, groups, 20, generator=rng).to(device)
    k[:, length:], v[:, length:] = torch.nan, torch.nan
    first = torch.tensor([0, min(5, length - 1)], device=device)
    found = decode_attention(q, k, v, torch.tensor([length], device=device), first, splits=splits)
    seen = torch.arange(length, device=device)[None] >= first[:, None]
    wanted = plain(q, k[:, :length], v[:, :length], seen)
    assert (found - wanted).norm() <= 2e-6 * wanted.norm()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [1, 4, 5, 6, 23])
def test_a_ring_is_a_window(device: str, length: int) -> None:
    from lt2theory.ops.fused.triton_decode_attention import decode_attention

    window, first = 5, torch.tensor([0, 2], device=device).clamp(max=length - 1)
    rng = torch.Generator().manual_seed(length)
    q = torch.randn(2, 4, 8, generator=rng).to(device)
    k = torch.randn(2, length, 2, 8, generator=rng).to(device)
    v = torch.randn(2, length, 2, 8, generator=rng).to(device)
    ring_k, ring_v = (torch.full((2, window, 2, 8), torch.nan, device=device) for _ in range(2))
    for position in range(length):
        ring_k[:, position % window] = k[:, position]
        ring_v[:, position % window] = v[:, position]
    found = decode_attention(
        q, ring_k, ring_v, torch.tensor([length], device=device), first, ring=True
    )
    positions = torch.arange(length, device=device)[None]
    seen = (positions >= first[:, None]) & (positions >= length - window)
    wanted = plain(q, k, v, seen)
    assert (found - wanted).norm() <= 2e-6 * wanted.norm()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("groups", "of_heads"), [(2, 2), (2, 1), (1, 1)])
@pytest.mark.parametrize("splits", [1, 2])
def test_lists(device: str, groups: int, of_heads: int, splits: int) -> None:
    from lt2theory.ops.fused.decode_attention import reference_buffer_attention
    from lt2theory.ops.fused.triton_decode_attention import decode_attention

    rng = torch.Generator().manual_seed(groups + of_heads)
    q = torch.randn(2, 4, 8, generator=rng).to(device)
    k = torch.randn(2, 90, groups, 8, generator=rng).to(device)
    v = torch.randn(2, 90, groups, 6, generator=rng).to(device)
    lists = torch.stack([torch.randperm(90, generator=rng)[:70] for _ in range(2 * of_heads)])
    lists = lists.view(2, of_heads, 70).int().to(device)
    lists[0, 0, 3:9] = -1
    lists[1] = -1
    where = {
        "length": torch.tensor([90], device=device),
        "first": torch.zeros(2, device=device).long(),
    }
    found = decode_attention(q, k, v, **where, lists=lists, splits=splits)
    wanted = reference_buffer_attention(q.double(), k.double(), v.double(), **where, lists=lists)
    assert (found - wanted).norm() <= 2e-6 * wanted.norm()
    assert not found[1].any(), "an empty list reads nothing"
    kept = lists[0, 0][lists[0, 0] >= 0].long()
    seen = torch.zeros(1, 90, dtype=torch.bool, device=device)
    seen[:, kept] = True
    one = plain(q[:1], k[:1], v[:1], seen)
    heads = 4 // groups if of_heads > 1 else 4
    assert (found[:1, :heads] - one[:, :heads]).norm() <= 2e-6 * one[:, :heads].norm()


@pytest.fixture
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What kernels write, and the scratch between them, holds NaN before."""
    new = Tensor.new_empty

    def poisoned(*args: Any, **options: Any) -> Tensor:
        x = new(*args, **options)
        return x.fill_(torch.nan) if x.is_floating_point() else x

    monkeypatch.setattr(Tensor, "new_empty", poisoned)


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize(
    ("device", "dtype", "bound"),
    [
        pytest.param("cpu", torch.float32, 2e-6, marks=pytest.mark.interpreter),
        pytest.param("cpu", torch.float16, 1e-3, marks=pytest.mark.interpreter),
        pytest.param("cuda", torch.float32, 2e-6, marks=pytest.mark.gpu),
        pytest.param("cuda", torch.float16, 1e-3, marks=pytest.mark.gpu),
        # The interpreter cannot multiply it.
        pytest.param("cuda", torch.bfloat16, 6e-3, marks=pytest.mark.gpu),
    ],
)
@pytest.mark.parametrize(("width", "wide"), [(96, 192), (128, 128), (33, 65), (16, 8)])
@pytest.mark.parametrize(("heads", "groups"), [(2, 2), (6, 2)])
def test_widths_in_two_parts(
    device: str, dtype: torch.dtype, bound: float, width: int, wide: int, heads: int, groups: int
) -> None:
    """Over poisoned memory, as few keys as shares and odd lengths; the same bits every time."""
    from lt2theory.ops.fused.triton_decode_attention import decode_attention

    rng = torch.Generator().manual_seed(width + heads)
    arrived = torch.zeros(2, groups, dtype=torch.int32, device=device)
    for length in (3, 197):
        q = torch.randn(2, heads, width, generator=rng).to(device, dtype)
        k = torch.randn(2, length + 9, groups, width, generator=rng).to(device, dtype)
        v = torch.randn(2, length + 9, groups, wide, generator=rng).to(device, dtype)
        k[:, length:], v[:, length:] = torch.nan, torch.nan
        first = torch.tensor([0, length // 2], device=device)
        newest = torch.tensor([length], device=device)
        seen = torch.arange(length, device=device)[None] >= first[:, None]
        wanted = plain(q, k[:, :length], v[:, :length], seen)
        for splits in (1, 2, 9):  # of nine shares most have no keys
            attend = partial(
                decode_attention, q, k, v, newest, first, splits=splits, arrived=arrived
            )
            found = attend()
            assert found.dtype == dtype
            assert (found - wanted).norm() <= bound * wanted.norm()
            assert torch.equal(found, attend())
            assert not arrived.any(), "the next call counts from zero"


@pytest.mark.interpreter
def test_tiles_hold_little_that_is_empty_and_fit_wide_heads() -> None:
    from lt2theory.ops.fused.triton_decode_attention import _keys_of_tile
    from lt2theory.ops.fused.triton_head_tiles import cut_in_two

    cut = {width: cut_in_two(width) for width in (1, 16, 17, 40, 96, 97, 128, 160, 192, 200)}
    assert cut == {
        1: (16, 0), 16: (16, 0), 17: (16, 16), 40: (32, 16), 96: (64, 32), 97: (128, 0),
        128: (128, 0), 160: (128, 32), 192: (128, 64), 200: (256, 0),
    }  # fmt: skip
    pairs = (512, 576, 577, 2 * 576, 4 * 576, 10_000)
    assert [_keys_of_tile(pair) for pair in pairs] == [64, 64, 32, 32, 16, 16]
