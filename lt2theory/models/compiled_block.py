"""A block of which torch.compile has fused all but the op, for training.

Around the op a block is many small steps (norm, projections, convolution, gates, residual, FFN).
Two functions hold them, one before the op and one after; the block is an argument, so that the
blocks of one kind, in all loops, share what was compiled for the first of them. The op stays
outside: it is one kernel already, or plain torch whose shapes under `accumulate` change with the
loop.
"""

from collections.abc import Callable
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.mixers import Slot, Stream
from lt2theory.models.block import AnyMixer, Block
from lt2theory.models.loop_state import LoopState, Prepared

Before = Callable[[Block, AnyMixer, Tensor, Stream], tuple[Tensor, Prepared]]
After = Callable[[Block, AnyMixer, Tensor, Tensor, Tensor], Tensor]
KINDS = 64
"""Kinds of layer, sizes and precisions in one process before torch refuses to compile more."""


def run_compiled(
    block: Block,
    mixer: AnyMixer,
    h: Float[Tensor, "b t d"],
    state: LoopState,
    layer: int,
    loop: int,
) -> Float[Tensor, "b t d"]:
    """`block(h, state.mix_at(layer, loop))`, with the parts around the op compiled.

    Every size of `h`, kind of layer and precision is compiled when it first comes (seconds; torch
    keeps the result on disk for later processes).

    Args:
        block: The block.
        mixer: Its mixer in this loop.
        h: Residual stream before it.
        state: A loop state that remembers and records nothing.
        layer: Layer, counted from 0.
        loop: Loop, counted from 0.

    Returns:
        The residual stream after the block.
    """
    assert state.is_repeatable, "compiled parts write to no cache and no record"
    before, after = _parts()
    with torch._dynamo.config.patch(recompile_limit=KINDS):
        x, prepared = before(block, mixer, h, state.stream)
        # A backend may give a view into a padded output, laid out as the loop has factors.
        o = state.run_op(layer, loop, prepared, Slot()).contiguous()
        return after(block, mixer, h, x, o)


def _before(block: Block, mixer: AnyMixer, h: Tensor, stream: Stream) -> tuple[Tensor, Prepared]:
    x = block.mixer_norm(h)
    return x, mixer.prepare(x, stream)


def _after(block: Block, mixer: AnyMixer, h: Tensor, x: Tensor, o: Tensor) -> Tensor:
    return block.finish(h, mixer.output(o, x))


@cache
def _parts() -> tuple[Before, After]:
    """Compiled once a process; a break in a part would be an error, not a slow step."""
    return torch.compile(_before, fullgraph=True), torch.compile(_after, fullgraph=True)
