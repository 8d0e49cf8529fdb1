"""The choice of an indexer for one token: exactly that of a stable sort.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops.sparse.dsa_reference import index_scores

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def sorted_places(order: Tensor, top_k: int, length: int, first: Tensor) -> Tensor:
    """By a stable sort, counted from the first place, in order, -1 behind."""
    rows = []
    for row, begin in zip(order.cpu(), first.tolist(), strict=True):
        ranked = row[begin:length].long().argsort(descending=True, stable=True)[:top_k]
        rows.append(F.pad(ranked.sort().values, (0, top_k - len(ranked)), value=-1))
    return torch.stack(rows)[:, None].int()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("values", [3, 40, 2**31])
@pytest.mark.parametrize(
    ("capacity", "length", "top_k"), [(7, 7, 7), (50, 3, 8), (50, 50, 1), (200, 187, 5)]
)
@pytest.mark.parametrize("held", [8, None])
def test_the_choice_is_a_stable_sorts(
    device: str, values: int, capacity: int, length: int, top_k: int, held: int | None
) -> None:
    from lt2theory.ops.fused.triton_choice import highest_places

    rng = torch.Generator().manual_seed(capacity + top_k)
    order = torch.randint(1 - values, values, (3, capacity), generator=rng).int()
    first = torch.tensor([0, 1, length - 1])
    order[:, length:] = 2**31 - 1  # what lies behind is not looked at
    where = {"length": torch.tensor([length], device=device), "first": first.to(device)}
    arrived = torch.zeros(3, dtype=torch.int32, device=device)
    found = highest_places(
        order.to(device), top_k, arrived, **where, held=held, slice_size=32, sample=64
    )
    assert torch.equal(found.cpu(), sorted_places(order, top_k, length, first))
    assert not arrived.any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["apart", "equal", "one above", "rhythm"])
@pytest.mark.parametrize("sample", [16, 64])
def test_samples_that_mislead(device: str, kind: str, sample: int) -> None:
    """The bar lets pass far too few, far too many, or nothing but equals."""
    from lt2theory.ops.fused.triton_choice import highest_places

    place = torch.arange(900)
    numbers = {
        "apart": torch.where(place < 20, place + 100, -place),
        "equal": torch.full_like(place, 2**31 - 1),
        "one above": torch.where(place == 700, 5, 4),
        "rhythm": torch.where(place % 56 == 0, 9, 1 - 2**31),
    }
    order = numbers[kind].int().expand(2, 900).contiguous()
    where = {"length": torch.tensor([896]), "first": torch.tensor([0, 77])}
    where = {name: x.to(device) for name, x in where.items()}
    arrived = torch.zeros(2, dtype=torch.int32, device=device)
    found = highest_places(
        order.to(device), 24, arrived, **where, held=32, slice_size=64, sample=sample
    )
    assert torch.equal(found.cpu(), sorted_places(order, 24, 896, where["first"].cpu()))
    assert not arrived.any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("heads", "width", "length"), [(3, 5, 1), (8, 64, 130), (17, 16, 200)])
def test_orders_are_those_of_the_scores(device: str, heads: int, width: int, length: int) -> None:
    from lt2theory.ops.fused.triton_index_step import index_order
    from lt2theory.ops.fused.triton_place import IndexLayout

    rng = torch.Generator().manual_seed(heads)
    none = torch.empty(0)
    index = IndexLayout(heads, width, 4, 0, 4 + heads * width, none, none, 1e-5)
    row = torch.randn(2, 4 + heads * width + heads, generator=rng).to(device)
    keys = torch.randn(2, 210, width, generator=rng).to(device)
    keys[:, : length // 2, 0] = 0.0
    order = index_order(row, keys, index, length=torch.tensor([length], device=device))
    order = order[:, :length]
    bits = order ^ ((order >> 31) & 0x7FFFFFFF)
    q = row[:, 4 : 4 + heads * width].unflatten(1, (heads, width))[:, None]
    weight = row[:, None, -heads:] * (heads * width) ** -0.5
    wanted = index_scores(q, keys[:, :length], weight)[:, 0]
    torch.testing.assert_close(bits.view(torch.float32), wanted, atol=1e-5, rtol=1e-5)
    scores = bits.view(torch.float32)
    ranks = [x.sort(dim=-1, stable=True).indices for x in (order, scores)]
    assert torch.equal(*ranks)
