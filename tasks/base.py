"""What every task is: a pure function from (stage, split, seed, index, size) to a batch."""

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64, Integer, UInt

from tasks.instances import InstanceSpace
from tasks.streams import Stream
from tasks.validation import refusal

IGNORE = -100


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
class Task(InstanceSpace):
    """A family of examples ordered by stages; its fields are its knobs.

    An example is an *instance* (what is to be worked out: drawn, hashed into a split, counted) and
    its presentation (layout, supervision, the order of questions). A subclass names its instance
    space by the radices of a digit string, and renders instances to tokens and labels.
    """

    definition: ClassVar[str]

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
    def supervised(self) -> str:
        """Which positions are labelled, in words."""

    @property
    @abstractmethod
    def token_names(self) -> tuple[str, ...]:
        """A readable name for every token id."""

    @abstractmethod
    def _length(self, stage: int) -> int:
        """Tokens an example."""

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
