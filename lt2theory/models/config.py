"""The configuration of a looped model; the same fields make a toy and a full-scale model."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions
from lt2theory.mixers.options import DecayGrain
from lt2theory.models.pattern import LONGEST, LayerSpec, expand_pattern
from lt2theory.ops import BACKENDS
from lt2theory.ops.sparse.dsa_reference import IndexerLoss


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
        "'bookend:gdn'.",
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
    loop_gate: bool = Field(
        True, description="Learn rho, the loop residual; it starts at zero (LT2, section 3.1)."
    )
    sandwich_norm: bool = Field(
        False, description="Normalise each sub-layer's output as well as its input (Ouro)."
    )
    norm_between_loops: bool = Field(
        False, description="Apply the final norm at the end of every loop (Ouro)."
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
        layers = self.layers
        if self.head_dim is None and self.width % self.num_heads:
            raise ValueError(
                f"num_heads: {self.num_heads} does not divide width {self.width}; "
                "choose a divisor or give head_dim"
            )
        if self.num_heads % (self.num_kv_heads or self.num_heads):
            raise ValueError(
                f"num_kv_heads: {self.num_kv_heads} must divide num_heads {self.num_heads}"
            )
        if self.positions == "rope" and self.key_dim % 2:
            raise ValueError(f"head_dim: {self.key_dim} must be even for positions='rope'")
        indexed = any(layer.mixer == "dsa" for layer in layers)
        if self.positions == "rope" and indexed and self.index_dim % 2:
            raise ValueError(f"index_dim: {self.index_dim} must be even for positions='rope'")
        if self.key_dim % 2 and any(layer.mixer == "retnet" for layer in layers):
            raise ValueError(f"head_dim: {self.key_dim} must be even for retnet, which rotates")
        if (self.positions == "learned") != (self.max_length is not None):
            raise ValueError(
                f"max_length: {self.max_length} with positions={self.positions!r}; "
                "a number is needed with 'learned' and has no effect otherwise"
            )
        if self.loop_state == "accumulate" and not any(
            issubclass(MIXERS[layer.mixer], LinearMixer) for layer in layers
        ):
            raise ValueError(
                f"loop_state: 'accumulate' needs a linear layer, and pattern {self.pattern!r} has "
                "none; use 'rescan'"
            )
        self._check_decay(layers)
        if self.backend not in BACKENDS:
            allowed = ", ".join(BACKENDS)
            raise ValueError(f"backend: {self.backend!r} is not available; allowed: {allowed}")
        return self

    def _check_decay(self, layers: tuple[LayerSpec, ...]) -> None:
        """Refuse a grain of the decay that would do nothing or does not fit.

        Raises:
            ValueError: Naming `decay_grain` or `decay_groups`.
        """
        gated = [n for n, kind in MIXERS.items() if getattr(kind, "own_decay", None) is not None]
        if self.decay_grain != "own" and not any(layer.mixer in gated for layer in layers):
            raise ValueError(
                f"decay_grain: {self.decay_grain!r} does nothing in pattern {self.pattern!r}; "
                f"allowed there: 'own'; the mixers that take another are {', '.join(gated)}"
            )
        if self.decay_grain != "grouped" and self.decay_groups != 1:
            raise ValueError(
                f"decay_groups: {self.decay_groups} does nothing with decay_grain="
                f"{self.decay_grain!r}; must be 1 there"
            )
        if self.key_dim % self.decay_groups:
            raise ValueError(
                f"decay_groups: {self.decay_groups} must divide head_dim {self.key_dim}"
            )

    @property
    def layers(self) -> tuple[LayerSpec, ...]:
        """One spec a layer, from the pattern."""
        return expand_pattern(self.pattern, self.num_layers)

    @property
    def key_dim(self) -> int:
        """Key width of a head."""
        return self.head_dim if self.head_dim is not None else self.width // self.num_heads

    @property
    def hidden_width(self) -> int:
        """Hidden width of the FFN, rounded up to a multiple of 8 where it is not given."""
        if self.ffn_width is not None:
            return self.ffn_width
        return -(-8 * self.width // 24) * 8

    def mixer_options(self, layer: LayerSpec) -> MixerOptions:
        """Sizes and switches of one layer's mixer.

        Args:
            layer: Its place in the pattern.

        Returns:
            What its constructor takes.
        """
        window = layer.window if layer.window is not None else self.window
        return MixerOptions(
            width=self.width,
            num_heads=self.num_heads,
            head_dim=self.key_dim,
            value_dim=self.value_dim if self.value_dim is not None else self.key_dim,
            num_kv_heads=self.num_kv_heads or self.num_heads,
            window=window if layer.mixer in ("window", "nsa") else None,
            conv_width=self.conv_width,
            negative_eigenvalues=self.negative_eigenvalues,
            output_gate=self.output_gate,
            rope_base=self.rope_base if self.positions == "rope" else None,
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
