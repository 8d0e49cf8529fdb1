"""Named configurations: toys for every mixer, every linear one under `accumulate`, and hybrids."""

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models.config import LoopedConfig

_HYBRIDS = {
    "full-gdn": "full,gdn",
    "gdn-window": "gdn,window",
    "gdn-nsa": "gdn,nsa",
    "gdn-dsa": "gdn,dsa",
    "full-window": "full,window",
}
"""LT2's hybrids, one layer of each kind in a toy."""


def presets() -> dict[str, LoopedConfig]:
    """Configurations by name.

    Returns:
        `toy-<mixer>` for every mixer, `toy-<mixer>-accumulate` for every linear one, and
        `toy-<hybrid>` for every hybrid; all of width 64, two layers and two loops.
    """
    toy = LoopedConfig(num_layers=2, num_loops=2, window=16)
    named: dict[str, LoopedConfig] = {}
    for name, mixer in MIXERS.items():
        named[f"toy-{name}"] = _with(toy, pattern=name)
        if issubclass(mixer, LinearMixer):
            named[f"toy-{name}-accumulate"] = _with(toy, pattern=name, loop_state="accumulate")
    for name, pattern in _HYBRIDS.items():
        named[f"toy-{name}"] = _with(toy, pattern=pattern)
    return named


def _with(config: LoopedConfig, **changes: object) -> LoopedConfig:
    """A changed copy that is validated again."""
    return LoopedConfig.model_validate({**config.model_dump(), **changes})
