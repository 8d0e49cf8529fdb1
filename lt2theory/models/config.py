"""The configuration of a looped model; the same fields make a toy and a full-scale model."""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    model_serializer,
    model_validator,
)

from lt2theory.cards import config_card
from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions
from lt2theory.mixers.options import DecayGrain, LinearRotation, RopeScaling
from lt2theory.models.config_checks import check_config
from lt2theory.models.pattern import LONGEST, LayerSpec, expand_loops
from lt2theory.ops.sparse.dsa_reference import IndexerLoss

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


class LoopedConfig(BaseModel):
    """Everything that defines a looped model.

    `h^(0) = Emb(x)`, `h^(tau) = F_N..F_1(h^(tau-1)) + rho_tau * h^(tau-1)`, N blocks shared over
    T loops (LT2, section 3).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    vocab_size: int = Field(
        256, ge=2, le=2**31, description="Token ids run from 0 to vocab_size - 1."
    )
    width: int = Field(64, ge=1, description="Width d of the residual stream.")
    num_layers: int = Field(2, ge=1, le=1024, description="Blocks N, shared over the loops.")
    num_loops: int = Field(1, ge=1, le=1024, description="Loops T.")
    pattern: str = Field(
        "gdn",
        description="Mixers over the depth, cycled: 'gdn', 'gdn*4,full', 'window(8)', "
        "'bookend:gdn'; joined by '->', those of the loops: 'full->window(8)'.",
    )
    loop_state: Literal["rescan", "accumulate"] = Field(
        "rescan",
        description="What a linear mixer does in loop tau: 'rescan' scans afresh with its own "
        "state (LT2's code); 'accumulate' applies the factors of loops 1..tau at every token, so "
        "that T factors act on one state. Attention layers rescan in both.",
    )
    num_heads: int = Field(4, ge=1, description="Heads.")
    num_kv_heads: int | None = Field(
        None, ge=1, description="Key-value heads of softmax layers; default num_heads."
    )
    head_dim: int | None = Field(
        None, ge=1, description="Key width of a head; default width / num_heads."
    )
    value_dim: int | None = Field(
        None, ge=1, description="Value width of a head; default head_dim."
    )
    linear_head_dim: int | None = Field(
        None, ge=1, description="Key width of a head of linear mixers; default head_dim."
    )
    linear_value_dim: int | None = Field(
        None, ge=1, description="Value width of a head of linear mixers; default value_dim."
    )
    ffn_width: int | None = Field(
        None, ge=0, description="Hidden width of the SwiGLU FFN; default 8/3 width, 0 for none."
    )
    window: int = Field(
        64,
        ge=1,
        le=LONGEST,
        description="Tokens that a window layer, and NSA's window, sees; itself included.",
    )
    conv_width: int = Field(
        4, ge=0, description="Taps of the short convolution of linear mixers; 0 for none."
    )
    negative_eigenvalues: bool = Field(
        False, description="Let beta range over (0, 2) instead of (0, 1) (arXiv 2411.12537)."
    )
    decay_grain: DecayGrain = Field(
        "own",
        description="Decays a head of GDN, KDA, GLA and Gated DeltaProduct: the mixer's own "
        "number, none, one a head, decay_groups, or one a key channel.",
    )
    decay_groups: int = Field(
        1, ge=1, description="Decays a head with decay_grain='grouped'; divides head_dim."
    )
    num_factors: int = Field(2, ge=1, le=1024, description="Factors a token of Gated DeltaProduct.")
    gate_soft_cap: float | None = Field(
        15.0,
        ge=1e-3,
        le=1e4,
        description="Soft cap of the mLSTM's gates (arXiv 2503.13427); None for none.",
    )
    block_size: int = Field(16, ge=1, le=LONGEST, description="Tokens of a block of NSA.")
    num_blocks: int = Field(
        4, ge=1, le=LONGEST, description="Blocks that a query of NSA selects, its own among them."
    )
    top_k: int = Field(
        32,
        ge=1,
        le=LONGEST,
        description="Keys that a query of DSA attends to, of those that its indexer scores "
        "highest. Its keys and values are laid out as in softmax layers, num_kv_heads of each (1: "
        "shared by all heads), not compressed as in DeepSeek's MLA.",
    )
    index_heads: int = Field(4, ge=1, description="Heads of DSA's indexer.")
    index_dim: int = Field(16, ge=1, description="Width of a head of DSA's indexer.")
    indexer_loss: IndexerLoss = Field(
        "dense",
        description="Keys over which DSA's indexer learns the attention: 'dense' compares all "
        "visible ones (the report's warm-up, which also attends to all: top_k at the sequence's "
        "length), 'sparse' the selected ones, for an indexer that has been warmed up. Trains "
        "only where the auxiliary losses are asked for.",
    )
    output_gate: bool = Field(False, description="Gate the output of softmax layers by a sigmoid.")
    qkv_bias: bool = Field(
        False, description="Biases of queries, keys and values in softmax layers (Qwen2)."
    )
    output_bias: bool = Field(False, description="Bias of the output projection in softmax layers.")
    qk_norm: bool = Field(
        False, description="Normalise each head's queries and keys in softmax layers (Qwen3)."
    )
    loop_gate: bool = Field(
        True, description="Learn rho, the loop residual; it starts at zero (LT2, section 3.1)."
    )
    sandwich_norm: bool = Field(
        False, description="Normalise each sub-layer's output as well as its input (Ouro)."
    )
    norm_between_loops: bool = Field(
        False, description="Apply the final norm at the end of every loop (Ouro)."
    )
    exit_gate: bool = Field(
        False,
        description="Learn, a token, the probability of leaving after each loop (Ouro): "
        "`sigmoid(w . norm(h) + c)` of what has not left yet, and all of it after the last.",
    )
    loop_loss: Literal["last", "mean", "expected"] = Field(
        "last",
        description="Loss of training: of the last loop, the mean over the loops, or Ouro's "
        "expectation over exits, which needs exit_gate.",
    )
    exit_entropy: float = Field(
        0.05,
        ge=0,
        description="Weight of the divergence of the exits from equal ones in the expected loss.",
    )
    positions: Literal["none", "rope", "learned"] = Field(
        "none",
        description="Positions: none, rotary (softmax layers; RetNet rotates always), or a learned "
        "table.",
    )
    max_length: int | None = Field(
        None, ge=1, description="Length of the learned position table; required with it."
    )
    rope_base: float = Field(
        10000.0, ge=1e-3, le=1e12, description="Base of the rotary wavelengths."
    )
    rope_scaling: Literal["none", "linear", "llama3"] = Field(
        "none",
        description="Stretch the rotary wavelengths: all alike, or the long ones (Llama 3.1).",
    )
    rope_factor: float = Field(
        1.0, ge=1, le=1e6, description="By how much rope_scaling stretches a wavelength."
    )
    rope_low: float = Field(
        1.0, gt=0, description="Turns in rope_original_length up to which 'llama3' stretches fully."
    )
    rope_high: float = Field(
        4.0,
        gt=0,
        description="Turns in rope_original_length from which 'llama3' stretches nothing.",
    )
    rope_original_length: int = Field(
        8192, ge=1, description="Context of training, by which 'llama3' counts turns."
    )
    linear_rotation: LinearRotation = Field(
        "own",
        description="Rotary positions of linear mixers, with rope_base: by definition RetNet's "
        "alone ('own'), of all, or of none.",
    )
    tie_embeddings: bool = Field(False, description="Share the embedding with the head.")
    norm_eps: float = Field(1e-5, gt=0, description="Epsilon of every normalisation.")
    init_std: float = Field(
        0.02,
        gt=0,
        le=1e4,
        description="Deviation of the projections at the start. LT2's width^-0.5 is about this at "
        "full scale; at toy widths it is several times larger and learns state tracking later.",
    )
    embedding_std: float = Field(
        1.0, gt=0, le=1e4, description="Deviation of the embeddings at the start."
    )
    checkpointing: Literal["none", "loop", "block"] = Field(
        "none",
        description="What backward computes again instead of keeping it: nothing, every loop, or "
        "every block of every loop. The values are the same bits; not under torch.func.",
    )
    backend: str = Field("auto", description="Backend of the ops; 'auto' chooses and can explain.")

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
    def layers(self) -> tuple[LayerSpec, ...]:
        """One spec a layer, in the first loop; `loops` has those of all."""
        return self.loops[0]

    @property
    def loops(self) -> tuple[tuple[LayerSpec, ...], ...]:
        """For each loop one spec a layer, from the pattern."""
        return expand_loops(self.pattern, self.num_layers, self.num_loops)

    def specs_at(self, layer: int) -> tuple[LayerSpec, ...]:
        """What one layer is in the loops.

        Args:
            layer: Layer, counted from 0.

        Returns:
            Its spec in every loop.
        """
        return tuple(loop[layer] for loop in self.loops)

    def mixers_at(self, layer: int) -> tuple[LayerSpec, ...]:
        """The mixers that one layer has weights for.

        Args:
            layer: Layer, counted from 0.

        Returns:
            The first spec of each, in the order in which the loops come to them: one, unless
            the pattern changes the mixer from loop to loop.
        """
        first: dict[str, LayerSpec] = {}
        for spec in self.specs_at(layer):
            first.setdefault(spec.weights, spec)
        return tuple(first.values())

    def mixer_number(self, layer: int, loop: int) -> int:
        """Which of its mixers a layer uses in a loop.

        Args:
            layer: Layer, counted from 0.
            loop: Loop, counted from 0.

        Returns:
            Its number in `mixers_at`.
        """
        weights = [spec.weights for spec in self.mixers_at(layer)]
        return weights.index(self.loops[loop][layer].weights)

    @property
    def key_dim(self) -> int:
        """Key width of a head, unless `linear_head_dim` says otherwise for linear mixers."""
        return self.head_dim if self.head_dim is not None else self.width // self.num_heads

    def head_dims(self, layer: LayerSpec) -> tuple[int, int]:
        """Key and value width of a head of one layer.

        Args:
            layer: Its place in the pattern.

        Returns:
            Both widths.
        """
        keys = self.key_dim
        values = self.value_dim if self.value_dim is not None else keys
        if not issubclass(MIXERS[layer.mixer], LinearMixer):
            return keys, values
        if self.linear_head_dim is not None:
            keys = self.linear_head_dim
            values = self.value_dim if self.value_dim is not None else keys
        return keys, self.linear_value_dim if self.linear_value_dim is not None else values

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
