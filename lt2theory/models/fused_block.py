"""A block as a few kernels a decode step.

Norm and projections; what the mixer does (one kernel for a delta rule); the output projection and
its residual; norm and SwiGLU; its projection and residual. Weights are read once and nothing else
of size is moved but the state or the keys and values that are attended to.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from lt2theory.mixers import DeltaNet, GatedDeltaNet
from lt2theory.mixers.norm import RMSNorm
from lt2theory.models.block import Block
from lt2theory.models.config import LoopedConfig
from lt2theory.models.static_cache import StaticSlot


class PackedBlock(ABC):
    """The weights of one block, packed for the kernels (a copy of them).

    Args:
        block: The block.
        parts: Names of the projections of its mixer, in the order in which they are packed.
        config: Config of its model.
    """

    def __init__(self, block: Block, parts: Sequence[str], config: LoopedConfig) -> None:
        mixer = block.mixer
        rows = [weight_of(mixer.get_submodule(part)) for part in parts]
        self.eps = config.norm_eps
        self.projections = folded(torch.cat(rows), block.mixer_norm)
        self.out = weight_of(mixer.get_submodule("o_proj")).contiguous()
        self._arrived: Tensor | None = None
        self.up = self.down = None
        if block.ffn is not None and block.ffn_norm is not None:
            both = torch.cat([block.ffn.w1.weight, block.ffn.w3.weight])
            self.up = folded(both, block.ffn_norm)
            self.down = block.ffn.w2.weight.detach().contiguous()

    @abstractmethod
    def mix(
        self, projected: Float[Tensor, "b n"], buffer: StaticSlot, length: Tensor, first: Tensor
    ) -> Float[Tensor, "b m"]:
        """Take one token through the mixer, between its projections.

        Args:
            projected: The packed projections of the normalised residual stream.
            buffer: What the mixer remembers in this loop, changed in place.
            length: Tokens so far, this one included: int64 `[1]`.
            first: First real position of every row `[b]`, int64.

        Returns:
            The input of the output projection.
        """

    def step(
        self, h: Float[Tensor, "b d"], buffer: StaticSlot, length: Tensor, first: Tensor
    ) -> Float[Tensor, "b d"]:
        """Take one token through the block.

        Args:
            h: Residual stream.
            buffer: As for `mix`.
            length: As for `mix`.
            first: As for `mix`.

        Returns:
            The residual stream after the block, in a tensor of its own.
        """
        from lt2theory.ops.fused.triton_linear import few_rows_linear

        # The embedding is launched the usual way, and neither what a token leaves in the buffers
        # nor the weights are written after it.
        product = partial(few_rows_linear, settled=True)
        h = h.contiguous()
        projected = h.new_empty(len(h), self.projections.shape[0])
        product(h, self.projections, projected, eps=self.eps)
        read = self.mix(projected, buffer, length, first)
        after = product(read, self.out, torch.empty_like(h), residual=h)
        if self.up is None or self.down is None:
            return after
        hidden = h.new_empty(len(h), self.down.shape[1])
        product(after, self.up, hidden, eps=self.eps, swiglu=True)
        return product(hidden, self.down, after, residual=after)

    def arrived(self, batch: int, heads: int) -> Tensor:
        """Counters of the mixer's kernels, which are all zero between them.

        Args:
            batch: Rows.
            heads: Heads.

        Returns:
            `[b h]`, int32, the same tensor for the same sizes.
        """
        if self._arrived is None or self._arrived.shape != (batch, heads):
            device = self.projections.device
            self._arrived = torch.zeros(batch, heads, dtype=torch.int32, device=device)
        return self._arrived


class FusedDelta(PackedBlock):
    """A block whose mixer is GDN or DeltaNet.

    Args:
        block: The block.
        config: Config of its model.
    """

    def __init__(self, block: Block, config: LoopedConfig) -> None:
        mixer = block.mixer
        assert isinstance(mixer, DeltaNet | GatedDeltaNet)
        self.gated = isinstance(mixer, GatedDeltaNet)
        names = ["q_proj", "k_proj", "v_proj"]
        names += ["g_proj", "b_proj", "a_proj"] if self.gated else ["b_proj"]
        super().__init__(block, names, config)
        self.negative = mixer.options.negative_eigenvalues
        convs = (mixer.q_conv1d, mixer.k_conv1d, mixer.v_conv1d) if config.conv_width else ()
        channels = sum(len(weight_of(mixer.get_submodule(name))) for name in names[:3])
        self.taps = (
            torch.cat([weight_of(conv)[:, 0] for conv in convs]).T.contiguous()
            if convs
            else self.projections.new_ones(1, channels)
        )
        self.decay = (
            (mixer.A_log.detach(), mixer.dt_bias.detach())
            if isinstance(mixer, GatedDeltaNet)
            else None
        )
        self.norm = mixer.o_norm.weight.detach()

    @override
    def mix(
        self, projected: Float[Tensor, "b n"], buffer: StaticSlot, length: Tensor, first: Tensor
    ) -> Float[Tensor, "b m"]:
        from lt2theory.ops.fused.triton_delta_step import delta_step

        state, history = buffer.slot.state, buffer.slot.conv
        assert state is not None
        batch, heads, _, values = state.shape
        return delta_step(
            projected,
            projected.new_empty(0) if history is None else history,
            self.taps,
            state,
            self.norm,
            projected.new_empty(batch, heads * values, dtype=torch.float32),
            self.arrived(batch, heads),
            projected.new_empty(batch, heads * values),
            decay=self.decay,
            gated=self.gated,
            negative_eigenvalues=self.negative,
            eps=self.eps,
            settled=True,
        )


def weight_of(module: nn.Module) -> Tensor:
    """The weight of a projection or convolution.

    Args:
        module: The module.

    Returns:
        Its parameter `weight`.
    """
    weight = module.weight
    assert isinstance(weight, Tensor)
    return weight.detach()


def folded(weight: Tensor, norm: RMSNorm) -> Tensor:
    """A matrix with the weights of the norm before it multiplied in.

    Args:
        weight: `[n d]`.
        norm: The norm of its input.

    Returns:
        `weight * norm.weight`, rounded once.
    """
    product = weight.detach().float() * norm.weight.detach().float()
    return product.to(weight.dtype).contiguous()
