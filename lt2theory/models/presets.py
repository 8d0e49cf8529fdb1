"""Named configurations, from toys of 50 thousand parameters to the 1.3B models."""

from functools import lru_cache

from lt2theory.mixers import MIXERS
from lt2theory.models.config import LoopedConfig
from lt2theory.models.preset import Preset
from lt2theory.models.presets_lt2 import lt2_presets
from lt2theory.models.presets_ouro import ouro_presets
from lt2theory.models.presets_small import small_presets
from lt2theory.models.presets_toy import toy_presets
from tasks.names import Named, unknown_name


def presets() -> dict[str, LoopedConfig]:
    """Configurations by name.

    Returns:
        `toy-<mixer>` for every mixer, `toy-<mixer>-accumulate` for every linear one and
        `toy-<hybrid>` for every hybrid (two layers, two loops, width 64: `toys` has these alone);
        `byte-<size>-<family>` and `bpe-<size>-<family>` for one machine;
        `lt2-0.6b-<family>` and `lt2-1.3b-<family>`; `ouro-1.4b` and `ouro-2.6b`. The KeyError of
        another name says which are nearest.
    """
    return Named("preset", {name: preset.config for name, preset in described_presets().items()})


def toys() -> dict[str, LoopedConfig]:
    """Configurations of the toys alone, each of which runs in a moment on a CPU.

    Returns:
        As `presets`, of the names that start with `toy-`.
    """
    return Named("preset", {n: config for n, config in presets().items() if n.startswith("toy-")})


def described_presets() -> dict[str, Preset]:
    """Configurations with what they are and the sources they follow.

    Returns:
        The presets by name.
    """
    return Named("preset", _made_of(tuple(MIXERS.items())))


@lru_cache(maxsize=1)
def _made_of(mixers: tuple[tuple[str, type], ...]) -> dict[str, Preset]:
    """Made once for the mixers that there are, since more than a hundred configs are checked."""
    return toy_presets() | small_presets() | lt2_presets() | ouro_presets()


def find_preset(name: str) -> Preset:
    """Look a preset up.

    Args:
        name: Its name.

    Returns:
        The preset.

    Raises:
        ValueError: There is no preset of the name; the nearest ones are named.
    """
    known = described_presets()
    if name not in known:
        raise ValueError(unknown_name("preset", name, known))
    return known[name]
