"""Every preset on a CUDA device: values, gradients, streaming, autocast."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.models import LoopedModel, toys

pytestmark = pytest.mark.gpu

EVERY = sorted(toys())
Build = Callable[..., LoopedModel]


@pytest.mark.parametrize("preset", EVERY)
def test_equals_the_cpu(build: Build, tokens: Tensor, preset: str) -> None:
    model = build(preset)
    want = model(tokens)
    F.cross_entropy(want.flatten(0, 1), tokens.flatten()).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    moved = build(preset).float().cuda()
    got = moved(tokens.cuda())
    F.cross_entropy(got.flatten(0, 1), tokens.cuda().flatten()).backward()
    assert (got.double().cpu() - want).norm() <= 1e-4 * want.norm()
    for name, parameter in moved.named_parameters():
        if name not in gradients:  # an indexer learns from a loss of its own
            assert parameter.grad is None, name
            continue
        error = (parameter.grad.double().cpu() - gradients[name]).norm()
        assert error <= 1e-3 * gradients[name].norm(), name


@pytest.mark.parametrize("preset", EVERY)
def test_streaming_in_float64(build: Build, tokens: Tensor, preset: str) -> None:
    model, tokens = build(preset).cuda(), tokens.cuda()
    cache = model.new_cache(3)
    pieces = [model(tokens[:, a:b], cache) for a, b in ((0, 9), (9, 10), (10, 11), (11, 23))]
    torch.testing.assert_close(torch.cat(pieces, 1), model(tokens), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("preset", EVERY)
def test_autocast_stays_close_and_trains(build: Build, tokens: Tensor, preset: str) -> None:
    exact = build(preset)(tokens)
    model = build(preset).float().cuda()
    with torch.autocast("cuda", torch.bfloat16):
        logits = model(tokens.cuda())
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.cuda().flatten())
    loss.backward()
    assert (logits.double().cpu() - exact).norm() <= 0.1 * exact.norm()  # bf16 keeps 8 bits
    grads = {name: p.grad for name, p in model.named_parameters()}
    assert all("index" in name for name, grad in grads.items() if grad is None)
    assert all(torch.isfinite(grad).all() for grad in grads.values() if grad is not None)
