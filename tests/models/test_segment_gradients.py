"""Segments leave gradients as they are: of one document, of packed ones, and beside padding.

The weights are moved away from their start first, where gates are constant and some errors vanish.
"""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedConfig, LoopedModel

CASES = [
    (name, state)
    for name, mixer in MIXERS.items()
    for state in ("rescan", "accumulate")
    if state == "rescan" or issubclass(mixer, LinearMixer)
]


def moved_model(pattern: str, loop_state: str) -> LoopedModel:
    config = LoopedConfig.model_validate(
        {
            "pattern": pattern,
            "loop_state": loop_state,
            "num_layers": 1,
            "num_loops": 2,
            "num_heads": 2,
            "width": 8,
            "ffn_width": 8,
            "vocab_size": 7,
            "window": 3,
            "block_size": 2,
            "num_blocks": 2,
            "top_k": 3,
            "index_heads": 2,
            "index_dim": 2,
        }
    )
    model = LoopedModel(config).double()
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=rng, dtype=parameter.dtype)
    return model


def loss(model: LoopedModel, tokens: Tensor, **segments: Tensor) -> Tensor:
    """Of the next token at every position, summed; the caller leaves out what is padding."""
    logits = model(tokens, **segments)
    return F.cross_entropy(logits.transpose(1, 2), (tokens + 1) % 7, reduction="none")


def gradients(model: LoopedModel, value: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    return [
        torch.zeros_like(parameter) if gradient is None else gradient
        for gradient, parameter in zip(found, model.parameters(), strict=True)
    ]


def same(found: list[Tensor], wanted: list[Tensor]) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize(("pattern", "loop_state"), CASES)
def test_of_documents_and_padding(pattern: str, loop_state: str) -> None:
    model = moved_model(pattern, loop_state)
    tokens = torch.randint(7, (2, 11), generator=torch.Generator().manual_seed(2))
    whole = gradients(model, loss(model, tokens).sum())
    one_document = torch.zeros_like(tokens)
    same(gradients(model, loss(model, tokens, documents=one_document).sum()), whole)

    cut = 4
    documents = (torch.arange(11) >= cut).long().expand(2, 11)
    packed = gradients(model, loss(model, tokens, documents=documents).sum())
    alone = loss(model, tokens[:, :cut]).sum() + loss(model, tokens[:, cut:]).sum()
    same(packed, gradients(model, alone))

    real = torch.arange(11) >= torch.tensor([[5], [0]])
    padded = loss(model, tokens, lengths=torch.tensor([6, 11]))[real].sum()
    alone = loss(model, tokens[:1, 5:]).sum() + loss(model, tokens[1:]).sum()
    same(gradients(model, padded), gradients(model, alone))
