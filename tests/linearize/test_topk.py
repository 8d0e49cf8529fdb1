"""Divergences on a teacher's likeliest tokens, and the course of the weights of loops."""

import pytest
import torch
from torch import Tensor

from lt2theory.linearize.divergence import token_kl
from lt2theory.linearize.loop_weights import loop_weights
from lt2theory.linearize.topk import top_k, top_k_kl


def logits(vocab: int, seed: int, scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(3, 5, vocab, generator=generator, dtype=torch.float64)


def plainly(p: Tensor, q: Tensor, k: int, *, tail: bool) -> Tensor:
    """Token by token, from probabilities."""
    found = []
    for one, other in zip(p.flatten(0, 1).softmax(-1), q.flatten(0, 1).softmax(-1), strict=True):
        order = one.argsort(descending=True)[:k]
        top, own = one[order], other[order]
        share, mine = top.sum(), own.sum()
        kl = (top / share * ((top / share) / (own / mine)).log()).sum()
        if tail:
            rest, my_rest = 1 - share, 1 - mine
            kl = share * kl + share * (share / mine).log()
            kl = kl + (rest * (rest / my_rest).log() if k < len(one) else 0)
        found.append(kl)
    return torch.stack(found).unflatten(0, p.shape[:2])


@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize(("vocab", "k"), [(11, 1), (11, 4), (17, 16), (9, 9)])
def test_values_and_gradients_are_those_of_the_definition(vocab: int, k: int, tail: bool) -> None:
    p, q = logits(vocab, 0), logits(vocab, 1).requires_grad_()
    again = q.detach().clone().requires_grad_()
    found = top_k_kl(top_k(p, k), q, tail=tail)
    expected = plainly(p, again, k, tail=tail)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    found.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(q.grad, again.grad, rtol=1e-7, atol=1e-11)


def test_the_divergence_grows_with_k_up_to_the_full_one() -> None:
    p, q = logits(23, 2), logits(23, 3)
    full = token_kl(p, q)
    before = torch.zeros_like(full)
    for k in range(1, 24):
        found = top_k_kl(top_k(p, k), q)
        assert bool((found >= before - 1e-12).all())
        assert bool((found <= full + 1e-12).all())
        before = found
    for k in (22, 23, 40):  # one token or none is left
        torch.testing.assert_close(top_k_kl(top_k(p, k), q), full, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        top_k_kl(top_k(p, 40, temperature=3.0), q, temperature=3.0), token_kl(p / 3, q / 3)
    )


def test_low_precision_is_widened_and_small_tails_keep_their_digits() -> None:
    p = torch.tensor([[40.0, 0.0, 0.0, 0.0]])
    found = top_k(p.bfloat16(), 1)
    assert found.log_p.dtype == torch.float32
    assert found.log_rest is not None
    assert float(found.log_rest[0]) == pytest.approx(-40 + torch.tensor(3.0).log().item(), rel=1e-6)
    assert bool(torch.isfinite(top_k_kl(found, -p)).all())
    with pytest.raises(ValueError, match="k: 0 must be >= 1"):
        top_k(p, 0)


def test_weights_go_from_all_loops_to_the_last() -> None:
    course = {"warm_share": 0.5, "fade_share": 0.2}
    table = torch.stack([loop_weights(4, step, 20, **course) for step in range(20)])
    torch.testing.assert_close(table.sum(1), torch.ones(20, dtype=torch.float64))
    assert bool((table >= 0).all())
    assert table[:10].eq(0.25).all()
    assert table[10:14, -1].tolist() == pytest.approx([0.4375, 0.625, 0.8125, 1.0])
    assert table[14:, -1].eq(1.0).all()
    assert bool((table[1:, -1] >= table[:-1, -1]).all())
    assert table[:, 0].equal(table[:, 1])


def test_courses_at_their_ends() -> None:
    assert loop_weights(3, 0, 9, warm_share=0.0, fade_share=0.0).tolist() == [0, 0, 1]
    last = loop_weights(3, 8, 9, warm_share=1.0, fade_share=0.5)
    assert last.tolist() == pytest.approx([1 / 3] * 3)
    assert loop_weights(1, 3, 9, warm_share=0.5, fade_share=0.5).tolist() == [1.0]
    for name, wrong in (("step", {"step": 9}), ("num_loops", {"num_loops": 0})):
        with pytest.raises(ValueError, match=f"{name}: "):
            loop_weights(
                **{"num_loops": 2, "step": 0, "steps": 9, "warm_share": 0, "fade_share": 0} | wrong
            )
    with pytest.raises(ValueError, match=r"warm_share: 1\.5 must be"):
        loop_weights(2, 0, 9, warm_share=1.5, fade_share=0)
