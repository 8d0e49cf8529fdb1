"""Toys: two layers, two loops, width 64; one for every mixer, accumulation and hybrid."""

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models.config import LoopedConfig
from lt2theory.models.preset import Preset, changed

_HYBRIDS = {
    "full-gdn": "full,gdn",
    "gdn-window": "gdn,window",
    "gdn-nsa": "gdn,nsa",
    "gdn-dsa": "gdn,dsa",
    "full-window": "full,window",
    "loop-full-window": "full->window",
    "loop-gdn-full": "gdn->full",
}
"""LT2's hybrids, one layer (or one loop) of each kind in a toy."""


def toy_presets() -> dict[str, Preset]:
    """The toys.

    Returns:
        Presets by name.
    """
    toy = LoopedConfig(num_layers=2, num_loops=2, window=16)
    named: dict[str, LoopedConfig] = {}
    for name, mixer in MIXERS.items():
        named[f"toy-{name}"] = changed(toy, pattern=name)
        if issubclass(mixer, LinearMixer):
            named[f"toy-{name}-accumulate"] = changed(toy, pattern=name, loop_state="accumulate")
    for name, pattern in _HYBRIDS.items():
        named[f"toy-{name}"] = changed(toy, pattern=pattern)
    return {name: Preset(config, "A toy for tests and checks.") for name, config in named.items()}
