"""What of a transition the token does not explain: none, half, almost all."""

import math

import pytest
import torch

from lt2theory.analysis import ComposedFactors, beyond_token, composed_factors
from lt2theory.models import LoopedConfig, LoopedModel


def factors(keys: torch.Tensor, betas: torch.Tensor | None) -> ComposedFactors:
    return ComposedFactors(0, 1, keys, betas, None, "decay_first")


def test_of_two_orthogonal_keys_a_token_half_is_left() -> None:
    tokens = torch.tensor([[0, 0, 1, 1]])
    axes = torch.eye(3, dtype=torch.float64)
    keys = torch.stack([axes[0], axes[1], axes[2], -axes[2]])[None, :, None, None]
    found = beyond_token(factors(keys, torch.ones(1, 4, 1, 1, dtype=torch.float64)), tokens)
    # Token 0 has two projectors with the mean of both, token 1 one: a sign of its key is none.
    assert found.tolist() == [pytest.approx((0.5 + 0.5) / 4)]


def test_a_token_loop_says_the_same() -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, (2, 9), generator=generator)
    keys = torch.randn(2, 9, 2, 4, 5, generator=generator, dtype=torch.float64)
    betas = 2 * torch.rand(2, 9, 2, 4, generator=generator, dtype=torch.float64)
    found = beyond_token(factors(keys, betas), tokens)
    for head in range(2):
        erased = {
            (b, n): float(betas[b, n, head, -1]) * torch.outer(*2 * [keys[b, n, head, -1]])
            for b in range(2)
            for n in range(9)
        }
        left = 0.0
        for token in range(3):
            mine = [p for at, p in erased.items() if tokens[at] == token]
            mean = sum(mine) / len(mine)
            left += sum(float((p - mean).square().sum()) for p in mine)
        whole = sum(float(p.square().sum()) for p in erased.values())
        assert math.isclose(float(found[head]), left / whole, rel_tol=1e-12)


def test_only_the_first_loop_of_a_model_is_the_token_s() -> None:
    generator = torch.Generator().manual_seed(0)
    config = LoopedConfig(
        vocab_size=5, width=16, num_heads=2, num_layers=1, num_loops=2, pattern="deltanet",
        conv_width=0, loop_state="accumulate",
    )  # fmt: skip
    model = LoopedModel(config).double()
    tokens = torch.randint(5, (4, 12), generator=generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(
                parameter.shape, generator=generator, dtype=torch.float64
            )
        first, second = composed_factors(model.trace(tokens))
    assert beyond_token(first, tokens).max() < 1e-20
    assert beyond_token(second, tokens).min() > 1e-3


def test_heads_that_erase_nothing_have_none() -> None:
    keys, none = torch.randn(1, 4, 1, 1, 3), torch.zeros(1, 4, 1, 1)
    assert beyond_token(factors(keys, none), torch.arange(4)[None]).tolist() == [0.0]


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_factors_that_are_not_finite_are_not_taken_for_functions_of_the_token(lost: float) -> None:
    keys, betas = torch.ones(1, 4, 2, 1, 3), torch.ones(1, 4, 2, 1)
    keys[0, 2, 1] = lost
    found = beyond_token(factors(keys, betas), torch.arange(4)[None])
    assert found[0] == 0
    assert found[1].isnan()


def test_bad_input_is_refused() -> None:
    keys = torch.randn(1, 4, 1, 1, 3)
    with pytest.raises(ValueError, match="composed: its mixer has no beta"):
        beyond_token(factors(keys, None), torch.zeros(1, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"tokens: got \(1, 3\) for spans \(1, 4\)"):
        beyond_token(factors(keys, torch.ones(1, 4, 1, 1)), torch.zeros(1, 3, dtype=torch.int64))
