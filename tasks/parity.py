"""Parity: is the number of ones so far odd?"""

import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Int64, Integer, UInt

from tasks.words import WordTask


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parity(WordTask):
    """Parity of a bit string, labelled at every bit.

    Needs one reflection a token: a single linear layer with eigenvalues in (0, 1) cannot keep it
    (Grazzi et al., arXiv 2411.12537). The stage is the length.

    Example:
        >>> task = Parity()
        >>> print(task.describe(task.batch(stage=6, size=1), 0))
        0[0] 0[0] 0[0] 1[1] 1[0] 1[1]
        answer: 1 (position 5) -> 1
    """

    name: ClassVar[str] = "parity"
    definition: ClassVar[str] = (
        "Independent uniform bits; the label at each bit is the exclusive or of all bits up to it."
    )

    @property
    def vocab_size(self) -> int:
        """Two bits."""
        return 2

    @property
    def alphabet_size(self) -> int:
        """Two letters."""
        return 2

    @property
    def token_names(self) -> tuple[str, ...]:
        """The bits."""
        return ("0", "1")

    def _tokens(self, words: UInt[np.ndarray, "b t"]) -> Int64[np.ndarray, "b t"]:
        return words.astype(np.int64)

    def _products(self, words: UInt[np.ndarray, "t b"]) -> Integer[np.ndarray, "t b"]:
        # Row by row: several times faster here than `accumulate` along the slow axis.
        products = words.copy()
        for t in range(1, len(products)):
            products[t] ^= products[t - 1]
        return products

    def _floors(self, stage: int) -> dict[str, float]:
        return {"uniform": 0.5, "majority": 0.5}
