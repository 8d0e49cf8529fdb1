"""Modular addition: the running sum of digits modulo n, the word problem of Z_n."""

import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Int64, Integer, UInt

from tasks.validation import refusal
from tasks.words import WordTask

_LARGEST = 1024


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModularAddition(WordTask):
    """Running sum modulo n, labelled at every digit.

    The abelian control of the word problems: the sum depends on the multiset of digits alone. The
    stage is the length.

    Example:
        >>> task = ModularAddition(modulus=3)
        >>> print(task.describe(task.batch(stage=6, size=1), 0))
        0[0] 2[2] 2[1] 0[1] 2[0] 0[0]
        answer: 0 (position 5) -> 0
    """

    name: ClassVar[str] = "modular_addition"
    definition: ClassVar[str] = (
        "Independent uniform digits 0 .. n-1; the label at each digit is the sum of all digits up "
        "to it, modulo n."
    )

    modulus: int = 5
    """n: digits are added modulo this number (2 to 1024)."""

    def _check_knobs(self) -> None:
        if not 2 <= self.modulus <= _LARGEST:
            raise ValueError(refusal("modulus", self.modulus, f"in 2 .. {_LARGEST}"))

    @property
    def vocab_size(self) -> int:
        """One token a digit."""
        return self.modulus

    @property
    def alphabet_size(self) -> int:
        """One letter a digit."""
        return self.modulus

    @property
    def token_names(self) -> tuple[str, ...]:
        """The digits."""
        return tuple(map(str, range(self.modulus)))

    def _tokens(self, words: UInt[np.ndarray, "b t"]) -> Int64[np.ndarray, "b t"]:
        return words.astype(np.int64)

    def _products(self, words: UInt[np.ndarray, "t b"]) -> Integer[np.ndarray, "t b"]:
        # At most 2^16 digits below 2^10: the sums stay below 2^32.
        sums = words.astype(np.uint32)
        for t in range(1, len(sums)):
            sums[t] += sums[t - 1]
        return sums % np.uint32(self.modulus)

    def _floors(self, stage: int) -> dict[str, float]:
        return {"uniform": 1 / self.modulus, "majority": 1 / self.modulus}
