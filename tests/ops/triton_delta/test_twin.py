"""The plain-torch twin of the kernels against autograd of the token-by-token reference."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.ops import Factors
from lt2theory.ops.reference import reference_recurrence
from tests.ops.triton_delta import twin

Make = Callable[..., Factors]
Gradients = Callable[..., dict[str, Tensor]]


class Twin(torch.autograd.Function):
    """One stream of one factor a token through the twin's own forward and backward."""

    @staticmethod
    def forward(ctx, size, state, *tensors):
        stream = twin.Stream(*tensors)
        output, final, states, inverses = twin.forward(stream, state, size)
        ctx.kept = stream, states, inverses, size
        return output, final

    @staticmethod
    def backward(ctx, grad_output, grad_state):
        stream, states, inverses, size = ctx.kept
        grads, initial = twin.backward(stream, states, inverses, grad_output, grad_state, size)
        return None, initial, *vars(grads).values()


def run(size: int) -> Callable[[Factors, Tensor | None], tuple[Tensor, Tensor]]:
    def compute(factors: Factors, state: Tensor | None) -> tuple[Tensor, Tensor]:
        f, scale = factors.num_factors, factors.k.shape[-1] ** -0.5
        one = factors.k[0, :, :, 0].flatten(0, 1)
        q = torch.zeros_like(one).unflatten(0, (-1, f))
        q = torch.cat([q[:, 1:], scale * factors.q[0]], 1).flatten(0, 1)

        def gate(x: Tensor | None, default: float) -> Tensor:
            return torch.full_like(one[:, 0], default) if x is None else x[0, :, :, 0].flatten()

        beta = gate(factors.beta, 0.0)
        write = gate(factors.write, 1.0) if factors.write is not None else None
        default = beta if factors.beta is not None else gate(None, 1.0)
        assert state is not None
        output, final = Twin.apply(
            size,
            state[0, 0],
            q,
            one,
            factors.v[0, :, :, 0].flatten(0, 1),
            gate(factors.log_decay, 0.0),
            beta,
            default if write is None else write,
        )
        return output[f - 1 :: f][None, :, None], final[None, None]

    return compute


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize(("length", "num_factors"), [(1, 1), (8, 1), (37, 1), (11, 3)])
@pytest.mark.parametrize(
    ("decay", "beta", "write"),
    [
        ("none", 2.0, False),
        ("scalar", "uniform", False),
        ("scalar-reset", "uniform", True),
        ("scalar-strong", 0.5, False),
        ("scalar-mixed", None, True),
        ("none", None, False),
    ],
)
def test_twin(
    make_factors: Make,
    gradients: Gradients,
    size: int,
    length: int,
    num_factors: int,
    decay: str,
    beta: str | float | None,
    write: bool,
) -> None:
    factors = make_factors(
        length=length,
        num_factors=num_factors,
        batch=1,
        heads=1,
        decay=decay,
        beta=beta,
        write=write,
    )
    state = torch.randn(1, 1, 4, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = gradients(run(size), factors, state)
    for name, want in gradients(reference_recurrence, factors, state).items():
        # Resets of -1000 and decays of e^-20 are 0 beyond the smallest numbers of float64 sums.
        assert (found[name] - want).abs().max() <= 1e-12 * (1 + want.abs().max()), name


def test_equal_keys_reflected_at_every_step() -> None:
    """beta = 2: powers of the matrix grow, its inverse does not."""
    below = 2.0 * torch.ones(64, 64, dtype=torch.float32).tril(-1)
    found = twin.unit_lower_inverse(below)
    assert torch.equal(found @ (below + torch.eye(64)), torch.eye(64))
