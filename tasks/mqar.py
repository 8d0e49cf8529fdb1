"""Multi-query associative recall (Arora et al., Zoology, arXiv 2312.04927), without its leaks."""

import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt

from tasks import digits
from tasks.base import IGNORE, Batch, Task
from tasks.streams import Stream, smallest_unsigned
from tasks.validation import refusal

_PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_LONGEST = 1 << 16
_LARGEST_VOCAB = 1 << 20
# Zoology's alpha: slot g = 1, 2, ... of the query region has weight a g^(a - 1).
_POWER = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mqar(Task):
    """Multi-query associative recall.

    Vocabulary: filler 0, keys 1 .. V/2 - 1, values V/2 .. V - 1. The context is a row of key-value
    pairs; in the region after it, every second position is a query slot; each key is asked once, in
    slots chosen without replacement with weight g^(a - 1), a = 0.01, and the label at the key is
    its value. Which key stands in which of the chosen slots is independent of the order of the
    keys (in Zoology's own code early keys are asked early), and what is not asked is filler 0,
    never a key. The stage is the number of pairs.

    With `overwrite` the first half of the pairs (rounded up) writes distinct keys, and each later
    pair rewrites one of them, drawn uniformly; the answer is the last value. All values differ.

    An instance is the context; the queries are its presentation.

    Example:
        >>> task = Mqar(vocab=16)
        >>> print(task.describe(task.batch(stage=2, size=1), 0))
        k1 v7 k6 v2 k6[v2] . k1[v7] .
        answer: k6 (position 4) -> v2; k1 (position 6) -> v7
    """

    name: ClassVar[str] = "mqar"
    definition: ClassVar[str] = (
        "Key-value pairs (keys 1 .. V/2-1, values V/2 .. V-1, all distinct), then queries at every "
        "second position, each key asked once, slots drawn with weight g^-0.99 without "
        "replacement, keys assigned to them at random; the label at a query is the key's value; "
        "the rest is filler 0. With overwrite the later half of the pairs rewrites keys of the "
        "first half and the answer is the last value."
    )
    presentation: ClassVar[tuple[str, ...]] = ("length",)

    length: int | None = None
    """Sequence length; None means four tokens a pair."""

    vocab: int = 8192
    """V, an even number: half keys (less the filler), half values."""

    overwrite: bool = False
    """Rewrite keys; the answer is the last value."""

    def _check_knobs(self) -> None:
        if self.vocab % 2 or not 4 <= self.vocab <= _LARGEST_VOCAB:
            raise ValueError(
                refusal("vocab", self.vocab, f"an even number in 4 .. {_LARGEST_VOCAB}")
            )
        if self.length is not None and not 4 <= self.length <= _LONGEST:
            raise ValueError(refusal("length", self.length, f"None or in 4 .. {_LONGEST}"))

    @property
    def vocab_size(self) -> int:
        """The knob `vocab`."""
        return self.vocab

    @property
    def stages(self) -> tuple[int, ...]:
        """Powers of two that the length and the vocabulary have room for."""
        return tuple(pairs for pairs in _PAIRS if self._allows(pairs))

    @property
    def allowed_stages(self) -> str:
        """Numbers of pairs that fit."""
        return f"a number of pairs in 1 .. {self._most_pairs}"

    @property
    def supervised(self) -> str:
        """The queries."""
        return "every query"

    @property
    def token_names(self) -> tuple[str, ...]:
        """Dot for the filler, k1, k2, ... for keys, v0, v1, ... for values."""
        half = self.vocab // 2
        keys = (f"k{i}" for i in range(1, half))
        return (".", *keys, *(f"v{i}" for i in range(half)))

    @property
    def _most_pairs(self) -> int:
        half = self.vocab // 2
        # Keys are distinct, or with overwriting the first half of them; values always.
        by_vocab = min(2 * (half - 1), half) if self.overwrite else half - 1
        return min(by_vocab, (self.length or _LONGEST) // 4)

    def num_keys(self, stage: int) -> int:
        """Different keys in the context, which is also the number of queries.

        Args:
            stage: The number of pairs.

        Returns:
            All of them, or half (rounded up) with overwriting.
        """
        self.check_stage(stage)
        return (stage + 1) // 2 if self.overwrite else stage

    def scored(self, batch: Batch) -> Bool[np.ndarray, "size length"]:
        """Every query.

        Args:
            batch: A batch of this task.

        Returns:
            The batch's mask.
        """
        return batch.mask

    def _allows(self, stage: int) -> bool:
        return stage <= self._most_pairs

    def _length(self, stage: int) -> int:
        return self.length or 4 * stage

    def _radices(self, stage: int) -> tuple[int, ...]:
        half, keys = self.vocab // 2, self.num_keys(stage)
        fresh = tuple(half - 1 - j for j in range(keys))
        return (*fresh, *(keys,) * (stage - keys), *(half - j for j in range(stage)))

    def _from_digits(
        self, digit_rows: UInt[np.ndarray, "count width"], stage: int
    ) -> UInt[np.ndarray, "count width"]:
        half, keys = self.vocab // 2, self.num_keys(stage)
        codes = digit_rows.astype(smallest_unsigned(half))
        codes[:, :keys] = digits.falling(digit_rows[:, :keys], half - 1)
        codes[:, stage:] = digits.falling(digit_rows[:, stage:], half)
        return codes

    def _draw(self, stream: Stream, stage: int, count: int) -> UInt[np.ndarray, "count width"]:
        half, keys = self.vocab // 2, self.num_keys(stage)
        codes = np.empty((count, 2 * stage), dtype=smallest_unsigned(half))
        codes[:, :keys] = stream.distinct(half - 1, count, keys)
        if stage > keys:
            codes[:, keys:stage] = stream.below(keys, count, stage - keys)
        codes[:, stage:] = stream.distinct(half, count, stage)
        return codes

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        size, keys, token = len(codes), self.num_keys(stage), smallest_unsigned(self.vocab)
        fresh = codes[:, :keys].astype(token) + token(1)
        values = codes[:, stage:].astype(token) + token(self.vocab // 2)
        inputs = np.zeros((size, self._length(stage)), dtype=np.int64)
        inputs[:, 0 : 2 * keys : 2] = fresh
        inputs[:, 1 : 2 * stage : 2] = values
        answers = values[:, :keys].copy()
        rows = np.arange(size)
        for place in range(keys, stage):
            rewritten = codes[:, place]
            inputs[:, 2 * place] = fresh[rows, rewritten]
            answers[rows, rewritten] = values[:, place]
        targets = np.full_like(inputs, IGNORE)
        order = stream.permutations(size, keys) + keys * rows[:, None]
        asked, labels = np.take(fresh, order), np.take(answers, order)
        # Query slots are every second position after the context.
        asked_at, labels_at = inputs[:, 2 * stage :: 2], targets[:, 2 * stage :: 2]
        if keys == self._room(stage):
            asked_at[:, :keys], labels_at[:, :keys] = asked, labels
        else:
            slots = self._slots(stream, stage, size)
            np.put_along_axis(asked_at, slots, asked, 1)
            np.put_along_axis(labels_at, slots, labels, 1)
        return inputs, targets

    def _slots(self, stream: Stream, stage: int, size: int) -> Int64[np.ndarray, "size keys"]:
        """The chosen query slots, ascending: weighted sampling without replacement."""
        room, keys = self._room(stage), self.num_keys(stage)
        # The slots with the smallest exponential variables, each of its weight as rate, are such a
        # sample (Efraimidis and Spirakis, 2006).
        weight = np.arange(1, room + 1) ** (_POWER - 1)
        arrival = stream.exponentials(size, room) / weight
        return np.sort(np.argpartition(arrival, keys - 1, axis=1)[:, :keys], axis=1)

    def _room(self, stage: int) -> int:
        """Query slots: a slot is a position and the filler after it."""
        return (self._length(stage) - 2 * stage) // 2

    def _floors(self, stage: int) -> dict[str, float]:
        guess, keys = 2 / self.vocab, self.num_keys(stage)
        floors = {"uniform": guess, "majority": guess, "context_value": 1 / stage}
        if self.overwrite:
            # The value of the last pair is certainly live.
            floors["last_value"] = 1 / keys
            # Right for the keys that none of the later pairs rewrites.
            floors["first_value"] = (1 - 1 / keys) ** (stage - keys)
        return floors

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        floors = np.full(self._length(stage), np.nan)
        end = 2 * stage + 2 * self._room(stage)
        floors[2 * stage : end : 2] = 2 / self.vocab
        return floors
