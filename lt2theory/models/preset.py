"""A named configuration and where it comes from."""

from dataclasses import dataclass

from lt2theory.models.config import LoopedConfig


@dataclass(frozen=True)
class Preset:
    """One named configuration.

    Attributes:
        config: The configuration.
        text: What it is, and which source it follows where sources differ.
    """

    config: LoopedConfig
    text: str


def changed(config: LoopedConfig, **changes: object) -> LoopedConfig:
    """A changed copy that is validated again.

    Args:
        config: A config.
        changes: Fields and their values.

    Returns:
        The copy.

    Raises:
        ValueError: The changed fields do not fit the others.
    """
    return LoopedConfig.model_validate({**config.model_dump(), **changes})
