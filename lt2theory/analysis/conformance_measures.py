"""How the properties of docs/conformance.md are measured, one number each.

The model is small and looped, with short convolutions, rotary positions, grouped key heads, and
windows, blocks and selections shorter than the sequence. A number is the largest difference
relative to the largest entry.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.block import Block
from lt2theory.ops import Factors, run_factors, run_normalised

Build = Callable[..., LoopedModel]
"""Makes the model that is measured; keywords change fields of its config."""

LENGTH = 13
"""Tokens of a row."""
SIZES = {
    "num_layers": 1, "num_loops": 2, "width": 32, "num_heads": 2, "num_kv_heads": 1,
    "ffn_width": 8, "vocab_size": 7, "conv_width": 3, "window": 3, "block_size": 2,
    "num_blocks": 2, "top_k": 3, "index_heads": 2, "index_dim": 4, "positions": "rope",
}  # fmt: skip


def small_model(mixer: str, backend: str, **changes: object) -> LoopedModel:
    """The model that is measured, in float64; its weights do not depend on the backend.

    Args:
        mixer: Its pattern.
        backend: Backend of its ops.
        changes: Fields of its config.

    Returns:
        The model, away from its start, so that every part matters.
    """
    config = LoopedConfig.model_validate({**SIZES, "pattern": mixer, **changes})
    model, noise = LoopedModel(config).double(), torch.Generator().manual_seed(1)
    state = {
        name: x + 0.1 * torch.randn(x.shape, generator=noise, dtype=torch.float64)
        for name, x in model.state_dict().items()
    }
    chosen = LoopedModel(config.model_copy(update={"backend": backend})).double()
    chosen.load_state_dict(state)
    return chosen


def draw_tokens(batch: int = 2, length: int = LENGTH) -> Int[Tensor, "b t"]:
    """Random tokens, the same at every call.

    Args:
        batch: Rows.
        length: Tokens a row.

    Returns:
        Ids `[b t]`.
    """
    generator = torch.Generator().manual_seed(7)
    return torch.randint(7, (batch, length), generator=generator)


def relative_error(got: Float[Tensor, "*shape"], want: Float[Tensor, "*shape"]) -> float:
    """Largest difference over the largest entry of `want`.

    Args:
        got: What was computed.
        want: What it should be.

    Returns:
        The number; infinite where `want` is zero throughout, since nothing is then compared.
    """
    largest = want.abs().max()
    if largest == 0:
        return float("inf")
    return float((got.double() - want.double()).abs().max() / largest)


def training_step(model: LoopedModel, tokens: Int[Tensor, "b t"]) -> dict[str, Tensor]:
    """Logits, and the gradient of every parameter that has one.

    Args:
        model: The model.
        tokens: Inputs, and targets too.

    Returns:
        `logits` and the gradients by the names of their parameters.
    """
    logits = model(tokens)
    F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"logits": logits.detach(), **gradients}


def step_errors(
    model: LoopedModel, other: LoopedModel, tokens: Int[Tensor, "b t"]
) -> dict[str, float]:
    """Relative errors of a training step against another model's.

    Args:
        model: The model.
        other: What it should be like.
        tokens: Inputs of both.

    Returns:
        Those of `logits` and of the gradients, by name.
    """
    got, want = training_step(model, tokens), training_step(other, tokens)
    assert set(got) == set(want), "both models have the same parameters"
    return {name: relative_error(got[name], want[name]) for name in want}


@torch.no_grad()
def causality_error(build: Build) -> float:
    """How far outputs move with a later token, which is infinite where none moves with its own.

    Args:
        build: Makes the model.

    Returns:
        The relative difference before the changed tokens.
    """
    model, tokens = build(), draw_tokens()
    changed = torch.cat([tokens[:, :7], (tokens[:, 7:] + 1) % 7], 1)
    before, after = model(tokens), model(changed)
    if torch.allclose(before[:, 7], after[:, 7]):
        return float("inf")
    return relative_error(after[:, :7], before[:, :7])


@torch.no_grad()
def streaming_error(build: Build) -> float:
    """Prefill in pieces and decoding, against the parallel form.

    Args:
        build: Makes the model.

    Returns:
        The relative difference of the logits.
    """
    model, tokens = build(), draw_tokens()
    cache, cuts = model.new_cache(2), itertools.pairwise([0, 5, 6, 10, 11, 12, LENGTH])
    pieces = [model(tokens[:, a:b], cache) for a, b in cuts]
    return relative_error(torch.cat(pieces, 1), model(tokens))


@torch.no_grad()
def padding_error(build: Build) -> float:
    """A row padded on the left, and one beside it, against each alone.

    Args:
        build: Makes the model.

    Returns:
        The relative difference of the logits.
    """
    model, tokens = build(), draw_tokens()
    padded = model(tokens, lengths=torch.tensor([LENGTH, 4]))
    alone = model(tokens[1:, LENGTH - 4 :])
    beside = relative_error(padded[:1], model(tokens[:1]))
    return max(beside, relative_error(padded[1:, LENGTH - 4 :], alone))


@torch.no_grad()
def packing_error(build: Build) -> float:
    """Packed documents against each alone.

    Args:
        build: Makes the model.

    Returns:
        The relative difference of the logits.
    """
    model, tokens = build(), draw_tokens(1)
    documents = torch.tensor([[4] * 6 + [1] * 1 + [2] * 6])
    packed = model(tokens, documents=documents)
    parts = itertools.pairwise([0, 6, 7, LENGTH])
    return max(relative_error(packed[:, a:b], model(tokens[:, a:b])) for a, b in parts)


def checkpointing_error(build: Build) -> float:
    """Recomputed loops and blocks against kept ones; values must be the same bits.

    Args:
        build: Makes the model.

    Returns:
        The relative difference of the gradients, infinite where a logit differs.
    """
    errors = []
    for checkpointing in ("loop", "block"):
        found = step_errors(build(checkpointing=checkpointing), build(), draw_tokens())
        errors += [float("inf") if found["logits"] else max(found.values())]
    return max(errors)


@torch.no_grad()
def accumulate_error(build: Build) -> float:
    """The last loop against a plain recurrence over T times as many tokens, one a loop.

    Args:
        build: Makes the model, of a linear mixer.

    Returns:
        The relative difference of the residual stream.
    """
    model, tokens = build(loop_state="accumulate", ffn_width=0), draw_tokens()
    trace, block = model.trace(tokens), model.blocks[0]
    assert isinstance(block, Block), "a looped model is made of blocks"
    loops = [trace.factors[0, loop] for loop in range(model.config.num_loops)]
    read = _read_interleaved([one for one in loops if isinstance(one, Factors)])
    x = block.mixer_norm(trace.states[1])
    want = trace.states[1] + block.mixer.output(read, x)
    return relative_error(trace.residuals[0, 1], want)


MEASURES: dict[str, Callable[[Build], float]] = {
    "causality": causality_error,
    "streaming": streaming_error,
    "padding": padding_error,
    "packing": packing_error,
    "checkpointing": checkpointing_error,
}
"""The properties that need one model alone, whatever its mixer."""


def _read_interleaved(loops: list[Factors]) -> Tensor:
    """What a token's last micro-token reads, where every micro-token has one loop's factors."""

    def weave(name: str) -> Tensor | None:
        parts = [getattr(loop, name) for loop in loops]
        return None if parts[0] is None else torch.stack(parts, 2).flatten(1, 2).double()

    names = ("q", "k", "v", "log_decay", "beta", "write", "log_write")
    last = loops[-1]
    changes: dict[str, Any] = {name: weave(name) for name in names}
    changes["skip"] = None if last.skip is None else last.skip.double()
    woven = replace(last, **changes)
    run = run_factors if woven.log_write is None else run_normalised
    read: Tensor = run(woven, backend="reference")[0][:, len(loops) - 1 :: len(loops)]
    return read.to(last.q.dtype)
