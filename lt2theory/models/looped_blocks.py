"""The loop itself: T times over the same blocks, whole or in parts that are computed again."""

from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from lt2theory.mixers.norm import RMSNorm
from lt2theory.models.block import Block
from lt2theory.models.checkpointing import recomputed
from lt2theory.models.compiled_block import run_compiled
from lt2theory.models.config import LoopedConfig
from lt2theory.models.loop_state import LoopState
from lt2theory.ops.fused.loop_residual import loop_residual


class Watch(Protocol):
    """Runs the blocks in place of the loop, to see or to change what happens in each."""

    def __call__(
        self, blocks: "LoopedBlocks", layer: int, loop: int, h: Tensor, state: LoopState
    ) -> Tensor:
        """One block of one loop; run once more in backward where it is checkpointed.

        Args:
            blocks: The model.
            layer: Layer, counted from 0.
            loop: Loop, counted from 0.
            h: Residual stream before the block.
            state: The loop state.

        Returns:
            The residual stream after the block.
        """


class LoopedBlocks(nn.Module):
    """N blocks, and what stands between two loops of them; a subclass makes the parts.

    Attributes:
        config: How many loops, and which of the parts below there are.
        blocks: The N blocks, shared over the loops.
        loop_gate: rho_tau `[T d]`, where the config has it.
        norm: The norm at the end, or at the end of every loop.
        compiled: Whether calls for training (gradients on, no cache, no trace) run the parts
            around the ops compiled by torch.compile; false in a new model.
        watch: What runs the blocks in their place, as they are written; none in a new model.
    """

    config: LoopedConfig
    blocks: nn.ModuleList
    loop_gate: nn.Parameter
    norm: RMSNorm
    compiled: bool = False
    watch: Watch | None = None

    def _loop(
        self,
        h: Tensor,
        state: LoopState,
        residuals: dict[tuple[int, int], Tensor] | None = None,
    ) -> tuple[Tensor, ...]:
        """h^(0) .. h^(T); the stream after every block is put into `residuals` where given."""
        grain = self.config.checkpointing
        if residuals is not None or not state.is_repeatable or not torch.is_grad_enabled():
            grain = "none"  # what is kept anyway, or never needed again, is not computed twice
        states = [h]
        for loop in range(self.config.num_loops):
            part = partial(self._one_loop, loop, grain == "block", residuals)
            if grain == "loop":
                h = recomputed(part, h, state, range(len(self.blocks)))
            else:
                h = part(h, state)
            states.append(h)
        return tuple(states)

    def run_loop(self, loop: int, h: Tensor, state: LoopState) -> Tensor:
        """One loop over all blocks.

        Args:
            loop: Loop, counted from 0.
            h: h^(loop).
            state: The loop state, updated.

        Returns:
            h^(loop + 1).
        """
        return self._one_loop(loop, False, None, h, state)

    def _one_loop(
        self,
        loop: int,
        by_block: bool,
        residuals: dict[tuple[int, int], Tensor] | None,
        h: Tensor,
        state: LoopState,
    ) -> Tensor:
        """h^(loop) to h^(loop + 1)."""
        start = h
        for layer in range(len(self.blocks)):
            part = partial(self._one_block, layer, loop)
            h = recomputed(part, h, state, (layer,)) if by_block else part(h, state)
            if residuals is not None:
                residuals[layer, loop] = h
        if self.config.loop_gate:
            h = loop_residual(h, start, self.loop_gate[loop])
        if self.config.norm_between_loops:
            h = self.norm(h)
        return h

    def _one_block(self, layer: int, loop: int, h: Tensor, state: LoopState) -> Tensor:
        """The residual stream through one block of one loop."""
        if self.watch is not None:
            return self.watch(self, layer, loop, h, state)
        block = self.blocks[layer]
        if self.compiled and state.is_repeatable and torch.is_grad_enabled():
            assert isinstance(block, Block)
            mixer = block.mixers[self.config.mixer_number(layer, loop)]
            return run_compiled(block, mixer, h, state, layer, loop)
        number = self.config.mixer_number(layer, loop)
        after: Tensor = block(h, state.mix_at(layer, loop), mixer=number)
        return after
