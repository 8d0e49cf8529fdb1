"""Bracket words of bounded depth, Dyck-(k, D) (Hewitt et al., arXiv 2010.07515)."""

import dataclasses
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt, UInt8

from tasks import paths
from tasks.base import Task
from tasks.streams import Stream, smallest_unsigned
from tasks.validation import refusal

_NONE = 0
_LENGTHS = (16, 32, 64, 128, 256, 512)
_LONGEST = 4096
_WINDOW = 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dyck(Task):
    """Brackets of k types, at most D of them open at once.

    A word is uniform among all that close nothing wrongly, never have more than D brackets open,
    have D open some time and then end with closing brackets that leave about D/2 open, so that the
    last label is far from the bracket that it needs. With `closing` the label at every bracket is
    the closing bracket that would close the innermost open one, or "." where none is open. With
    `valid` half of the words have one closing bracket, any of them alike, replaced by one of
    another type, and the label at every bracket is whether all brackets up to it match. The stage
    is the length.

    Example:
        >>> task = Dyck(types=3, depth=4)
        >>> print(task.describe(task.batch(stage=12, size=1), 0))
        (1[)1] (1[)1] )1[)1] (2[)2] (1[)1] )1[)2] (2[)2] (1[)1] )1[)2] (2[)2] )2[)2] )2[)2]
        answer: )2 (position 11) -> )2
    """

    name: ClassVar[str] = "dyck"
    definition: ClassVar[str] = (
        "Uniform words of brackets of k types with at most D open at once, which end with D open, "
        "and then closing brackets until D//2 are open (one more where the parity of the length "
        "asks for it). "
        "closing: the label at each bracket is the closing bracket of the innermost open one, or "
        "'.' if none is open. valid: in half of the words one uniform closing bracket has another "
        "uniform type; the label at each bracket is OK if all closing brackets up to it match, "
        "else BAD."
    )

    types: int = 4
    """k: types of brackets (2 to 128)."""

    depth: int = 8
    """D: most brackets open at once (3 to 256)."""

    question: Literal["closing", "valid"] = "closing"
    """Name the bracket to close next, or say whether the word is valid so far."""

    def _check_knobs(self) -> None:
        if not 2 <= self.types <= 128:
            raise ValueError(refusal("types", self.types, "in 2 .. 128"))
        if not 3 <= self.depth <= 256:
            raise ValueError(refusal("depth", self.depth, "in 3 .. 256"))

    @property
    def vocab_size(self) -> int:
        """The answer ".", opening and closing brackets, the answers OK and BAD."""
        return 3 + 2 * self.types

    @property
    def stages(self) -> tuple[int, ...]:
        """Powers of two that are at least twice the depth."""
        return tuple(length for length in _LENGTHS if length >= 2 * self.depth)

    @property
    def allowed_stages(self) -> str:
        """Lengths that words can have."""
        return f"a length in {self._least} .. {_LONGEST}"

    @property
    def supervised(self) -> str:
        """Every bracket."""
        return "every bracket"

    @property
    def token_names(self) -> tuple[str, ...]:
        """Dot, (0, (1, ... for opening, )0, )1, ... for closing brackets, OK and BAD."""
        opening = (f"({i}" for i in range(self.types))
        return (".", *opening, *(f"){i}" for i in range(self.types)), "OK", "BAD")

    @property
    def _least(self) -> int:
        return 2 * self.depth - self.depth // 2

    def _allows(self, stage: int) -> bool:
        return self._least <= stage <= _LONGEST

    def _length(self, stage: int) -> int:
        return stage

    def num_open(self, stage: int) -> int:
        """Brackets left open.

        Args:
            stage: The length.

        Returns:
            D // 2, or one more, of the length's parity.
        """
        self.check_stage(stage)
        return self.depth // 2 + (self.depth // 2 + stage) % 2

    def _shape(self, stage: int) -> tuple[int, int, int]:
        """Words without types and without the closing brackets at their end, as paths."""
        return stage - self._last(stage), self.depth, self.depth

    def _last(self, stage: int) -> int:
        """Closing brackets at the end."""
        return self.depth - self.num_open(stage)

    def _closings(self, stage: int) -> int:
        return (stage - self.num_open(stage)) // 2

    def _radices(self, stage: int) -> tuple[int, ...]:
        spoilt = (2,) if self.question == "valid" else ()
        opened = stage - self._closings(stage)
        return (*spoilt, paths.count(*self._shape(stage)), *(self.types,) * opened)

    def _from_digits(
        self, digit_rows: UInt[np.ndarray, "count width"], stage: int
    ) -> UInt[np.ndarray, "count codes"]:
        first = 1 if self.question == "valid" else 0
        ups = paths.listed(digit_rows[:, first], *self._shape(stage))
        opened = np.maximum(np.cumsum(ups, axis=0) - 1, 0)
        types = np.take_along_axis(digit_rows[:, first + 1 :].T, opened, 0)
        return self._coded(ups, types, digit_rows[:, :first])

    def _draw(self, stream: Stream, stage: int, count: int) -> UInt[np.ndarray, "count codes"]:
        ups = paths.draw(stream, *self._shape(stage), count)
        types = stream.below(self.types, len(ups), count)
        spoilt = stream.below(2, count, 1 if self.question == "valid" else 0)
        return self._coded(ups, types, spoilt)

    def _coded(
        self,
        ups: Bool[np.ndarray, "t b"],
        types: UInt[np.ndarray, "t b"],
        spoilt: UInt[np.ndarray, "b flags"],
    ) -> UInt8[np.ndarray, "b codes"]:
        """Codes: whether the word is spoilt, if that is asked, then a type or k (a step down)."""
        word = np.where(ups, types, self.types).astype(smallest_unsigned(self.types + 1))
        return np.concatenate([spoilt.astype(np.uint8), word.T], axis=1)

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        k = self.types
        word = np.full((stage, len(codes)), k, dtype=np.uint8)
        written = stage - self._last(stage)
        word[:written] = codes[:, -written:].T
        closes = word == k
        types, innermost = _matched(word, closes, self.depth)
        if self.question == "closing":
            answer = np.where(innermost == k, _NONE, innermost.astype(np.int16) + np.int16(1 + k))
        else:
            spoilt = codes[:, 0] == 1
            order = np.cumsum(closes, axis=0, dtype=np.int16)
            chosen = stream.below(self._closings(stage), len(codes), 1)[:, 0].astype(np.int16) + 1
            shift = stream.below(k - 1, len(codes), 1)[:, 0].astype(np.int16) + 1
            wrong = closes & (order == chosen) & spoilt
            types = np.where(wrong, (types + shift) % k, types)
            answer = np.where((order >= chosen) & spoilt, 2 * k + 2, 2 * k + 1)
        tokens = types.astype(np.int16) + np.where(closes, np.int16(1 + k), np.int16(1))
        inputs = np.ascontiguousarray(tokens.T).astype(np.int64)
        return inputs, np.ascontiguousarray(answer.T).astype(np.int64)

    def _floors(self, stage: int) -> dict[str, float]:
        if self.question == "valid":
            # Says BAD if a bracket is closed wrongly right after it was opened.
            seen = self._adjacent(stage) / self._closings(stage)
            return {"uniform": 0.5, "majority": 0.5, "adjacent_pairs": 0.5 + seen / 2}
        guess = 1 / self.types
        floors = {"uniform": guess, "majority": guess}
        if stage > _WINDOW:
            near = self._within(stage)
            floors["last_sixteen"] = near + (1 - near) * guess
        return floors

    def _within(self, stage: int) -> float:
        """Chance that the innermost open bracket at the end is one of the last tokens."""
        steps, end, depth = self._shape(stage)
        before, last = paths.ways(steps, 0, depth), self._last(stage)
        total = before.logs[steps] + np.log(before.rows[steps, end])
        chance = 0.0
        # After the bracket a path leads up to D and the closing brackets down to it again.
        for inner in range(last, min(_WINDOW - 1 - last, steps - 1) + 1, 2):
            opened = steps - 1 - inner
            ways = before.rows[opened, end - last - 1] * paths.count(inner, last, last)
            chance += ways * np.exp(before.logs[opened] - total)
        return float(chance)

    def _adjacent(self, stage: int) -> float:
        """Expected number of brackets that are closed right after they were opened."""
        steps, end, depth = self._shape(stage)
        before, after = paths.ways(steps, 0, depth), paths.ways(steps, end, depth)
        total = after.logs[steps] + np.log(after.rows[steps, 0])
        t = np.arange(steps - 1)
        ways = (before.rows[t, :-1] * after.rows[steps - 2 - t, :-1]).sum(axis=1)
        pairs = ways @ np.exp(before.logs[t] + after.logs[steps - 2 - t] - total)
        return float(pairs + 1)  # the last one to be opened is closed at once

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        occupied, last = paths.occupancy(*self._shape(stage))[1:], self._last(stage)
        if self.question == "valid":
            mean = np.append(
                occupied @ np.arange(self.depth + 1), self.depth - np.arange(1, last + 1)
            )
            closed = (np.arange(1, stage + 1) - mean) / 2
            spoilt = closed / self._closings(stage) / 2
            return np.asarray(np.maximum(spoilt, 1 - spoilt))
        empty = np.append(occupied[:, 0], np.zeros(last))
        return np.asarray(np.maximum(empty, (1 - empty) / self.types))


def _matched(
    word: UInt8[np.ndarray, "t b"], closes: Bool[np.ndarray, "t b"], depth: int
) -> tuple[UInt8[np.ndarray, "t b"], UInt8[np.ndarray, "t b"]]:
    """The type of every bracket, and that of the innermost open one after it (k for none)."""
    size = word.shape[1]
    after = np.cumsum(np.where(closes, -size, size), axis=0)
    after += np.arange(size)
    touched = after + np.where(closes, size, 0)
    types, innermost = np.empty_like(word), np.empty_like(word)
    # Level 0 holds k, which marks a step down as well: the last of the word.
    stack = np.full((depth + 1) * size, word[-1, 0], dtype=np.uint8)
    for t in range(len(word)):
        # What is opened goes on the stack; what is closed lies there and is written once more.
        np.take(stack, touched[t], out=types[t], mode="clip")
        np.copyto(types[t], word[t], where=~closes[t])
        stack[touched[t]] = types[t]
        np.take(stack, after[t], out=innermost[t], mode="clip")
    return types, innermost
