"""What a search varies: ranges and choices, settings drawn from them, and the runs they make."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from lt2theory.training import CurriculumConfig


@dataclass(frozen=True)
class LogUniform:
    """Numbers between two bounds, uniform in their logarithm, rounded to two digits.

    Attributes:
        low: Least value.
        high: Greatest value.
    """

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        """Draw a number.

        Args:
            rng: Where the randomness comes from.

        Returns:
            The number.
        """
        return rounded(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))


def rounded(value: float) -> float:
    """Round a number to the two digits that a search tells apart.

    Args:
        value: The number.

    Returns:
        It, with two significant digits.
    """
    return float(f"{value:.2g}")


Setting: TypeAlias = Mapping[str, Any]
"""Values by dotted name of a field, such as `optimiser.learning_rate`."""
Space: TypeAlias = Mapping[str, LogUniform | tuple[Any, ...]]
"""What may be varied: a range, or the choices."""


def draw_settings(space: Space, number: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Draw settings at random.

    Args:
        space: What may be varied.
        number: How many.
        seed: Seed of the draw.

    Returns:
        Distinct settings.

    Raises:
        ValueError: The space has no so many.
    """
    rng = np.random.default_rng(seed)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(100 * number):
        if len(found) == number:
            break
        setting = {
            name: axis.draw(rng)
            if isinstance(axis, LogUniform)
            else axis[int(rng.integers(len(axis)))]
            for name, axis in space.items()
        }
        found.setdefault(described(setting), setting)
    if len(found) < number:
        raise ValueError(f"settings: got {number}, allowed 1..{len(found)} (distinct ones drawn)")
    return list(found.values())


def described(setting: Setting) -> str:
    """A setting in one line.

    Args:
        setting: The setting.

    Returns:
        Last part of every name with its value.
    """
    return ", ".join(f"{name.rsplit('.', 1)[-1]} {value}" for name, value in setting.items())


def configured(arm: CurriculumConfig, setting: Setting, *, seed: int) -> CurriculumConfig:
    """One run of a search.

    Args:
        arm: Configuration of the arm.
        setting: What is changed.
        seed: Seed of weights and data.

    Returns:
        The arm's configuration with the setting, which leaves the test split unread.

    Raises:
        ValueError: The setting names no field, or a value that is not allowed.
    """
    values = arm.model_dump()
    for name, value in setting.items():
        *path, last = name.split(".")
        place: Any = values
        for part in path:
            place = place.get(part) or {}
        if last not in place:
            raise ValueError(f"setting: {name!r} names no field of a run's configuration")
        place[last] = value
    label = f"{arm.label} | {described(setting)}"
    changes = {"seed": seed, "test": False, "test_stages": (), "label": label}
    return CurriculumConfig.model_validate(values | changes)
