"""Which layers of a model have kernels for decoding."""

import torch

from lt2theory.mixers import MIXERS, OWN_MIXERS, SoftmaxAttention
from lt2theory.models.block import Block
from lt2theory.models.config import LoopedConfig
from lt2theory.models.fused_attention import FusedAttention
from lt2theory.models.fused_block import FusedDelta, PackedBlock

KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def why_not_fused(config: LoopedConfig, mixer: str, capacity: int) -> str | None:
    """Why a layer cannot take the fused path.

    Args:
        config: The model's config.
        mixer: Name of the layer's mixer.
        capacity: Tokens that the buffers hold.

    Returns:
        The reason, or None where it can.
    """
    from lt2theory.ops.fused.triton_block_step import MOST_BLOCKS
    from lt2theory.ops.fused.triton_choice import can_choose

    if mixer not in OWN_MIXERS:
        return f"no fused step for {mixer}, which is not the package's"
    if config.sandwich_norm:
        return "the fused block has no sandwich norm"
    if mixer == "nsa" and -(-capacity // config.block_size) > MOST_BLOCKS:
        return f"more than {MOST_BLOCKS} blocks of {config.block_size} in {capacity} tokens"
    if mixer == "dsa" and not can_choose(min(capacity, config.top_k)):
        return f"no fused choice of {config.top_k} of {capacity} tokens"
    if issubclass(MIXERS[mixer], SoftmaxAttention):
        return _why_not_attention(config)
    if mixer not in {"gdn", "deltanet"}:
        return f"no fused step for {mixer}"
    if config.decay_grain != "own":
        return f"no fused step for decay_grain {config.decay_grain!r}"
    if config.linear_rotation == "on":
        return "no fused step for linear_rotation 'on'"
    if config.loop_state != "rescan":
        return f"no fused step for several factors a token ({config.loop_state})"
    return None


def _why_not_attention(config: LoopedConfig) -> str | None:
    """Why an attention layer cannot take the fused path: what pretrained models may add to it."""
    for name in ("qkv_bias", "output_bias", "qk_norm"):
        if getattr(config, name):
            return f"no fused step for {name}"
    if config.rope_scaling != "none" and config.positions == "rope":
        return f"no fused step for rope_scaling {config.rope_scaling!r}"
    return None


def fuse(block: Block, config: LoopedConfig) -> PackedBlock:
    """Pack a block that can take the fused path.

    Args:
        block: The block.
        config: Config of its model.

    Returns:
        Its kernels and a copy of its weights.
    """
    kind = FusedAttention if isinstance(block.mixer, SoftmaxAttention) else FusedDelta
    return kind(block, config)
