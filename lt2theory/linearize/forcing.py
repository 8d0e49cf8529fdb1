"""The teacher run place by place, with the student's parts fed the teacher's own stream.

"Teacher-forced": every part of the student reads what the teacher's reads there, so its error is
its own and not that of the layers before it, and the layers learn side by side.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.linearize.views import block_at, mixer_at
from lt2theory.models import LoopedModel
from lt2theory.models.loop_state import LoopState
from lt2theory.models.looped_blocks import LoopedBlocks
from lt2theory.ops.fused.rows import product_dtype


@dataclass(frozen=True)
class Forced:
    """One place: what the teacher read and gave there, for the student to repeat.

    Attributes:
        layer: Layer, counted from 0.
        loop: Loop, counted from 0.
        before: The teacher's residual stream before the block.
        mixed: What its mixer gave, after the output projection and before any norm behind it.
        after: The residual stream after the block, before the loop's residual and final norm: of
            the last block this is not transformers' `hidden_states[-1]`, which was normalised.
        state: A loop state of the student for the same tokens; calls must come loop by loop.
    """

    layer: int
    loop: int
    before: Float[Tensor, "b t d"]
    mixed: Float[Tensor, "b t d"]
    after: Float[Tensor, "b t d"]
    state: LoopState


def force(
    teacher: LoopedModel,
    student: LoopedModel,
    tokens: Int[Tensor, "b t"],
    documents: Int[Tensor, "b t"] | None,
    visit: Callable[[Forced], None],
) -> None:
    """Run the teacher without gradients, and visit every place while it is there.

    Nothing of a place is kept but what `visit` keeps.

    Args:
        teacher: The teacher.
        student: The student; a visit runs with gradients on where the caller has them on.
        tokens: Token ids.
        documents: Documents of the tokens, or None.
        visit: Called once a place, loop by loop.

    Raises:
        ValueError: As `LoopedModel.read_loops`.
    """
    states: list[LoopState] = []
    grad = torch.is_grad_enabled()

    def watch(blocks: LoopedBlocks, layer: int, loop: int, h: Tensor, state: LoopState) -> Tensor:
        if not states:
            states.append(LoopState(student.config, state.stream))
        block = block_at(teacher, layer)
        mixer = mixer_at(teacher, layer, loop)
        mixed = state.mix_at(layer, loop)(mixer, block.mixer_norm(h, product_dtype(h)))
        after = block.finish(h, mixed)
        with torch.set_grad_enabled(grad):
            visit(Forced(layer, loop, h, mixed, after, states[0]))
        return after

    teacher.watch = watch
    try:
        with torch.no_grad():
            teacher.read_loops(tokens, documents=documents)
    finally:
        teacher.watch = None


def student_mixed(student: LoopedModel, place: Forced) -> Float[Tensor, "b t d"]:
    """What the student's mixer gives for the teacher's stream.

    Args:
        student: The student.
        place: The place.

    Returns:
        Its output, after the output projection and before any norm behind it.
    """
    block = block_at(student, place.layer)
    mixer = mixer_at(student, place.layer, place.loop)
    x = block.mixer_norm(place.before, product_dtype(place.before))
    return place.state.mix_at(place.layer, place.loop)(mixer, x)


def student_after(student: LoopedModel, place: Forced) -> Float[Tensor, "b t d"]:
    """What the student's whole block makes of the teacher's stream.

    Args:
        student: The student.
        place: The place.

    Returns:
        The residual stream after the block.
    """
    number = student.config.mixer_number(place.layer, place.loop)
    mix = place.state.mix_at(place.layer, place.loop)
    after: Tensor = block_at(student, place.layer)(place.before, mix, mixer=number)
    return after
