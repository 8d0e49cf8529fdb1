"""One block: mixer and FFN on the residual stream."""

from collections.abc import Callable
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from lt2theory.mixers import MIXERS, AttentionMixer, LinearMixer
from lt2theory.mixers.norm import RMSNorm
from lt2theory.models.config import LoopedConfig
from lt2theory.models.pattern import LayerSpec
from lt2theory.ops.fused.rows import can_fuse_rows, product_dtype
from lt2theory.ops.fused.swiglu import fused_swiglu

AnyMixer = LinearMixer | AttentionMixer
Mix = Callable[[AnyMixer, Tensor], Tensor]


class SwiGLU(nn.Module):
    """`(silu(x W_1) * x W_3) W_2` (Shazeer, arXiv 2002.05202)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t d"]:
        """Apply to each token.

        Args:
            x: Normalised residual stream.

        Returns:
            The change to it.
        """
        if can_fuse_rows(x):
            z = F.linear(x, torch.cat([self.w1.weight, self.w3.weight]))
            y: Tensor = self.w2(fused_swiglu(z))
            return y
        y = self.w2(F.silu(self.w1(x)) * self.w3(x))
        return y


class Block(nn.Module):
    """`h' = h + Mixer(norm(h))`, then `h' + FFN(norm(h'))`.

    With sandwich norm each change is normalised as well, before it is added (Ouro, arXiv
    2510.25741). Where the pattern changes the mixer from loop to loop, the block has several, which
    share all else.

    Args:
        config: Config of the model.
        layers: What `LoopedConfig.mixers_at` gives for the block's place.
    """

    def __init__(self, config: LoopedConfig, *layers: LayerSpec) -> None:
        super().__init__()
        width, eps = config.width, config.norm_eps
        self.mixer_norm = RMSNorm(width, eps)
        mixers: list[AnyMixer] = [MIXERS[one.mixer](config.mixer_options(one)) for one in layers]
        self.mixer: AnyMixer = mixers[0]
        self.other_mixers = nn.ModuleList(mixers[1:])
        self.ffn_norm = RMSNorm(width, eps) if config.hidden_width else None
        self.ffn = SwiGLU(width, config.hidden_width) if config.hidden_width else None
        self.mixer_post_norm = RMSNorm(width, eps) if config.sandwich_norm else None
        self.ffn_post_norm = (
            RMSNorm(width, eps) if config.sandwich_norm and config.hidden_width else None
        )

    @property
    def mixers(self) -> tuple[AnyMixer, ...]:
        """All mixers, in the order of `LoopedConfig.mixers_at`."""
        return (self.mixer, *(cast("AnyMixer", other) for other in self.other_mixers))

    def forward(
        self, h: Float[Tensor, "b t d"], mix: Mix, *, mixer: int = 0
    ) -> Float[Tensor, "b t d"]:
        """Apply the block once.

        Args:
            h: Residual stream.
            mix: Joins the mixer with its op; the loop state gives it.
            mixer: Which of the block's mixers, by number.

        Returns:
            The residual stream after the block.
        """
        x = self.mixer_norm(h, product_dtype(h))
        return self.finish(h, mix(self.mixers[mixer] if mixer else self.mixer, x))

    def finish(
        self, h: Float[Tensor, "b t d"], change: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        """Add what the mixer gave, then the FFN's change.

        Args:
            h: Residual stream before the block.
            change: What the mixer gave.

        Returns:
            The residual stream after the block.
        """
        if self.mixer_post_norm is not None:
            change = self.mixer_post_norm(change)
        if self.ffn is None or self.ffn_norm is None:
            return h + change
        h, x = self.ffn_norm.of_sum(h, change, product_dtype(h))
        change = self.ffn(x)
        after: Tensor = change if self.ffn_post_norm is None else self.ffn_post_norm(change)
        return h + after
