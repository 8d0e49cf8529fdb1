"""Running sums by doubling are those of torch, which stay in use elsewhere."""

import pytest
import torch

from lt2theory.ops.chunked.running_sum import running_sum, sum_by_doubling


@pytest.mark.parametrize("length", [0, 1, 2, 3, 16, 23])
@pytest.mark.parametrize("rest", [(), (3,)])
def test_doubling_gives_the_same_sums_and_gradients(length: int, rest: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, length, *rest, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    got, want = sum_by_doubling(x), x.cumsum(1)
    torch.testing.assert_close(got, want, atol=1e-14, rtol=1e-14)
    gradients = [torch.autograd.grad((y * weight).sum(), x)[0] for y in (got, want)]
    torch.testing.assert_close(*gradients, atol=1e-14, rtol=1e-14)


def test_a_decay_of_zero_stays_one() -> None:
    x = torch.tensor([[-1.0, -torch.inf, -2.0]])
    assert sum_by_doubling(x).tolist() == [[-1.0, -torch.inf, -torch.inf]]


@pytest.mark.gpu
def test_a_gpu_that_has_to_be_deterministic() -> None:
    x = torch.randn(3, 50, 7, generator=torch.Generator().manual_seed(0)).cuda()
    torch.use_deterministic_algorithms(True)
    try:
        got = running_sum(x)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(got, sum_by_doubling(x))
