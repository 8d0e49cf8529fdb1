"""The families of LT2 (arXiv 2605.20670) at 0.6B and 1.3B.

Where the paper and its code differ, the texts of the presets say what is followed. Of both scales:

- four loops, the loop residual from zero, no norm between loops, RMS epsilon 1e-6, every matrix
  drawn with deviation width^-0.5, rotary base 1e4, the 128,256 tokens of Llama 3 (public code);
- one softmax layer to four linear ones, which section 3.1 has, not the 1:1 of Table 5's caption;
- no output gate but in `-gated`, as in Table 3; the gate is section 3.4's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lt2theory.mixers import MIXERS
from lt2theory.models.config import LoopedConfig
from lt2theory.models.preset import Preset, changed


@dataclass(frozen=True)
class _Scale:
    """What the families of one scale share.

    Attributes:
        base: Their config, with softmax layers.
        window: Window of window layers.
        bookend: Layers of the bookend hybrid, with as many softmax layers as the interleaved one.
        text: Whence depth and embeddings.
    """

    base: LoopedConfig
    window: int
    bookend: str
    text: str


def _base(width: int, num_layers: int, ffn_width: int, *, tied: bool) -> LoopedConfig:
    return LoopedConfig(
        vocab_size=128_256,
        width=width,
        num_layers=num_layers,
        num_loops=4,
        pattern="full",
        num_heads=16,
        ffn_width=ffn_width,
        positions="rope",
        tie_embeddings=tied,
        norm_eps=1e-6,
        init_std=round(width**-0.5, 6),
        embedding_std=round(width**-0.5, 6),
        window=512,
        block_size=64,
        num_blocks=16,
        top_k=2048,
        index_heads=8,
        index_dim=64,
    )


_SCALES = {
    "0.6b": _Scale(
        _base(1024, 25, 2816, tied=False),
        window=256,
        bookend="full*3,gdn*20,full*2",
        text="25 layers and 16 heads are the paper's (the public 600M file has 21 and 8); untied, "
        "since only so are they 0.6B.",
    ),
    "1.3b": _Scale(
        _base(2048, 21, 5632, tied=True),
        window=2048,
        bookend="full*2,gdn*17,full*2",
        text="21 layers are those of the official 1B file (the paper says 16 to 25); tied, since "
        "so the softmax model has 1.3B and the hybrid the 1.5B of Table 5's header.",
    ),
}

_HYBRIDS = {
    "full-gdn": ("gdn*4,full", "Softmax at every fifth layer, Gated DeltaNet elsewhere."),
    "full-kda": ("kda*4,full", "Softmax at every fifth layer, Kimi Delta Attention elsewhere."),
    "gdn-dsa": ("gdn*4,dsa", "DeepSeek sparse attention at every fifth layer, else GDN."),
    "gdn-nsa": ("gdn*4,nsa", "Native sparse attention at every fifth layer, else GDN."),
    "gdn-window": ("gdn*4,window", "A window at every fifth layer, else Gated DeltaNet."),
    "full-window": ("window*4,full", "Softmax at every fifth layer, a window elsewhere."),
    "loop-coarse-to-fine": (
        "full->window(512)->window(256)->window(128)",
        "One attention whose window narrows from loop to loop (the loop level of the ablation).",
    ),
    "loop-fine-to-coarse": (
        "window(128)->window(256)->window(512)->full",
        "One attention whose window widens from loop to loop (the loop level of the ablation).",
    ),
    "loop-gdn-full": (
        "gdn->gdn->gdn->full",
        "Gated DeltaNet in three loops, softmax in the last: the mixer of a loop as the second "
        "axis of section 3.1. The ratio is ours, and a block has weights for both.",
    ),
}
_LINEAR = {
    "linear_attention": "Linear attention, keys and values as wide as the model (FLA's defaults).",
    "retnet": "RetNet, values twice as wide as the model, no convolution (FLA's defaults).",
    "mamba2": "Mamba2, twice as wide as the model, states of 64, heads of 64 (public code).",
    "gla": "GLA, keys half as wide as the model, no convolution (FLA's defaults).",
    "hgrn2": "HGRN2, no convolution (public code).",
    "mlstm": "The mLSTM, keys and values as wide as the model; not among the paper's mixers.",
    "deltanet": "DeltaNet, keys and values as wide as the model (public code).",
    "gdn": "Gated DeltaNet, keys of 3/4 and values of 3/2 of the width, beta in (0, 1) (public "
    "code).",
    "kda": "Kimi Delta Attention, keys and values as wide as the model (public code).",
    "gated_deltaproduct": "Gated DeltaProduct, two factors a token, keys of half the width; not "
    "among the paper's mixers.",
}
_INDEXER = (
    "The public code never trains its indexer, does not rotate, and compresses keys and values; "
    "here the indexer learns, queries and keys are rotated, and one key-value head serves all."
)


def lt2_presets() -> dict[str, Preset]:
    """Every family at both scales.

    Returns:
        Presets by name: `lt2-<scale>-<family>`.
    """
    named: dict[str, Preset] = {}
    for size, scale in _SCALES.items():
        for family, preset in _families(scale).items():
            named[f"lt2-{size}-{family}"] = Preset(preset.config, f"{preset.text} {scale.text}")
    return named


def _families(scale: _Scale) -> dict[str, Preset]:
    base = scale.base
    found = {
        "full": Preset(base, "The looped transformer."),
        "full-gated": Preset(changed(base, output_gate=True), "With the output gate."),
    }
    for name in MIXERS:
        if name in _LINEAR:
            found[name] = Preset(changed(base, pattern=name, **_linear(name, base)), _LINEAR[name])
    shared = {"num_kv_heads": 1}
    window = changed(base, pattern="window", window=scale.window)
    found["window"] = Preset(window, f"Windows of {scale.window}.")
    nsa = changed(base, pattern="nsa", **shared)
    found["nsa"] = Preset(nsa, "Native sparse attention: 16 blocks of 64, a window of 512.")
    found["dsa"] = Preset(changed(base, pattern="dsa", **shared), f"The best 2048 keys. {_INDEXER}")
    for name, (pattern, text) in _HYBRIDS.items():
        found[name] = Preset(changed(base, **_hybrid(name, pattern, scale)), text)
    gdn = _linear_sizes("gdn", base)
    found["full-gdn-gated"] = Preset(
        changed(base, pattern="gdn*4,full", output_gate=True, **gdn),
        "As full-gdn, with the output gate.",
    )
    found["full-gdn-bookend"] = Preset(
        changed(base, pattern=scale.bookend, **gdn),
        "As many softmax layers as full-gdn, half at either end (how many stand where is ours).",
    )
    return found


def _hybrid(name: str, pattern: str, scale: _Scale) -> dict[str, Any]:
    """The fields that a hybrid changes."""
    fields: dict[str, Any] = {"pattern": pattern}
    if "window" in name:
        fields["window"] = scale.window
    if "dsa" in name or "nsa" in name:
        fields["num_kv_heads"] = 1
    for mixer in ("gdn", "kda"):
        if mixer in pattern:
            fields |= _linear_sizes(mixer, scale.base)
    return fields


def _linear_sizes(mixer: str, base: LoopedConfig) -> dict[str, int]:
    """Widths of the linear heads of a hybrid, whose softmax heads keep theirs."""
    sizes = _linear(mixer, base)
    return {f"linear_{name}": sizes[name] for name in ("head_dim", "value_dim") if name in sizes}


def _linear(mixer: str, base: LoopedConfig) -> Mapping[str, Any]:
    """The fields that a linear mixer changes; `_LINEAR` says why."""
    head = base.width // base.num_heads
    fields: dict[str, dict[str, Any]] = {
        "retnet": {"value_dim": 2 * head, "conv_width": 0},
        "mamba2": {"num_heads": 2 * base.width // 64, "head_dim": 64, "value_dim": 64},
        "gla": {"head_dim": head // 2, "value_dim": head, "conv_width": 0},
        "hgrn2": {"conv_width": 0},
        "gdn": {"head_dim": 3 * head // 4, "value_dim": 3 * head // 2},
        "gated_deltaproduct": {"head_dim": head // 2, "value_dim": head},
    }
    return fields.get(mixer, {})
