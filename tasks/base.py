"""What every task is: a pure function from (stage, split, seed, index, size) to a batch."""

import dataclasses
import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64, Integer, UInt

from tasks import digits
from tasks.splits import SPLITS, InstanceHash, draw_members, list_members
from tasks.streams import Stream
from tasks.validation import check_count, check_fields, refusal

IGNORE = -100
ENUMERABLE = 1 << 20


class Batch(NamedTuple):
    """Examples, one a row.

    Attributes:
        inputs: Token ids.
        targets: The label at each position, a token id, and -100 where there is none. A label is
            a function of the inputs up to and including its position: there is no shift.
        mask: True where there is a label.
    """

    inputs: Int64[np.ndarray, "size length"]
    targets: Int64[np.ndarray, "size length"]
    mask: Bool[np.ndarray, "size length"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(ABC):
    """A family of examples ordered by stages; its fields are its knobs.

    An example is an *instance* (what is to be worked out: drawn, hashed into a split, counted) and
    its presentation (layout, supervision, the order of questions). A subclass names its instance
    space by the radices of a digit string, and renders instances to tokens and labels.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    definition: ClassVar[str]
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
    def vocab_size(self) -> int:
        """Number of token ids, the same for every stage."""

    @property
    @abstractmethod
    def stages(self) -> tuple[int, ...]:
        """The curriculum, easiest first. Other allowed stages work as well."""

    @property
    @abstractmethod
    def allowed_stages(self) -> str:
        """The allowed stages in words."""

    @property
    @abstractmethod
    def supervised(self) -> str:
        """Which positions are labelled, in words."""

    @property
    @abstractmethod
    def token_names(self) -> tuple[str, ...]:
        """A readable name for every token id."""

    @abstractmethod
    def _allows(self, stage: int) -> bool:
        """Whether a positive integer is an allowed stage."""

    @abstractmethod
    def _length(self, stage: int) -> int:
        """Tokens an example."""

    @abstractmethod
    def _radices(self, stage: int) -> tuple[int, ...]:
        """Number of values of each digit of an instance."""

    @abstractmethod
    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        """Inputs and targets of instances; `stream` serves what is presentation only."""

    @abstractmethod
    def _floors(self, stage: int) -> dict[str, float]:
        """Accuracies of the uniform guess, the majority answer and named shortcuts."""

    @abstractmethod
    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        """Accuracy of the best constant answer at each position."""

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

    def sequence_length(self, stage: int) -> int:
        """Tokens an example.

        Args:
            stage: A stage, listed or not.

        Returns:
            The sequence length.
        """
        self.check_stage(stage)
        return self._length(stage)

    def batch(
        self, *, stage: int, split: str = "train", seed: int = 0, index: int = 0, size: int
    ) -> Batch:
        """The batch with a given name: a pure function of the knobs and the arguments.

        Args:
            stage: A stage, listed or not.
            split: `train` may repeat instances; `eval` and `test` hold distinct ones.
            seed: Chooses the sequence of batches.
            index: Place in that sequence; any batch can be had without the ones before it.
            size: Examples.

        Returns:
            Inputs, targets and mask.
        """
        codes = self.instances(stage=stage, split=split, seed=seed, index=index, size=size)
        stream = Stream("presentation", *self._name(stage), split, seed, index)
        inputs, targets = self._render(codes, stage, stream)
        return Batch(inputs, targets, targets >= 0)

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

    def scored(self, batch: Batch) -> Bool[np.ndarray, "size length"]:
        """The positions that promotion and every quoted accuracy use.

        Args:
            batch: A batch of this task.

        Returns:
            True at each row's last labelled position, unless the task says otherwise.
        """
        length = batch.mask.shape[1]
        last = length - 1 - np.argmax(batch.mask[:, ::-1], axis=1)
        scored: np.ndarray = (np.arange(length) == last[:, None]) & batch.mask
        return scored

    def floors(self, stage: int) -> dict[str, float]:
        """What can be had at the scored positions without solving the task.

        Args:
            stage: A stage, listed or not.

        Returns:
            Accuracies over the whole instance space: `uniform` guesses among the possible answers,
            `majority` always gives the best constant answer, the others are named shortcuts.
        """
        self.check_stage(stage)
        return self._floors(stage)

    def position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        """Accuracy of the best constant answer at each position.

        Args:
            stage: A stage, listed or not.

        Returns:
            One accuracy a position, NaN where no example has a label.
        """
        self.check_stage(stage)
        return self._position_floors(stage)

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

    def decode(self, tokens: Integer[np.ndarray, "length"] | list[int]) -> list[str]:
        """Readable names of token ids.

        Args:
            tokens: One row of inputs, or labels.

        Returns:
            A name for every id, and "-" for -100 (no label).

        Raises:
            ValueError: An id lies outside the vocabulary.
        """
        names = self.token_names
        for token in tokens:
            if token != IGNORE and not 0 <= token < len(names):
                raise ValueError(refusal("tokens", int(token), f"in 0 .. {len(names) - 1}"))
        return ["-" if token == IGNORE else names[token] for token in tokens]

    def describe(self, batch: Batch, row: int) -> str:
        """One example in readable form, with its answers.

        Args:
            batch: A batch of this task.
            row: Which example.

        Returns:
            The tokens, each labelled one followed by its label, and the scored answers below.

        Raises:
            ValueError: There is no such row.
        """
        if not 0 <= row < len(batch.inputs):
            raise ValueError(refusal("row", row, f"in 0 .. {len(batch.inputs) - 1}"))
        tokens, labels = self.decode(batch.inputs[row]), self.decode(batch.targets[row])
        shown = [
            f"{token}[{label}]" if known else token
            for token, label, known in zip(tokens, labels, batch.mask[row], strict=True)
        ]
        scored = np.flatnonzero(self.scored(batch)[row])
        answers = [f"{tokens[i]} (position {i}) -> {labels[i]}" for i in scored]
        return " ".join(shown) + "\nanswer: " + "; ".join(answers)

    def card(self) -> dict[str, Any]:
        """What somebody needs who has the data without the code.

        Returns:
            Name, version, definition, knobs, vocabulary, stages and supervision; JSON can write it.
        """
        return {
            "task": self.name,
            "version": self.version,
            "definition": self.definition,
            "knobs": self.knobs,
            "vocab_size": self.vocab_size,
            "stages": list(self.stages),
            "lengths": [self._length(stage) for stage in self.stages],
            "allowed_stages": self.allowed_stages,
            "labelled": self.supervised,
            "supervision": self.knobs.get("supervision", self.supervised),
            "layout": self.knobs.get("layout", "plain"),
            "splits": "keyed hash of the instance, 80/10/10 train/eval/test",
        }

    def _name(self, stage: int) -> tuple[object, ...]:
        return self.name, self.version, self.instance_knobs, stage

    def _at(
        self, places: Integer[np.ndarray, "count"], stage: int
    ) -> UInt[np.ndarray, "count width"]:
        """Codes of the instances at given places of the listed space."""
        return self._from_digits(digits.from_index(places, self._radices(stage)), stage)


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise ValueError(refusal("split", split, "one of " + ", ".join(map(repr, SPLITS))))


@lru_cache(maxsize=16)
def _members(task: Task, stage: int) -> dict[str, UInt[np.ndarray, "members"]]:
    """The instance space of a stage, sorted into splits."""
    hashed = InstanceHash(*task._name(stage))
    return list_members(lambda p: task._at(p, stage), hashed, task.instance_count(stage))
