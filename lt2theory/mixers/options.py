"""What a mixer is built from."""

from dataclasses import dataclass
from typing import Literal

DecayGrain = Literal["own", "none", "head", "grouped", "channel"]
"""How finely a data-dependent decay is resolved inside a head; `own` is the mixer's definition."""

LinearRotation = Literal["own", "on", "off"]
"""Whether linear mixers rotate queries and keys by position; `own` is the mixer's definition."""


@dataclass(frozen=True)
class RopeScaling:
    """How rotary wavelengths are stretched for long contexts (`lt2theory.mixers.rotary`).

    Attributes:
        kind: `linear`, or Llama 3's interpolation between the ends below.
        factor: By how much slow pairs are slowed down.
        low: Turns within the original length up to which a pair is slow (`llama3`).
        high: Turns within it from which a pair is fast and kept (`llama3`).
        original_length: Tokens of training's context (`llama3`).
    """

    kind: Literal["linear", "llama3"]
    factor: float
    low: float = 1.0
    high: float = 4.0
    original_length: int = 8192


@dataclass(frozen=True)
class MixerOptions:
    """Sizes and switches of one mixer; `LoopedConfig` validates them and fills this in.

    Attributes:
        width: Model width d.
        num_heads: Heads h.
        head_dim: Key width k of a head.
        value_dim: Value width v of a head.
        num_kv_heads: Key-value heads g of the softmax family; h is a multiple of it.
        window: Tokens that a window layer sees, itself included; None for full attention.
        conv_width: Taps of the short convolution on q, k and v; 0 for none.
        negative_eigenvalues: Let beta range over (0, 2) instead of (0, 1) (arXiv 2411.12537).
        output_gate: Gate the output of the softmax family by `sigmoid(x W_g)` (LT2, section 3.4).
        rope_base: Base of the rotary positions of the softmax family; None for no rotation
            (linear mixers that rotate then take 10000).
        rope_scaling: How the wavelengths are stretched, in both families; None for not at all.
        linear_rotation: Whether linear mixers rotate; by their definitions RetNet alone does.
        qkv_bias: Biases of queries, keys and values of the softmax family (Qwen2).
        output_bias: Bias of its output projection (Llama's `attention_bias` has both).
        qk_norm: Normalise every head's queries and keys before they are rotated (Qwen3).
        norm_eps: Epsilon of the normalisations.
        decay_grain: How many decays a head has: its mixer's own number, none, one, `decay_groups`
            or one a key channel.
        decay_groups: Decays a head where they are grouped; divides `head_dim`.
        num_factors: Factors a token of Gated DeltaProduct.
        gate_soft_cap: Largest size of the mLSTM's gates before their exponential and sigmoid,
            reached smoothly; None for no cap.
        block_size: Tokens of a block of NSA.
        num_blocks: Blocks that a query of NSA selects, its own among them.
        top_k: Keys that a query of DSA attends to.
        index_heads: Heads of DSA's indexer.
        index_dim: Width of a head of DSA's indexer.
    """

    width: int
    num_heads: int
    head_dim: int
    value_dim: int
    num_kv_heads: int
    window: int | None = None
    conv_width: int = 4
    negative_eigenvalues: bool = False
    output_gate: bool = False
    rope_base: float | None = None
    rope_scaling: RopeScaling | None = None
    linear_rotation: LinearRotation = "own"
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: bool = False
    norm_eps: float = 1e-5
    decay_grain: DecayGrain = "own"
    decay_groups: int = 1
    num_factors: int = 2
    gate_soft_cap: float | None = 15.0
    block_size: int = 16
    num_blocks: int = 4
    top_k: int = 32
    index_heads: int = 4
    index_dim: int = 16
