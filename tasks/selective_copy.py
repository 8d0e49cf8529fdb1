"""Selective copying (Gu and Dao, arXiv 2312.00752; MAD, arXiv 2403.17844): skip blanks, repeat."""

import dataclasses
from math import comb
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt

from tasks import chances
from tasks.base import IGNORE, Batch, Task
from tasks.streams import Stream
from tasks.validation import refusal

_BLANK, _COPY, _SYMBOL = 0, 1, 2
_LONGEST = 1 << 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectiveCopy(Task):
    """Repeat the symbols that stand scattered among blanks.

    A region of blanks holds n uniform symbols at a uniform choice of places; after COPY come n
    blanks, and the label at the i-th of them is the i-th symbol. The places are chosen anew in
    every example, any of them alike, the last before COPY too (in MAD's own code that is always a
    symbol), so no fixed offset copies. The stage is the sequence length; the region is what n
    symbols, COPY and n blanks leave.

    An instance is the string of symbols; where they stand is its presentation.

    Example:
        >>> task = SelectiveCopy(symbols=3)
        >>> print(task.describe(task.batch(stage=12, size=1), 0))
        . . . 1 12 . . 13 COPY .[1] .[12] .[13]
        answer: . (position 9) -> 1; . (position 10) -> 12; . (position 11) -> 13
    """

    name: ClassVar[str] = "selective_copy"
    definition: ClassVar[str] = (
        "n independent uniform symbols at a uniform choice of n places of a region of blanks, then "
        "COPY, then n blanks; the label at the i-th of those is the i-th symbol."
    )

    symbols: int = 16
    """n: symbols to copy (1 to 1024)."""

    vocab: int = 16
    """Vocabulary size, blank and COPY included (4 to 65536)."""

    def _check_knobs(self) -> None:
        if not 1 <= self.symbols <= 1024:
            raise ValueError(refusal("symbols", self.symbols, "in 1 .. 1024"))
        if not 4 <= self.vocab <= 1 << 16:
            raise ValueError(refusal("vocab", self.vocab, f"in 4 .. {1 << 16}"))

    @property
    def vocab_size(self) -> int:
        """The knob `vocab`."""
        return self.vocab

    @property
    def stages(self) -> tuple[int, ...]:
        """Five powers of two, the first the smallest one >= 4n (and >= 16)."""
        shortest = max(16, 1 << (4 * self.symbols - 1).bit_length())
        return tuple(shortest << i for i in range(5))

    @property
    def allowed_stages(self) -> str:
        """Lengths that hold the symbols twice and COPY."""
        return f"a sequence length in {2 * self.symbols + 1} .. {_LONGEST}"

    @property
    def supervised(self) -> str:
        """The answer."""
        return "every blank after COPY"

    @property
    def token_names(self) -> tuple[str, ...]:
        """Dot for a blank, COPY, numbers for the symbols."""
        return (".", "COPY", *(str(symbol) for symbol in range(self.vocab - _SYMBOL)))

    def scored(self, batch: Batch) -> Bool[np.ndarray, "size length"]:
        """The whole copy.

        Args:
            batch: A batch of this task.

        Returns:
            The batch's mask.
        """
        return batch.mask

    def _allows(self, stage: int) -> bool:
        return 2 * self.symbols + 1 <= stage <= _LONGEST

    def _length(self, stage: int) -> int:
        return stage

    def _region(self, stage: int) -> int:
        return stage - 1 - self.symbols

    def _radices(self, stage: int) -> tuple[int, ...]:
        return (self.vocab - _SYMBOL,) * self.symbols

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        region = self._region(stage)
        places = np.sort(stream.distinct(region, len(codes), self.symbols), axis=1)
        symbols = codes.astype(np.int64) + _SYMBOL
        inputs = np.full((len(codes), stage), _BLANK, dtype=np.int64)
        np.put_along_axis(inputs, places.astype(np.int64), symbols, 1)
        inputs[:, region] = _COPY
        targets = np.full_like(inputs, IGNORE)
        targets[:, region + 1 :] = symbols
        return inputs, targets

    def _floors(self, stage: int) -> dict[str, float]:
        kinds, region, n = self.vocab - _SYMBOL, self._region(stage), self.symbols
        # Where the j-th symbol stands most often, and how often it does.
        modes = [min(j * region // max(n - 1, 1), region - 1) for j in range(n)]
        hits = sum(
            comb(q, j) * comb(region - 1 - q, n - 1 - j) / comb(region, n)
            for j, q in enumerate(modes)
        )
        return {
            "uniform": 1 / kinds,
            "majority": 1 / kinds,
            # The most frequent symbol of the region, whatever the order.
            "most_frequent_symbol": chances.most_frequent(n, kinds),
            # A copy from one fixed place for each blank, a guess if that place is blank.
            "fixed_places": hits / n + (1 - hits / n) / kinds,
        }

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        floors = np.full(stage, np.nan)
        floors[self._region(stage) + 1 :] = 1 / (self.vocab - _SYMBOL)
        return floors
