"""Softmax attention, over the whole past or a sliding window, with an optional output gate."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from lt2theory.mixers.base import AttentionMixer, at_least_float32
from lt2theory.mixers.norm import RMSNorm
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.rotary import rotate
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import AttentionInputs


class SoftmaxAttention(AttentionMixer):
    """Causal softmax attention over the whole past; grouped heads and rotary positions optional.

    Options that pretrained models need: biases, and an RMS norm of every head's queries and keys,
    with one weight a channel for all heads (Qwen3).

    The output gate is `sigmoid(x W_g)`, one number a head and channel, before `o_proj`; it starts
    at exactly one half (LT2, section 3.4; `proofs_checks` G2).
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        queries = options.num_heads * options.head_dim
        keys = options.num_kv_heads * options.head_dim
        values = options.num_heads * options.value_dim
        shared = options.num_kv_heads * options.value_dim
        self.q_proj = nn.Linear(options.width, queries, bias=options.qkv_bias)
        self.k_proj = nn.Linear(options.width, keys, bias=options.qkv_bias)
        self.v_proj = nn.Linear(options.width, shared, bias=options.qkv_bias)
        if options.qk_norm:
            self.q_norm = RMSNorm(options.head_dim, options.norm_eps)
            self.k_norm = RMSNorm(options.head_dim, options.norm_eps)
        if options.output_gate:
            self.g_proj = nn.Linear(options.width, values, bias=False)
        self.o_proj = nn.Linear(values, options.width, bias=options.output_bias)

    @property
    def window(self) -> int | None:
        """Tokens that a query sees, itself included; None for its whole past."""
        return None

    @property
    def output_gate(self) -> nn.Linear:
        """Projection of the output gate, where there is one."""
        return self.g_proj

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> AttentionInputs:
        heads, groups = self.options.num_heads, self.options.num_kv_heads
        q = self.q_proj(x).unflatten(-1, (heads, -1))
        k = self.k_proj(x).unflatten(-1, (groups, -1))
        v = self.v_proj(x).unflatten(-1, (groups, -1))
        if self.options.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.options.rope_base is not None:
            base, scaling = self.options.rope_base, self.options.rope_scaling
            q = rotate(q, stream.positions, base, scaling)
            k = rotate(k, stream.positions, base, scaling)
        return AttentionInputs(q, k, v, window=self.window)

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        o = o.flatten(-2)
        gate = self.gate(x)
        if gate is not None:
            o = o * gate
        y: Tensor = self.o_proj(o.to(x.dtype))
        return y

    def gate(self, x: Float[Tensor, "b t d"]) -> Float[Tensor, "b t n"] | None:
        """What the output of each head and channel is multiplied by.

        Args:
            x: The input that `prepare` saw, `[b t d]`.

        Returns:
            Numbers in (0, 1) `[b t h*v]`, or None without an output gate.
        """
        if not self.options.output_gate:
            return None
        return torch.sigmoid(at_least_float32(self.output_gate(x)))

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        if self.options.output_gate:
            nn.init.zeros_(self.output_gate.weight)
