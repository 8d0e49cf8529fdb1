"""What a task draws from: a space of instances, listed or hashed into train, eval and test."""

import dataclasses
import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Integer, UInt

from tasks import digits
from tasks.names import unknown_name
from tasks.splits import SPLITS, InstanceHash, draw_members, list_members
from tasks.streams import Stream
from tasks.validation import check_count, check_fields, refusal

ENUMERABLE = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class InstanceSpace(ABC):
    """The instances of a task by stage; its fields are the task's knobs.

    An instance is what is to be worked out: drawn, hashed into a split, counted. A subclass names
    its space by the radices of a digit string.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    presentation: ClassVar[tuple[str, ...]] = ()
    """Knobs that change how an instance is shown, not which instance it is."""

    def __post_init__(self) -> None:
        """Refuse bad knobs.

        Raises:
            ValueError: A knob has the wrong type or lies outside its range.
        """
        check_fields(self)
        self._check_knobs()

    def _check_knobs(self) -> None:  # noqa: B027 - a task without ranges needs none
        """Ranges of the knobs, beyond their types."""

    @property
    @abstractmethod
    def allowed_stages(self) -> str:
        """The allowed stages in words."""

    @abstractmethod
    def _allows(self, stage: int) -> bool:
        """Whether a positive integer is an allowed stage."""

    @abstractmethod
    def _radices(self, stage: int) -> tuple[int, ...]:
        """Number of values of each digit of an instance."""

    def _from_digits(
        self, digit_rows: UInt[np.ndarray, "count width"], stage: int
    ) -> UInt[np.ndarray, "count width"]:
        """The codes of digit strings; the strings themselves unless a task says otherwise."""
        return digit_rows

    def _draw(self, stream: Stream, stage: int, count: int) -> UInt[np.ndarray, "count width"]:
        """Independent uniform instances."""
        return self._from_digits(digits.draw(stream, self._radices(stage), count), stage)

    @property
    def knobs(self) -> dict[str, Any]:
        """All knobs by name."""
        return dataclasses.asdict(self)

    @property
    def instance_knobs(self) -> dict[str, Any]:
        """The knobs that say which instances there are."""
        return {k: v for k, v in self.knobs.items() if k not in self.presentation}

    def check_stage(self, stage: int) -> None:
        """Refuse a stage that the task cannot build.

        Args:
            stage: Any integer.

        Raises:
            ValueError: The stage lies outside `allowed_stages`.
        """
        proper = isinstance(stage, int) and not isinstance(stage, bool) and stage >= 1
        if not (proper and self._allows(stage)):
            raise ValueError(refusal("stage", stage, f"{self.allowed_stages} for {self.name}"))

    def instances(
        self, *, stage: int, split: str = "train", seed: int = 0, index: int = 0, size: int
    ) -> UInt[np.ndarray, "size width"]:
        """The codes of the instances in the batch of the same name.

        They are the same under every supervision and layout.

        Args:
            stage: A stage, listed or not.
            split: `train` may repeat instances; `eval` and `test` hold distinct ones.
            seed: Chooses the sequence of batches.
            index: Place in that sequence.
            size: Examples.

        Returns:
            One instance a row, in the task's own code.

        Raises:
            ValueError: An argument is bad, or the split holds too few distinct instances.
        """
        self.check_stage(stage)
        _check_split(split)
        check_count("seed", seed, 0)
        check_count("index", index, 0)
        check_count("size", size, 1)
        stream = Stream("instances", *self._name(stage), split, seed, index)
        count = self.instance_count(stage)
        distinct = split != "train"
        # A request near the size of a larger space is listed as well: drawing would never end.
        if count > ENUMERABLE and not (distinct and count <= 80 * size):
            hashed = InstanceHash(*self._name(stage))
            return draw_members(lambda n: self._draw(stream, stage, n), hashed, split, size)
        members = _members(self, stage)[split]
        if members.size < (size if distinct else 1):
            held = f"the {split} split of {self.name} at stage {stage} holds {members.size}"
            raise ValueError(refusal("size", size, f"<= {members.size}: {held} distinct instances"))
        if distinct:
            order = np.argsort(stream.words(members.size), kind="stable")[:size]
        else:
            order = stream.below(members.size, size, 1)[:, 0]
        return self._at(members[order], stage)

    def instance_count(self, stage: int) -> int:
        """Size of the whole instance space, all splits together.

        Args:
            stage: A stage, listed or not.

        Returns:
            An exact integer.
        """
        self.check_stage(stage)
        return math.prod(self._radices(stage))

    def split_count(self, stage: int, split: str) -> int | None:
        """How many distinct instances a split holds.

        Args:
            stage: A stage, listed or not.
            split: One of the three splits.

        Returns:
            The exact number where the space can be listed (up to 2^20 instances), else None.
        """
        _check_split(split)
        if self.instance_count(stage) > ENUMERABLE:
            return None
        return int(_members(self, stage)[split].size)

    def _name(self, stage: int) -> tuple[object, ...]:
        return self.name, self.version, self.instance_knobs, stage

    def _at(
        self, places: Integer[np.ndarray, "count"], stage: int
    ) -> UInt[np.ndarray, "count width"]:
        """Codes of the instances at given places of the listed space."""
        return self._from_digits(digits.from_index(places, self._radices(stage)), stage)


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(unknown_name("split", split, SPLITS))


@lru_cache(maxsize=16)
def _members(task: InstanceSpace, stage: int) -> dict[str, UInt[np.ndarray, "members"]]:
    """The instance space of a stage, sorted into splits."""
    hashed = InstanceHash(*task._name(stage))
    return list_members(lambda p: task._at(p, stage), hashed, task.instance_count(stage))
