"""Word problems: a token is a group element, the label at every token the product so far."""

import dataclasses
from abc import abstractmethod

import numpy as np
from jaxtyping import Float64, Int64, Integer, UInt

from tasks.base import Task
from tasks.streams import Stream

LENGTHS = (8, 16, 32, 64, 128, 256)
LONGEST = 1 << 16
# A stage is worth listing when its eval split has room for thousands of distinct instances.
_LEAST_INSTANCES = 50_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordTask(Task):
    """A word problem: the stage is the length, every token is labelled, the last one is scored."""

    @property
    @abstractmethod
    def alphabet_size(self) -> int:
        """Number of different letters."""

    @abstractmethod
    def _products(self, words: UInt[np.ndarray, "t b"]) -> Integer[np.ndarray, "t b"]:
        """Running products of words over the letters, time first."""

    @abstractmethod
    def _tokens(self, words: UInt[np.ndarray, "b t"]) -> Int64[np.ndarray, "b t"]:
        """Token ids of letters."""

    @property
    def stages(self) -> tuple[int, ...]:
        """Powers of two with enough instances."""
        enough = [n for n in LENGTHS if self.alphabet_size**n >= _LEAST_INSTANCES]
        return tuple(enough)

    @property
    def allowed_stages(self) -> str:
        """Any length."""
        return f"a length in 1 .. {LONGEST}"

    @property
    def supervised(self) -> str:
        """Every token."""
        return "every token"

    def _allows(self, stage: int) -> bool:
        return stage <= LONGEST

    def _length(self, stage: int) -> int:
        return stage

    def _radices(self, stage: int) -> tuple[int, ...]:
        return (self.alphabet_size,) * stage

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        # Time first, so that each step of the scan reads and writes contiguous rows.
        products = self._products(np.ascontiguousarray(codes.T))
        return self._tokens(codes), products.T.astype(np.int64, order="C")

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        return np.full(stage, 1 / self.vocab_size)
