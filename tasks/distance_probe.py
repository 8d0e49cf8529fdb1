"""Distance probe: can the last position see one marked bit a known distance back?"""

import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Int64, UInt

from tasks.base import IGNORE, Task
from tasks.streams import Stream
from tasks.validation import refusal

_LONGEST = 1 << 16
_MOST_SYMBOLS = 1 << 15


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistanceProbe(Task):
    """Read back one marked bit.

    All tokens but the last are symbols; the one `distance` tokens before the last is a marked bit,
    the others are independent filler; the last token is QUERY, and its label is the marked bit. A
    window of w tokens (itself included) looks w - 1 back at each hop, so T loops of N windowed
    blocks see the bit exactly when the distance is at most N T (w - 1). The stage is the sequence
    length; with `distance=None` the first token is the marked one, so that stages sweep the
    distance, stage - 1, and the longest stage that such a model can solve is N T (w - 1) + 1.

    Example:
        >>> task = DistanceProbe(distance=3)
        >>> print(task.describe(task.batch(stage=6, size=1), 0))
        1 1 *1 1 1 QUERY[1]
        answer: QUERY (position 5) -> 1
    """

    name: ClassVar[str] = "distance_probe"
    definition: ClassVar[str] = (
        "Independent uniform symbols and then QUERY; the symbol `distance` tokens before QUERY is "
        "a marked bit (*0 or *1), and the label at QUERY is that bit. Without a distance the first "
        "token is the marked one."
    )

    distance: int | None = 16
    """How many tokens before the query the marked bit lies (at least 1); none: stage - 1."""
    symbols: int = 2
    """Different filler symbols (at least 2); more of them make short stages large enough."""

    def _check_knobs(self) -> None:
        if self.distance is not None and not 1 <= self.distance < _LONGEST:
            raise ValueError(refusal("distance", self.distance, f"in 1 .. {_LONGEST - 1}"))
        if not 2 <= self.symbols <= _MOST_SYMBOLS:
            raise ValueError(refusal("symbols", self.symbols, f"in 2 .. {_MOST_SYMBOLS}"))

    @property
    def vocab_size(self) -> int:
        """Filler symbols, two marked bits, QUERY."""
        return self.symbols + 3

    @property
    def stages(self) -> tuple[int, ...]:
        """Four powers of two, the first the smallest one >= 32 that holds the distance."""
        shortest = max(32, 1 << (self.distance or 1).bit_length())
        return tuple(n for n in (shortest << i for i in range(4)) if n <= _LONGEST)

    @property
    def allowed_stages(self) -> str:
        """Lengths that hold the marked bit and the query."""
        return f"a sequence length in {(self.distance or 1) + 1} .. {_LONGEST}"

    @property
    def supervised(self) -> str:
        """The query."""
        return "the last token"

    @property
    def token_names(self) -> tuple[str, ...]:
        """Symbols, marked bits and QUERY."""
        return (*(str(symbol) for symbol in range(self.symbols)), "*0", "*1", "QUERY")

    def _allows(self, stage: int) -> bool:
        return (self.distance or 1) + 1 <= stage <= _LONGEST

    def _length(self, stage: int) -> int:
        return stage

    def _marked(self, stage: int) -> int:
        return 0 if self.distance is None else stage - 1 - self.distance

    def _radices(self, stage: int) -> tuple[int, ...]:
        marked = self._marked(stage)
        return (self.symbols,) * marked + (2,) + (self.symbols,) * (stage - 2 - marked)

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        marked = self._marked(stage)
        inputs = np.full((len(codes), stage), self.symbols + 2, dtype=np.int64)
        inputs[:, :-1] = codes
        inputs[:, marked] += self.symbols
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
