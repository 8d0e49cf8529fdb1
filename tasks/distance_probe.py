"""Distance probe: can the last position see one marked bit a known distance back?"""

import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Int64, UInt

from tasks.base import IGNORE, Task
from tasks.streams import Stream
from tasks.validation import refusal

_MARK = 2
_QUERY = 4
_LONGEST = 1 << 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistanceProbe(Task):
    """Read back one marked bit.

    All tokens but the last are bits; the one `distance` tokens before the last is marked, the
    others are independent filler; the last token is QUERY, and its label is the marked bit. A
    window of w tokens (itself included) looks w - 1 back at each hop, so T loops of N windowed
    blocks see the bit exactly when `distance` <= N T (w - 1). The stage is the sequence length.

    Example:
        >>> task = DistanceProbe(distance=3)
        >>> print(task.describe(task.batch(stage=6, size=1), 0))
        1 1 *1 0 0 QUERY[1]
        answer: QUERY (position 5) -> 1
    """

    name: ClassVar[str] = "distance_probe"
    definition: ClassVar[str] = (
        "Independent uniform bits and then QUERY; the bit `distance` tokens before QUERY has a "
        "marked token (*0 or *1), and the label at QUERY is that bit."
    )

    distance: int = 16
    """How many tokens before the query the marked bit lies (at least 1)."""

    def _check_knobs(self) -> None:
        if not 1 <= self.distance < _LONGEST:
            raise ValueError(refusal("distance", self.distance, f"in 1 .. {_LONGEST - 1}"))

    @property
    def vocab_size(self) -> int:
        """Two filler bits, two marked bits, QUERY."""
        return 5

    @property
    def stages(self) -> tuple[int, ...]:
        """Four powers of two, the first the smallest one >= 32 that holds the distance."""
        shortest = max(32, 1 << self.distance.bit_length())
        return tuple(n for n in (shortest << i for i in range(4)) if n <= _LONGEST)

    @property
    def allowed_stages(self) -> str:
        """Lengths that hold the marked bit and the query."""
        return f"a sequence length in {self.distance + 1} .. {_LONGEST}"

    @property
    def supervised(self) -> str:
        """The query."""
        return "the last token"

    @property
    def token_names(self) -> tuple[str, ...]:
        """Bits, marked bits and QUERY."""
        return ("0", "1", "*0", "*1", "QUERY")

    def _allows(self, stage: int) -> bool:
        return self.distance + 1 <= stage <= _LONGEST

    def _length(self, stage: int) -> int:
        return stage

    def _radices(self, stage: int) -> tuple[int, ...]:
        return (2,) * (stage - 1)

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        marked = stage - 1 - self.distance
        inputs = np.full((len(codes), stage), _QUERY, dtype=np.int64)
        inputs[:, :-1] = codes
        inputs[:, marked] += _MARK
        targets = np.full_like(inputs, IGNORE)
        targets[:, -1] = codes[:, marked]
        return inputs, targets

    def _floors(self, stage: int) -> dict[str, float]:
        # The filler is independent of the marked bit, so reading any of it is worth nothing.
        return {"uniform": 0.5, "majority": 0.5, "filler_bit": 0.5}

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        floors = np.full(stage, np.nan)
        floors[-1] = 0.5
        return floors
