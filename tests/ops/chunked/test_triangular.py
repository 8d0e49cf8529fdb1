import pytest
import torch

from lt2theory.ops.chunked.triangular import block_lower, unit_lower_inverse


def strict_lower(count: int, size: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, size, size, generator=generator, dtype=torch.float64).tril(-1) / 2


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 12, 16, 24, 33])
def test_equals_torch_inverse(size):
    strict = strict_lower(3, size)
    expected = torch.linalg.inv(torch.eye(size, dtype=torch.float64) - strict)
    torch.testing.assert_close(unit_lower_inverse(strict), expected, atol=1e-11, rtol=1e-11)


def test_ignores_diagonal_and_upper_part():
    strict = strict_lower(3, 8).requires_grad_()
    rubbish = torch.full((8, 8), 7.0, dtype=torch.float64).triu()
    inverse = unit_lower_inverse(strict + rubbish)
    assert torch.equal(inverse, unit_lower_inverse(strict))
    (gradient,) = torch.autograd.grad(inverse.square().sum(), strict)
    assert torch.equal(gradient, gradient.tril(-1))
    assert gradient.abs().sum() > 0


def test_reflections_with_one_key():
    """beta = 2 and one unit key: all entries below the diagonal are -2, the worst cancellation."""
    strict = torch.full((1, 32, 32), -2.0).tril(-1)
    signs = torch.tensor([(-1.0) ** i for i in range(32)])
    expected = (2 * signs[:, None] * signs[None, :]).tril(-1) + torch.eye(32)
    torch.testing.assert_close(unit_lower_inverse(strict)[0], expected, atol=1e-5, rtol=0)


# Forward mode makes torch load its own scripted decompositions, which it calls deprecated itself.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_first_and_second_derivatives():
    strict = strict_lower(2, 6).requires_grad_()
    assert torch.autograd.gradcheck(unit_lower_inverse, strict, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(unit_lower_inverse, strict)


def test_under_vmap():
    strict = torch.stack([strict_lower(2, 6, seed) for seed in range(3)])
    expected = torch.stack([unit_lower_inverse(x) for x in strict])
    torch.testing.assert_close(torch.func.vmap(unit_lower_inverse)(strict), expected)


def lower_parts(requires_grad: bool = False) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((8, 2, 3), (4, 2, 3), (2, 4, 6))
    return [
        torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_(requires_grad)
        for s in shapes
    ]


def test_blocks_stand_in_their_places():
    diagonal, quarter, half = lower_parts()
    expected = torch.zeros(2, 8, 12, dtype=torch.float64)
    for n in range(2):
        for i in range(4):
            expected[n, 2 * i : 2 * i + 2, 3 * i : 3 * i + 3] = diagonal[4 * n + i]
        for i in range(2):
            expected[n, 4 * i + 2 : 4 * i + 4, 6 * i : 6 * i + 3] = quarter[2 * n + i]
        expected[n, 4:, :6] = half[n]
    assert torch.equal(block_lower([diagonal, quarter, half]), expected)
    assert block_lower([half]) is half


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_derivatives_of_blocks():
    parts = lower_parts(requires_grad=True)

    def squared(*given):
        return block_lower(given).square()

    assert torch.autograd.gradcheck(squared, parts, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(squared, parts)
