"""A block of a delta-rule mixer as five kernels a decode step.

Norm and projections; the recurrent step; the output projection and its residual; norm and SwiGLU;
its projection and residual. Weights are read once and nothing else of size is moved but the state.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lt2theory.mixers import DeltaNet, GatedDeltaNet
from lt2theory.mixers.norm import RMSNorm
from lt2theory.models.block import Block
from lt2theory.models.config import LoopedConfig
from lt2theory.models.static_cache import StaticSlot

KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def why_not_fused(config: LoopedConfig, mixer: str) -> str | None:
    """Why a layer cannot take the fused path.

    Args:
        config: The model's config.
        mixer: Name of the layer's mixer.

    Returns:
        The reason, or None where it can.
    """
    if mixer not in {"gdn", "deltanet"}:
        return f"no fused step for {mixer}"
    if config.decay_grain != "own":
        return f"no fused step for decay_grain {config.decay_grain!r}"
    if config.loop_state != "rescan":
        return f"no fused step for several factors a token ({config.loop_state})"
    if config.sandwich_norm:
        return "the fused block has no sandwich norm"
    return None


class FusedBlock:
    """The weights of one block, packed for the kernels (a copy of them).

    Args:
        block: A block whose mixer is GDN or DeltaNet.
        config: Config of its model.
    """

    def __init__(self, block: Block, config: LoopedConfig) -> None:
        mixer = block.mixer
        assert isinstance(mixer, DeltaNet | GatedDeltaNet)
        gated = isinstance(mixer, GatedDeltaNet)
        names = ["q_proj", "k_proj", "v_proj"]
        names += ["g_proj", "b_proj", "a_proj"] if gated else ["b_proj"]
        parts = [mixer.get_submodule(name) for name in names]
        self.gated = gated
        self.negative = mixer.options.negative_eigenvalues
        self.eps = config.norm_eps
        self.projections = folded(torch.cat([weight_of(part) for part in parts]), block.mixer_norm)
        convs = (mixer.q_conv1d, mixer.k_conv1d, mixer.v_conv1d) if config.conv_width else ()
        self.taps = (
            torch.cat([weight_of(conv)[:, 0] for conv in convs]).detach().contiguous()
            if convs
            else self.projections.new_zeros(1)
        )
        self.decay = (
            (mixer.A_log.detach(), mixer.dt_bias.detach())
            if isinstance(mixer, GatedDeltaNet)
            else None
        )
        self.norm = mixer.o_norm.weight.detach()
        self.out = mixer.o_proj.weight.detach().contiguous()
        self._arrived: Tensor | None = None
        self.up = self.down = None
        if block.ffn is not None and block.ffn_norm is not None:
            both = torch.cat([block.ffn.w1.weight, block.ffn.w3.weight])
            self.up = folded(both, block.ffn_norm)
            self.down = block.ffn.w2.weight.detach().contiguous()

    def step(self, h: Float[Tensor, "b d"], buffer: StaticSlot) -> Float[Tensor, "b d"]:
        """Take one token through the block.

        Args:
            h: Residual stream.
            buffer: Convolution history and turned state of this loop, changed in place.

        Returns:
            The residual stream after the block, in a tensor of its own.
        """
        from lt2theory.ops.fused.triton_delta_step import delta_step
        from lt2theory.ops.fused.triton_linear import few_rows_linear

        state = buffer.slot.state
        assert state is not None
        batch, heads, values, _ = state.shape
        history = h.new_empty(0) if buffer.slot.conv is None else buffer.slot.conv
        projected = h.new_empty(batch, self.projections.shape[0])
        few_rows_linear(h.contiguous(), self.projections, projected, eps=self.eps)
        read = delta_step(
            projected,
            history,
            self.taps,
            state,
            self.norm,
            h.new_empty(batch, heads * values, dtype=torch.float32),
            self.arrived(batch, heads),
            h.new_empty(batch, heads * values),
            decay=self.decay,
            gated=self.gated,
            negative_eigenvalues=self.negative,
            eps=self.eps,
        )
        after = few_rows_linear(read, self.out, torch.empty_like(h), residual=h.contiguous())
        if self.up is None or self.down is None:
            return after
        hidden = h.new_empty(batch, self.down.shape[1])
        few_rows_linear(after, self.up, hidden, eps=self.eps, swiglu=True)
        return few_rows_linear(hidden, self.down, after, residual=after)

    def arrived(self, batch: int, heads: int) -> Tensor:
        """Counters of the step, which are all zero between steps.

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
