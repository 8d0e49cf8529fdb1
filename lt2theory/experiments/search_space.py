"""What a search varies: ranges and choices, settings drawn from them, and the runs they make."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from typing_extensions import override

from lt2theory.training import CurriculumConfig, resolve


@dataclass(frozen=True)
class Uniform:
    """Numbers between two bounds, rounded to two digits.

    Attributes:
        low: Least value.
        high: Greatest value.

    Raises:
        ValueError: The bounds are no range.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Check the bounds."""
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(
                f"low, high: got {self.low} and {self.high}, allowed are finite numbers, low < high"
            )

    def draw(self, rng: np.random.Generator) -> float:
        """Draw a number.

        Args:
            rng: Where the randomness comes from.

        Returns:
            The number.
        """
        return self.rounded(rng.uniform(self.low, self.high))

    def rounded(self, value: float) -> float:
        """Round a number to what a search tells apart.

        Args:
            value: The number.

        Returns:
            It, with two significant digits, or the bound that it would pass.
        """
        return min(max(float(f"{value:.2g}"), self.low), self.high)


@dataclass(frozen=True)
class LogUniform(Uniform):
    """The same, uniform in their logarithm."""

    def __post_init__(self) -> None:
        """Check the bounds."""
        super().__post_init__()
        if self.low <= 0:
            raise ValueError(f"low: got {self.low}, allowed are numbers > 0 (it has a logarithm)")

    @override
    def draw(self, rng: np.random.Generator) -> float:
        """Draw a number.

        Args:
            rng: Where the randomness comes from.

        Returns:
            The number.
        """
        return self.rounded(np.exp(rng.uniform(np.log(self.low), np.log(self.high))))


Setting: TypeAlias = Mapping[str, Any]
"""Values by dotted name of a field, such as `optimiser.learning_rate`."""
Space: TypeAlias = Mapping[str, Uniform | tuple[Any, ...]]
"""What may be varied: a range, or the choices."""


def check_space(arms: Sequence[CurriculumConfig], space: Space) -> None:
    """Try both ends of every range and every choice on every arm, the others at their first value.

    Args:
        arms: The arms.
        space: What may be varied.

    Raises:
        ValueError: A name is no field, has no choices, or has a value that an arm does not allow.
            Values that do not fit each other are refused when they meet.
    """
    values = {
        name: (axis.low, axis.high) if isinstance(axis, Uniform) else tuple(axis)
        for name, axis in space.items()
    }
    for name, choices in values.items():
        if not choices:
            raise ValueError(f"{name}: got no choices, allowed is at least one")
    first = {name: choices[0] for name, choices in values.items()}
    for arm in arms:
        for name, choices in values.items():
            for value in choices:
                resolve(configured(arm, first | {name: value}, seed=arm.seed))


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
            if isinstance(axis, Uniform)
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
