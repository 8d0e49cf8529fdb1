"""Ouro's architecture (Zhu et al., arXiv 2510.25741)."""

from lt2theory.models.config import LoopedConfig
from lt2theory.models.preset import Preset, changed

_TEXT = (
    "Ouro ({layers} layers, 4 loops) as its public configuration has it: norms before and after "
    "each sub-layer, the final norm at the end of every loop, no loop residual, an exit gate, and "
    "the loss expected over the exits (weight of the divergence 0.05, not checked against the "
    "paper: set exit_entropy for your own)."
)


def ouro_presets() -> dict[str, Preset]:
    """Both published sizes.

    Returns:
        Presets by name.
    """
    small = LoopedConfig(
        vocab_size=49_152,
        width=2048,
        num_layers=24,
        num_loops=4,
        pattern="full",
        num_heads=16,
        ffn_width=5632,
        loop_gate=False,
        sandwich_norm=True,
        norm_between_loops=True,
        exit_gate=True,
        loop_loss="expected",
        exit_entropy=0.05,
        positions="rope",
        rope_base=1e6,
        norm_eps=1e-6,
        init_std=0.02,
        embedding_std=0.02,
    )
    return {
        "ouro-1.4b": Preset(small, _TEXT.format(layers=24)),
        "ouro-2.6b": Preset(changed(small, num_layers=48), _TEXT.format(layers=48)),
    }
