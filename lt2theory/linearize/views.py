"""What a teacher did inside, place by place: the inputs and targets of its mixers and blocks.

A place is a (layer, loop). Students are compared with the teacher there, each mixer fed with the
teacher's own input ("teacher-forced"), so that layers can be fitted side by side.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.mixers import Stream
from lt2theory.models import LoopedModel
from lt2theory.models.block import AnyMixer, Block
from lt2theory.models.loop_state import LoopState, Prepared

_OUT = ("o_proj", "out_proj")
"""Names of a mixer's last projection."""


def mixer_of(name: str) -> tuple[int, int] | None:
    """The mixer that a parameter of a model belongs to.

    Args:
        name: The parameter's name in the model.

    Returns:
        Its layer and its number there (0 is `Block.mixer`); None of what is no mixer's.
    """
    parts = name.split(".")
    if parts[0] != "blocks" or parts[2] not in ("mixer", "other_mixers"):
        return None
    return int(parts[1]), 0 if parts[2] == "mixer" else int(parts[3]) + 1


@dataclass(frozen=True)
class View:
    """One place of a teacher.

    Attributes:
        layer: Layer, counted from 0.
        loop: Loop, counted from 0.
        before: Residual stream that enters the block `[b t d]`.
        x: What its mixer reads: the normalised stream `[b t d]`.
        prepared: What its mixer prepared for the op there: queries, keys and values.
        heads: What its heads give, gated, before the output projection `[b t h*v]`.
        mixed: What its mixer gives, after the output projection and before any norm behind it:
            the target of a student's mixer `[b t d]`.
        after: Residual stream after the block, before the loop's residual and final norm: the
            target of a student's block `[b t d]`. At the last layer this is not what transformers
            calls `hidden_states[-1]`, which has been through the final norm.
    """

    layer: int
    loop: int
    before: Float[Tensor, "b t d"]
    x: Float[Tensor, "b t d"]
    prepared: Prepared
    heads: Float[Tensor, "b t n"]
    mixed: Float[Tensor, "b t d"]
    after: Float[Tensor, "b t d"]


@torch.no_grad()
def teacher_views(
    teacher: LoopedModel, tokens: Int[Tensor, "b t"], *, layers: Collection[int] | None = None
) -> list[View]:
    """Run a teacher once and look at its places, without gradients.

    Args:
        teacher: The teacher.
        tokens: Token ids.
        layers: Layers to look at; None for all.

    Returns:
        One view a place, in the order of computation: loop by loop.
    """
    trace = teacher.trace(tokens)
    state = open_state(teacher, tokens.shape)
    views = []
    for loop in range(teacher.config.num_loops):
        before = trace.states[loop]
        for layer in range(teacher.config.num_layers):
            after = trace.residuals[layer, loop]
            if layers is not None and layer not in layers:
                before = after
                continue
            block = block_at(teacher, layer)
            x = block.mixer_norm(before)
            mixer = mixer_at(teacher, layer, loop)
            heads, mixed = run_mixer(state, mixer, x, layer, loop)
            prepared = trace.factors[layer, loop]
            views.append(View(layer, loop, before, x, prepared, heads, mixed, after))
            before = after
    return views


def open_state(model: LoopedModel, shape: tuple[int, ...]) -> LoopState:
    """A loop state for one unbroken stream without memory.

    Args:
        model: The model whose mixers will run.
        shape: Rows and tokens.

    Returns:
        The state; under `accumulate` a layer's loops must run in order.
    """
    positions = torch.arange(shape[1], device=model.embedding.weight.device)
    return LoopState(model.config, Stream(positions.expand(shape[0], shape[1])))


def run_mixer(
    state: LoopState, mixer: AnyMixer, x: Float[Tensor, "b t d"], layer: int, loop: int
) -> tuple[Float[Tensor, "b t n"], Float[Tensor, "b t d"]]:
    """Run one mixer with its op, and look at what its output projection reads.

    Args:
        state: As from `open_state`, of the model that the mixer belongs to.
        mixer: The mixer.
        x: Its input.
        layer: Layer, counted from 0.
        loop: Loop, counted from 0.

    Returns:
        The input of the output projection `[b t h*v]`, and what the mixer gives `[b t d]`.
    """
    seen: list[Tensor] = []
    out = out_projection(mixer)
    hook = out.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        mixed = state.mix_at(layer, loop)(mixer, x)
    finally:
        hook.remove()
    return seen[0], mixed


def out_projection(mixer: AnyMixer) -> torch.nn.Linear:
    """The last projection of a mixer.

    Args:
        mixer: The mixer.

    Returns:
        `o_proj`, or the mLSTM's `out_proj`.
    """
    name = next(name for name in _OUT if hasattr(mixer, name))
    out = mixer.get_submodule(name)
    assert isinstance(out, torch.nn.Linear)
    return out


def block_at(model: LoopedModel, layer: int) -> Block:
    """One block of a model.

    Args:
        model: The model.
        layer: Layer, counted from 0.

    Returns:
        The block.
    """
    block = model.blocks[layer]
    assert isinstance(block, Block)
    return block


def mixer_at(model: LoopedModel, layer: int, loop: int) -> AnyMixer:
    """The mixer that a layer uses in a loop.

    Args:
        model: The model.
        layer: Layer, counted from 0.
        loop: Loop, counted from 0.

    Returns:
        The mixer.
    """
    return block_at(model, layer).mixers[model.config.mixer_number(layer, loop)]
