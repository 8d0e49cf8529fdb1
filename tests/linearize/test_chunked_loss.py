"""The chunked loss against the plain one in float64: values, gradients, memory."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.linearize.chunked_loss import chunked_loss
from lt2theory.linearize.distillation import Distillation
from lt2theory.linearize.divergence import recovery, token_kl
from lt2theory.linearize.hybrids import student_config
from lt2theory.models import LoopedModel

Make = Callable[..., LoopedModel]
Text = Callable[[int, int, int], Tensor]


def drawn(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def plain(
    z: Tensor, taught: Tensor, targets: Tensor, weights: tuple[float, float], heat: float
) -> Tensor:
    """As in the papers, with all logits at once and nothing of ours."""
    p = (taught / heat).softmax(-1)
    kl = (p * ((taught / heat).log_softmax(-1) - (z / heat).log_softmax(-1))).sum(-1)
    ce = -z.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1)
    return (weights[0] * ce + weights[1] * heat**2 * kl).sum()


@pytest.mark.parametrize(("n", "d", "vocab"), [(1, 3, 2), (7, 5, 11), (37, 9, 101)])
@pytest.mark.parametrize("chunk", [1, 5, 64, None])
@pytest.mark.parametrize(("weights", "heat"), [((1.0, 1.0), 1.0), ((0.3, 2.0), 1.7)])
def test_value_and_gradients_are_those_of_the_plain_loss(
    n: int, d: int, vocab: int, chunk: int | None, weights: tuple[float, float], heat: float
) -> None:
    h, head = drawn(n, d, seed=0).requires_grad_(), drawn(vocab, d, seed=1).requires_grad_()
    taught = drawn(n, vocab, seed=2)
    targets = torch.arange(n) * 7 % vocab

    def judge(logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        ce = F.cross_entropy(logits, targets[part], reduction="sum")
        kl = token_kl(taught[part] / heat, logits / heat).sum() * heat**2
        return weights[0] * ce + weights[1] * kl, torch.stack([ce, kl])

    total, sums = chunked_loss(h, head, judge, chunk=chunk)
    expected = plain(h @ head.T, taught, targets, weights, heat)
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=1e-12)
    assert not sums.requires_grad
    torch.testing.assert_close(
        sums @ torch.tensor(weights, dtype=torch.float64), total, rtol=1e-12, atol=1e-12
    )
    found = torch.autograd.grad(3.0 * total, (h, head))
    wanted = torch.autograd.grad(3.0 * expected, (h, head))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


def test_only_what_is_asked_for_has_a_gradient() -> None:
    h, head = drawn(5, 3, seed=0), drawn(7, 3, seed=1).requires_grad_()
    total, _ = chunked_loss(h, head, lambda z, part: (z.square().sum(), z.sum()[None]), chunk=2)
    total.backward()
    torch.testing.assert_close(head.grad, 2 * head.detach() @ (h.T @ h), rtol=1e-12, atol=1e-12)
    assert h.grad is None


def test_chunks_and_tokens_are_refused_by_name() -> None:
    h, head = drawn(5, 3, seed=0), drawn(7, 3, seed=1)
    with pytest.raises(ValueError, match="chunk: 0 must be >= 1"):
        chunked_loss(h, head, lambda z, part: (z.sum(), z.sum()[None]), chunk=0)
    with pytest.raises(ValueError, match="h: got no token"):
        chunked_loss(h[:0], head, lambda z, part: (z.sum(), z.sum()[None]))


def largest(run: Callable[[], object]) -> int:
    """Numbers in the largest tensor that any operation gives, forward and backward."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Watch(TorchDispatchMode):
        most = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            sizes = [x.numel() for x in tree_leaves(out) if isinstance(x, Tensor)]
            self.most = max([self.most, *sizes])
            return out

    with Watch() as watch:
        run()
    return watch.most


def test_no_model_ever_has_all_logits(teacher: Make, text: Text) -> None:
    """Forward and backward of the distillation, and the evaluation."""
    model = teacher(vocab_size=4096).float().requires_grad_(False)
    config = student_config(model.config, "gdn", backend="chunked")
    student = LoopedModel(config)
    tokens = text(3, 35, 1)
    objective = Distillation(chunk=16).build(student, model)

    def step() -> None:
        loss, _ = objective(tokens, tokens, None, label_share=1.0, row_share=1.0)
        loss.backward()

    head = 4096 * model.config.width  # the head's gradient is as large as the head
    assert largest(step) <= max(16 * 4096, head) < 3 * 35 * 4096
    assert largest(lambda: recovery(model, student, tokens, chunk=16)) <= max(16 * 4096, head)
