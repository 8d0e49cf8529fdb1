"""The kernel for attention to lists of keys, against a dense mask in float64."""

import pytest
import torch
from torch import Tensor

SHAPES = [
    # batch, queries, keys, key heads, query heads of one, widths of key and value, list, lists
    (2, 5, 9, 2, 3, 8, 6, 4, 2),
    (1, 7, 11, 1, 4, 16, 24, 40, 1),
    (2, 3, 6, 2, 1, 20, 8, 3, 1),
    (1, 2, 70, 1, 17, 16, 16, 33, 1),
]


def problem(shape: tuple[int, ...], device: str, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Queries, keys, values and lists, some of them short and one empty."""
    batch, length, keys, groups, heads, width, values, count, of_heads = shape
    rng = torch.Generator().manual_seed(sum(shape))

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=rng).to(device, dtype)

    number = batch * length * of_heads
    lists = torch.stack([torch.randperm(max(keys, count), generator=rng) for _ in range(number)])
    lists = lists[:, :count].view(batch, length, of_heads, count)
    gone = (lists >= keys) | (torch.rand(lists.shape, generator=rng) < 0.3)
    lists = torch.where(gone, -1, lists).int()
    lists[0, 0] = -1
    q = draw(batch, length, groups, heads, width)
    k, v = draw(batch, keys, groups, width), draw(batch, keys, groups, values)
    return q, k, v, lists.to(device)


def dense(q: Tensor, k: Tensor, v: Tensor, lists: Tensor, scale: float) -> Tensor:
    """The same through a mask over all keys; what is in no list has no part."""
    keys = k.shape[1]
    place = torch.where(lists < 0, keys, lists).long()
    mask = torch.zeros(*lists.shape[:3], keys + 1, dtype=torch.bool, device=q.device)
    mask = mask.scatter(-1, place, value=True)[..., :keys].expand(*q.shape[:3], keys)[:, :, :, None]
    scores = scale * torch.einsum("btgrk,bmgk->btgrm", q, k)
    weights = scores.masked_fill(~mask, torch.finfo(q.dtype).min).softmax(-1) * mask
    return torch.einsum("btgrm,bmgv->btgrv", weights, v)


def compare(shape: tuple[int, ...], device: str, dtype: torch.dtype, bound: float) -> None:
    from lt2theory.ops.sparse.triton_gathered import gathered_attention

    q, k, v, lists = problem(shape, device, dtype)
    ours = [x.clone().requires_grad_() for x in (q, k, v)]
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    found, wanted = gathered_attention(*ours, lists, 0.3), dense(*exact, lists, 0.3)
    assert found.dtype == dtype
    assert not found[0, 0].any(), "an empty list reads nothing"
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(1)).to(device)
    (found.double() * weight).sum().backward()
    (wanted * weight).sum().backward()
    pairs = [(found, wanted), *((x.grad, y.grad) for x, y in zip(ours, exact, strict=True))]
    for got, right in pairs:
        assert got is not None
        assert right is not None
        assert (got.double() - right).norm() <= bound * right.norm()


@pytest.mark.interpreter
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_in_the_interpreter(shape: tuple[int, ...]) -> None:
    compare(shape, "cpu", torch.float32, 1e-6)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [*SHAPES, (2, 257, 513, 2, 8, 64, 96, 128, 1)], ids=str)
@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)], ids=["float32", "bfloat16"]
)
def test_on_a_gpu(shape: tuple[int, ...], dtype: torch.dtype, bound: float) -> None:
    compare(shape, "cuda", dtype, bound)
