"""Models whose training takes the operators of `lt2theory.ops.fused`, against plain torch."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import delta
from lt2theory.models import LoopedConfig, LoopedModel, block
from lt2theory.ops.fused import add_norm, gated_norm, loop_residual, norm, rows

Gradients = dict[str, Tensor]
MIXERS = ["gdn", "deltanet", "kda", "gated_deltaproduct", "retnet", "full"]


@pytest.fixture
def fuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has kernels serve every input from now on, wherever it stands."""

    def everywhere() -> None:
        monkeypatch.setattr(delta, "can_fuse", lambda x: True)
        for module in (block, add_norm, gated_norm, loop_residual, norm, rows):
            monkeypatch.setattr(module, "can_fuse_rows", lambda x: True)

    return everywhere


def build(mixer: str, *, batch: int = 2, **options: object) -> tuple[LoopedModel, Tensor]:
    sizes = {"width": 16, "num_layers": 2, "num_heads": 2, "num_loops": 2, "vocab_size": 11}
    own = {"pattern": mixer, "backend": "chunked" if mixer == "full" else "auto"}
    config = LoopedConfig.model_validate({**sizes, **own, **options})
    rng = torch.Generator().manual_seed(1)
    model = LoopedModel(config, generator=rng)
    with torch.no_grad():
        model.loop_gate.copy_(0.3 * torch.randn(model.loop_gate.shape, generator=rng))
    return model, torch.randint(11, (batch, 19), generator=rng)


def step(
    model: LoopedModel, tokens: Tensor, documents: Tensor | None = None
) -> tuple[Tensor, Gradients]:
    model.zero_grad()
    logits = model(tokens, documents=documents)
    F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten()).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return logits.detach(), gradients


def worst(found: Gradients, wanted: Gradients) -> float:
    assert found.keys() == wanted.keys()
    return max(float((found[n] - w).norm() / (w.norm() + 1e-30)) for n, w in wanted.items())


@pytest.mark.interpreter
@pytest.mark.parametrize("mixer", MIXERS)
def test_float32_is_as_in_plain_torch(fuse: Callable[[], None], mixer: str) -> None:
    model, tokens = build(mixer, negative_eigenvalues=True)
    logits, gradients = step(model, tokens)
    fuse()
    found, same = step(model, tokens)
    torch.testing.assert_close(found, logits, atol=1e-5, rtol=1e-4)
    assert worst(same, gradients) < 2e-5


@pytest.mark.interpreter
@pytest.mark.parametrize("mixer", ["gdn", "kda"])
def test_packed_documents_are_as_in_plain_torch(
    fuse: Callable[[], None], monkeypatch: pytest.MonkeyPatch, mixer: str
) -> None:
    """Language models train on windows that cross the borders of documents."""
    model, tokens = build(mixer)
    documents = (torch.arange(19) >= torch.tensor([[7], [12]])).long() - torch.tensor([[0], [1]])
    logits, gradients = step(model, tokens, documents)
    fuse()
    calls = []
    inputs = delta.delta_inputs
    monkeypatch.setattr(delta, "delta_inputs", lambda *x: calls.append(x) or inputs(*x))
    found, same = step(model, tokens, documents)
    assert len(calls) == 4
    torch.testing.assert_close(found, logits, atol=1e-5, rtol=1e-4)
    assert worst(same, gradients) < 2e-5


@pytest.mark.interpreter
@pytest.mark.parametrize(
    "options",
    [
        {"sandwich_norm": True, "norm_between_loops": True},
        {"ffn_width": 0},
        {"decay_grain": "channel"},
        {"decay_grain": "none"},
        {"loop_state": "accumulate", "checkpointing": "loop"},
    ],
)
def test_options_are_as_in_plain_torch(
    fuse: Callable[[], None], options: dict[str, object]
) -> None:
    model, tokens = build("gdn", **options)
    logits, gradients = step(model, tokens)
    fuse()
    found, same = step(model, tokens)
    torch.testing.assert_close(found, logits, atol=1e-5, rtol=1e-4)
    assert worst(same, gradients) < 2e-5


@pytest.mark.gpu
@pytest.mark.parametrize("mixer", MIXERS)
def test_autocast_on_a_gpu_is_as_exact_as_in_plain_torch(
    monkeypatch: pytest.MonkeyPatch, mixer: str
) -> None:
    """Against float32 on the same device: the kernels are no further away than plain torch."""
    model, tokens = build(mixer, batch=64, width=64, backend="chunked")
    model, tokens = model.cuda(), tokens.cuda()
    assert rows.can_fuse_rows(model.embedding(tokens))

    def gradients() -> Gradients:
        with torch.autocast("cuda", torch.bfloat16):
            return step(model, tokens)[1]

    fused = gradients()
    monkeypatch.setattr(rows, "_FEW", 1 << 40)
    plain = gradients()
    exact = step(model, tokens)[1]
    assert worst(fused, exact) <= 1.5 * worst(plain, exact) + 1e-3
