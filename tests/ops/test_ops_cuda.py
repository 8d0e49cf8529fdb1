"""The ops on a CUDA device against the float64 reference on the CPU."""

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from lt2theory.ops import native_sparse_attention, run_factors, softmax_attention
from lt2theory.ops.factors import Factors

pytestmark = pytest.mark.gpu

CASES = [
    (decay, delta, f)
    for decay in ("none", "scalar", "vector")
    for delta in (False, True)
    for f in (1, 2)
]


def leaves(factors: Factors) -> dict[str, Tensor]:
    named = {field.name: getattr(factors, field.name) for field in fields(factors)}
    return {name: value for name, value in named.items() if isinstance(value, Tensor)}


def run(factors: Factors, backend: str) -> list[Tensor]:
    inputs = {name: x.detach().clone().requires_grad_() for name, x in leaves(factors).items()}
    o, state = run_factors(replace(factors, **inputs), backend=backend)
    (o.square().sum() + state.square().sum()).backward()
    return [o, state, *(x.grad for x in inputs.values())]


@pytest.mark.parametrize(("decay", "erases", "num_factors"), CASES)
@pytest.mark.parametrize("length", [33, 130])
def test_recurrence(decay: str, erases: bool, num_factors: int, length: int) -> None:
    generator = torch.Generator().manual_seed(length)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    shape = (2, length, num_factors, 3)
    k = torch.nn.functional.normalize(uniform(*shape, 16) - 0.5, dim=-1)
    log_decay = {"none": None, "scalar": -uniform(*shape), "vector": -5 * uniform(*shape, 16)}[
        decay
    ]
    exact = Factors(
        uniform(2, length, 3, 16) - 0.5,
        k,
        uniform(*shape, 8) - 0.5,
        log_decay=log_decay,
        beta=2 * uniform(*shape) if erases else None,
    )
    moved = {name: x.float().cuda() for name, x in leaves(exact).items()}
    want = run(exact, "reference")
    got = run(replace(exact, **moved), "chunked")
    for a, b in zip(got, want, strict=True):
        # float32 sums of a hundred terms, against float64
        assert (a.double().cpu() - b).norm() <= 1e-4 * b.norm()


@pytest.mark.parametrize("window", [None, 7])
def test_attention(window: int | None) -> None:
    generator = torch.Generator().manual_seed(1)
    q, k, v = (
        torch.randn(2, 65, heads, 16, generator=generator, dtype=torch.float64)
        for heads in (4, 2, 2)
    )
    want = softmax_attention(q, k, v, window=window, backend="reference")
    got = softmax_attention(q.float().cuda(), k.float().cuda(), v.float().cuda(), window=window)
    assert (got.double().cpu() - want).norm() <= 1e-5 * want.norm()


@pytest.mark.parametrize(("length", "num_keys"), [(130, 130), (33, 130), (2, 77)])
def test_wide_values_by_the_flash_kernel(length: int, num_keys: int) -> None:
    """Two parts of the values, from the start and after a cache, in bfloat16."""
    generator = torch.Generator().manual_seed(4)
    shapes = ((2, length, 4, 24), (2, num_keys, 4, 24), (2, num_keys, 4, 48))
    exact = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]

    def values_and_gradients(tensors: list[Tensor], backend: str) -> list[Tensor]:
        given = [x.detach().clone().requires_grad_() for x in tensors]
        o = softmax_attention(*given, backend=backend)
        o.square().sum().backward()
        return [o, *(x.grad for x in given)]

    want = values_and_gradients(exact, "reference")
    got = values_and_gradients([x.bfloat16().cuda() for x in exact], "chunked")
    for a, b in zip(got, want, strict=True):
        # 8 bits of inputs, probabilities and outputs
        assert (a.double().cpu() - b).norm() <= 2e-2 * b.norm()


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize(("length", "num_keys"), [(77, 77), (1, 130), (700, 700)])
def test_native_sparse_attention(segmented: bool, length: int, num_keys: int) -> None:
    generator = torch.Generator().manual_seed(3)
    shapes = ((2, length, 4, 16), (2, num_keys, 2, 16), (2, num_keys, 2, 8), (2, length, 4, 3))
    exact = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
    ids = torch.arange(num_keys).repeat(2, 1) // 37
    ids[0, :5] = -1
    settings = {"block_size": 16, "num_blocks": 3, "window": 20}

    def values_and_gradients(tensors: list[Tensor], backend: str) -> list[Tensor]:
        given = [x.detach().clone().requires_grad_() for x in tensors]
        here = ids.to(given[0].device)
        segments = {"query_segments": here[:, num_keys - length :], "key_segments": here}
        o = native_sparse_attention(
            *given, backend=backend, **settings, **(segments if segmented else {})
        )
        o.square().sum().backward()
        return [o, *(x.grad for x in given)]

    want = values_and_gradients(exact, "reference")
    got = values_and_gradients([x.float().cuda() for x in exact], "chunked")
    for a, b in zip(got, want, strict=True):
        assert (a.double().cpu() - b).norm() <= 1e-5 * b.norm()
