"""A needle in a haystack: find a key in filler and give its value (RULER, arXiv 2404.06654)."""

import dataclasses
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt

from tasks import chances, digits
from tasks.base import IGNORE, Batch, Task
from tasks.streams import Stream
from tasks.validation import refusal

_QUERY, _NEEDLE, _IS, _ANSWER, _DIGIT = 0, 1, 2, 3, 4
_WORDS, _FILLER, _SENTENCE = 256, 64, 16
_WORD = _DIGIT + 16
_FIRST_FILLER = _WORD + _WORDS
_LONGEST = 1 << 16
_MOST_NEEDLES = 32


class _Kind(NamedTuple):
    """How keys or values are written: so many tokens, each one of `base` from `first` on."""

    base: int
    width: int
    first: int


_KINDS = {
    "word": _Kind(_WORDS, 1, _WORD),
    "number": _Kind(10, 7, _DIGIT),
    "hex": _Kind(16, 8, _DIGIT),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Needle(Task):
    """Passkey retrieval.

    Needles (NEEDLE, a key, IS, its value) lie at uniform places of a haystack of filler. Then come
    QUERY, the key of one of them, and a blank for each token of its value, where the label is that
    token. Keys are distinct; keys and values are single words, numbers of seven digits or eight
    hexadecimal digits, as RULER's words, numbers and uuids. One needle is the passkey task; more of
    them must be told apart by their keys. The stage is the sequence length.

    An instance is the keys, the values and the query; places and filler are its presentation.

    Example:
        >>> task = Needle(needles=2, value="word")
        >>> print(task.describe(task.batch(stage=20, size=1), 0))
        ~1 ~8 ~27 ~26 NEEDLE w115 IS w148 ~8 ~62 ~38 NEEDLE w249 IS w19 ~47 ~61 QUERY w115 _[w148]
        answer: _ (position 19) -> w148
    """

    name: ClassVar[str] = "needle"
    definition: ClassVar[str] = (
        "A haystack of filler tokens (uniform, or one sentence of 16 tokens again and again) with "
        "needles at uniform places: NEEDLE, key, IS, value. Keys are distinct, values independent, "
        "both uniform: a word (one of 256 tokens), a number (7 digits) or hex (8 digits). Then "
        "QUERY, the key of a uniform needle, and as many blanks (_) as its value has tokens; the "
        "label at the i-th blank is the i-th token of the value."
    )
    presentation: ClassVar[tuple[str, ...]] = ("haystack",)

    needles: int = 1
    """How many needles (1 to 32)."""

    key: Literal["word", "number", "hex"] = "word"
    """How keys are written."""

    value: Literal["word", "number", "hex"] = "number"
    """How values are written."""

    haystack: Literal["random", "repeated"] = "random"
    """Independent uniform filler, or one sentence again and again."""

    def _check_knobs(self) -> None:
        if not 1 <= self.needles <= _MOST_NEEDLES:
            raise ValueError(refusal("needles", self.needles, f"in 1 .. {_MOST_NEEDLES}"))

    @property
    def vocab_size(self) -> int:
        """Markers, the blank, 16 digits, 256 words, 64 filler tokens."""
        return _FIRST_FILLER + _FILLER

    @property
    def stages(self) -> tuple[int, ...]:
        """Seven powers of two, the first the smallest one >= 64 that the needles half fill."""
        shortest = max(64, 1 << (2 * self._least - 1).bit_length())
        return tuple(shortest << i for i in range(7) if shortest << i <= _LONGEST)

    @property
    def allowed_stages(self) -> str:
        """Lengths that hold the needles, the query and the answer."""
        return f"a sequence length in {self._least} .. {_LONGEST}"

    @property
    def supervised(self) -> str:
        """The answer."""
        return "every blank after the queried key"

    @property
    def token_names(self) -> tuple[str, ...]:
        """Markers, digits, w0, w1, ... for words, ~0, ~1, ... for filler."""
        words = (f"w{i}" for i in range(_WORDS))
        filler = (f"~{i}" for i in range(_FILLER))
        return ("QUERY", "NEEDLE", "IS", "_", *"0123456789abcdef", *words, *filler)

    def scored(self, batch: Batch) -> Bool[np.ndarray, "size length"]:
        """The whole value.

        Args:
            batch: A batch of this task.

        Returns:
            The batch's mask.
        """
        return batch.mask

    @property
    def _tail(self) -> int:
        """Tokens after the haystack."""
        return 1 + _KINDS[self.key].width + _KINDS[self.value].width

    @property
    def _least(self) -> int:
        return self.needles * (1 + self._tail) + self._tail

    def _allows(self, stage: int) -> bool:
        return self._least <= stage <= _LONGEST

    def _length(self, stage: int) -> int:
        return stage

    def _radices(self, stage: int) -> tuple[int, ...]:
        keys, values = (kind.base**kind.width for kind in (_KINDS[self.key], _KINDS[self.value]))
        fresh = (keys - j for j in range(self.needles))
        return (*fresh, *(values,) * self.needles, self.needles)

    def _from_digits(
        self, digit_rows: UInt[np.ndarray, "count width"], stage: int
    ) -> UInt[np.ndarray, "count width"]:
        codes = digit_rows.copy()
        kind = _KINDS[self.key]
        codes[:, : self.needles] = digits.falling(codes[:, : self.needles], kind.base**kind.width)
        return codes

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        n, hay = self.needles, stage - self._tail
        asked = codes[:, -1:].astype(np.int64)
        key_width, value_width = _KINDS[self.key].width, _KINDS[self.value].width
        inputs = np.empty((len(codes), stage), dtype=np.int64)
        inputs[:, :hay] = self._filler(stream, len(codes), hay)
        starts = self._starts(stream, len(codes), hay)
        block = np.empty((len(codes), 1 + self._tail), dtype=np.int64)
        block[:, 0], block[:, 1 + key_width] = _NEEDLE, _IS
        for i in range(n):
            block[:, 1 : 1 + key_width] = _written(codes[:, i], _KINDS[self.key])
            block[:, 2 + key_width :] = _written(codes[:, n + i], _KINDS[self.value])
            places = starts[:, i : i + 1] + np.arange(block.shape[1])
            np.put_along_axis(inputs, places, block, 1)
        inputs[:, hay] = _QUERY
        key, value = (np.take_along_axis(codes, at, 1)[:, 0] for at in (asked, n + asked))
        inputs[:, hay + 1 : hay + 1 + key_width] = _written(key, _KINDS[self.key])
        inputs[:, -value_width:] = _ANSWER
        targets = np.full_like(inputs, IGNORE)
        targets[:, -value_width:] = _written(value, _KINDS[self.value])
        return inputs, targets

    def _starts(self, stream: Stream, size: int, hay: int) -> Int64[np.ndarray, "size needles"]:
        """Where the needles begin, in order: each at a uniform place among the filler."""
        block = 1 + self._tail
        gaps = stream.below(hay - self.needles * block + 1, size, self.needles).astype(np.int64)
        return np.asarray(np.sort(gaps, axis=1) + block * np.arange(self.needles))

    def _filler(self, stream: Stream, size: int, hay: int) -> UInt[np.ndarray, "rows hay"]:
        """Filler everywhere; needles are written over it."""
        if self.haystack == "repeated":
            filler: np.ndarray = (np.arange(hay, dtype=np.uint16) % np.uint16(_SENTENCE))[None]
        else:
            filler = stream.below(_FILLER, size, hay).astype(np.uint16)
        return filler + np.uint16(_FIRST_FILLER)

    def _floors(self, stage: int) -> dict[str, float]:
        kind = _KINDS[self.value]
        guess, shown = 1 / kind.base, self.needles * kind.width
        floors = {"uniform": guess, "majority": guess}
        if shown > 1:
            # The most frequent token of all values shown, whatever the order.
            floors["most_frequent_token"] = chances.most_frequent(shown, kind.base)
        if self.needles > 1:
            # The value of some needle, whatever its key.
            floors["any_needle"] = guess + (1 - guess) / self.needles
        return floors

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        floors = np.full(stage, np.nan)
        floors[-_KINDS[self.value].width :] = 1 / _KINDS[self.value].base
        return floors


def _written(codes: UInt[np.ndarray, "size"], kind: _Kind) -> Int64[np.ndarray, "size width"]:
    """The tokens of keys or values, the highest digit first."""
    powers = kind.base ** np.arange(kind.width - 1, -1, -1, dtype=np.int64)
    return codes.astype(np.int64)[:, None] // powers % kind.base + kind.first
