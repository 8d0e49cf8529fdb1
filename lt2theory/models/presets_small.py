"""Language models of 1M to 50M parameters for one machine, in LT2's proportions.

Four loops, one softmax layer to four linear ones in the hybrid, GDN with keys of 3/4 and values of
3/2 of the width, rotary positions, tied embeddings: as the large presets, with heads of 64.
"""

from dataclasses import dataclass

from lt2theory.models.config import LoopedConfig
from lt2theory.models.preset import Preset

_FAMILIES = {
    "full": ("full", "Softmax attention"),
    "gdn": ("gdn", "Gated DeltaNet"),
    "full-gdn": ("gdn*4,full", "Gated DeltaNet with every fifth layer softmax"),
    "loop-full-window": (
        "full->window(256)->window(128)->window(64)",
        "Softmax attention over ever narrower windows from loop to loop",
    ),
}
_BYTES = 258
"""All bytes, and the marks around a document."""


@dataclass(frozen=True)
class _Size:
    vocab_size: int
    width: int
    num_layers: int
    ffn_width: int


_SIZES = {
    "byte-1m": _Size(_BYTES, 128, 5, 352),
    "byte-4m": _Size(_BYTES, 256, 5, 704),
    "byte-10m": _Size(_BYTES, 256, 10, 1024),
    "byte-30m": _Size(_BYTES, 512, 10, 1408),
    "bpe-10m": _Size(4096, 256, 10, 896),
    "bpe-30m": _Size(8192, 512, 10, 1152),
    "bpe-50m": _Size(8192, 512, 15, 1408),
}
"""Sizes by name; the name is about the number of parameters, embeddings included."""


def small_presets() -> dict[str, Preset]:
    """Every family at every size.

    Returns:
        Presets by name: `<size>-<family>`.
    """
    return {
        f"{size}-{family}": Preset(
            _config(_SIZES[size], pattern),
            f"{mixer}; {_SIZES[size].vocab_size} tokens. LT2's proportions for one machine, not "
            "from the paper.",
        )
        for size in _SIZES
        for family, (pattern, mixer) in _FAMILIES.items()
    }


def _config(size: _Size, pattern: str) -> LoopedConfig:
    linear = {"linear_head_dim": 48, "linear_value_dim": 96} if "gdn" in pattern else {}
    return LoopedConfig(
        vocab_size=size.vocab_size,
        width=size.width,
        num_layers=size.num_layers,
        num_loops=4,
        pattern=pattern,
        num_heads=size.width // 64,
        ffn_width=size.ffn_width,
        positions="rope",
        tie_embeddings=True,
        norm_eps=1e-6,
        # Tied: the embedding is the head too, whose logits must start small.
        embedding_std=0.02,
        **linear,
    )
