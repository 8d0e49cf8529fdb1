"""The configuration of a looped model; the same fields make a toy and a full-scale model."""

from collections.abc import Callable
from typing import Any

import torch
from pydantic import model_serializer, model_validator

from lt2theory.cards import config_card
from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions
from lt2theory.mixers.options import RopeScaling
from lt2theory.models.config_checks import check_config
from lt2theory.models.config_layers import LayeredConfig
from lt2theory.models.pattern import LayerSpec
from lt2theory.ops import KERNELS

_YOUNGER = {
    "linear_head_dim",
    "linear_value_dim",
    "exit_gate",
    "loop_loss",
    "exit_entropy",
    "qkv_bias",
    "output_bias",
    "qk_norm",
    "rope_scaling",
    "rope_factor",
    "rope_low",
    "rope_high",
    "rope_original_length",
    "linear_rotation",
}
"""Fields that came after the first runs were kept."""


class LoopedConfig(LayeredConfig):
    """Everything that defines a looped model.

    `h^(0) = Emb(x)`, `h^(tau) = F_N..F_1(h^(tau-1)) + rho_tau * h^(tau-1)`, N blocks shared over
    T loops (LT2, section 3).
    """

    @model_validator(mode="after")
    def _check(self) -> "LoopedConfig":
        check_config(self)
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Younger fields are left out at their defaults, so that older runs keep their hash."""
        values = handler(self)
        fields = type(self).model_fields
        return {
            name: value
            for name, value in values.items()
            if name not in _YOUNGER or value != fields[name].default
        }

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return config_card(self, "width", "num_layers", "num_loops", "pattern", "loop_state")

    @property
    def hidden_width(self) -> int:
        """Hidden width of the FFN, rounded up to a multiple of 8 where it is not given."""
        if self.ffn_width is not None:
            return self.ffn_width
        return -(-8 * self.width // 24) * 8

    @property
    def _scaling(self) -> RopeScaling | None:
        if self.rope_scaling == "none":
            return None
        return RopeScaling(
            self.rope_scaling,
            self.rope_factor,
            self.rope_low,
            self.rope_high,
            self.rope_original_length,
        )

    def on(self, device: torch.device | str) -> "LoopedConfig":
        """The same model on a device: kernels of a GPU that it names are left to 'auto' on a CPU.

        Args:
            device: Where the model goes.

        Returns:
            The configuration; every weight has the same name and shape.
        """
        if torch.device(device).type != "cpu" or self.backend not in KERNELS:
            return self
        return self.model_copy(update={"backend": "auto"})

    def mixer_options(self, layer: LayerSpec) -> MixerOptions:
        """Sizes and switches of one layer's mixer.

        Args:
            layer: Its place in the pattern.

        Returns:
            What its constructor takes.
        """
        window = layer.window if layer.window is not None else self.window
        keys, values = self.head_dims(layer)
        is_linear = issubclass(MIXERS[layer.mixer], LinearMixer)
        rotates = self.positions == "rope" or (is_linear and self.linear_rotation == "on")
        return MixerOptions(
            width=self.width,
            num_heads=self.num_heads,
            head_dim=keys,
            value_dim=values,
            num_kv_heads=self.num_kv_heads or self.num_heads,
            window=window if layer.mixer in ("window", "nsa") else None,
            conv_width=self.conv_width,
            negative_eigenvalues=self.negative_eigenvalues,
            output_gate=self.output_gate,
            rope_base=self.rope_base if rotates else None,
            rope_scaling=self._scaling,
            linear_rotation=self.linear_rotation,
            qkv_bias=self.qkv_bias,
            output_bias=self.output_bias,
            qk_norm=self.qk_norm,
            norm_eps=self.norm_eps,
            decay_grain=self.decay_grain,
            decay_groups=self.decay_groups,
            num_factors=self.num_factors,
            gate_soft_cap=self.gate_soft_cap,
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            top_k=self.top_k,
            index_heads=self.index_heads,
            index_dim=self.index_dim,
        )
