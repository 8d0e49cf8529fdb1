"""How factors become the steps of a kernel, with a slow one of torch in the place of FLA's."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.ops import Factors
from lt2theory.ops.fla.kernels import GLA, Kernel, Steps
from lt2theory.ops.fla.steps import run_kernel
from lt2theory.ops.reference import reference_recurrence


def slow_gla(lengths: list[int]) -> Kernel:
    """GLA step by step, which notes how many steps it was given."""

    def chunk(x: Steps) -> tuple[Tensor, Tensor]:
        lengths.append(x.q.shape[1])
        assert x.log_decay is not None
        state, outputs = x.state, []
        for q, k, v, decay in zip(
            *(y.unbind(1) for y in (x.q, x.k, x.v, x.log_decay.exp())), strict=True
        ):
            write = k.unsqueeze(-1) * v.unsqueeze(-2)
            state = write + (0 if state is None else decay.unsqueeze(-1) * state)
            outputs.append(torch.einsum("bhk,bhkv->bhv", q * x.scale, state))
        assert state is not None
        return torch.stack(outputs, 1), state

    return replace(GLA, chunk=chunk)


@pytest.mark.parametrize(("length", "num_factors"), [(1, 1), (17, 1), (9, 3), (64, 1), (65, 1)])
def test_short_sequences_are_filled_up(length: int, num_factors: int) -> None:
    """FLA's chunk_gla chooses chunks of 32 for up to 32 steps, and one such kernel is faulty."""
    draw = torch.Generator().manual_seed(length)
    shape = (2, length, num_factors, 3, 16)
    k, v, decay = (torch.randn(shape, generator=draw, requires_grad=True) for _ in range(3))
    q = torch.randn(2, length, 3, 16, generator=draw, requires_grad=True)
    state = torch.randn(2, 3, 16, 16, generator=draw, requires_grad=True)
    inputs = (q, k, v, decay, state)
    lengths: list[int] = []
    found, expected = (
        run(Factors(q=q, k=k, v=v, log_decay=-decay.square()))
        for run in (
            lambda factors: run_kernel(slow_gla(lengths), factors, state),
            lambda factors: reference_recurrence(factors, state),
        )
    )
    assert lengths == [max(length * num_factors, 64)]
    for ours, exact in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-4, atol=1e-4)
    slopes = [
        torch.autograd.grad(output.square().mean() + last.square().mean(), inputs)
        for output, last in (found, expected)
    ]
    for ours, exact in zip(*slopes, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-3, atol=1e-6)
