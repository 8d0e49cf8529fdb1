"""The fields of a looped model's configuration, each with its own range."""

from typing import Literal

from pydantic import ConfigDict, Field

from lt2theory.fields import KnownFields
from lt2theory.mixers.options import DecayGrain, LinearRotation
from lt2theory.models.pattern import LONGEST
from lt2theory.ops.sparse.dsa_reference import IndexerLoss


class ConfigFields(KnownFields):
    """What a user sets; `LoopedConfig` adds what the fields must be to one another."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

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
