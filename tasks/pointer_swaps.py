"""Pointer swaps: plain state tracking, the half of state-based recall without the recall."""

import dataclasses
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64, Int64, UInt

from tasks import swaps
from tasks.base import IGNORE, Task
from tasks.streams import Stream
from tasks.validation import refusal

_QUERY = 0
_LENGTHS = (16, 32, 64, 128, 256)
_LONGEST = 1 << 14


@dataclasses.dataclass(frozen=True, kw_only=True)
class PointerSwaps(Task):
    """Where does a pointer end after a row of swaps?

    Pointers a, b, c, ... start at the places 0, 1, 2, ...; each swap names two different pointers,
    which exchange what they hold; then one pointer is asked, and the label is its place. Layout: n
    swaps of two tokens each, QUERY, pointer. The stage is the sequence length 2n + 2.

    Example:
        >>> task = PointerSwaps()
        >>> print(task.describe(task.batch(stage=8, size=1), 0))
        e a e d a d QUERY d[4]
        answer: d (position 7) -> 4
    """

    name: ClassVar[str] = "pointer_swaps"
    definition: ClassVar[str] = (
        "Pointer i starts at place i; n swaps, each naming an ordered pair of different pointers "
        "(uniform), exchange what the two hold; after QUERY one uniform pointer is asked, and the "
        "label at it is the place that it holds. Dense supervision also labels, at each swap's "
        "second pointer, the place that its first pointer now holds."
    )
    presentation: ClassVar[tuple[str, ...]] = ("supervision",)

    pointers: int = 5
    """Number of pointers and of places (2 to 26)."""

    supervision: Literal["final", "dense"] = "final"
    """Label the queried pointer only, or also the first pointer of every swap."""

    def _check_knobs(self) -> None:
        if not 2 <= self.pointers <= 26:
            raise ValueError(refusal("pointers", self.pointers, "in 2 .. 26"))

    @property
    def vocab_size(self) -> int:
        """QUERY, the pointers and the places."""
        return 1 + 2 * self.pointers

    @property
    def stages(self) -> tuple[int, ...]:
        """Powers of two: 7 to 127 swaps."""
        return _LENGTHS

    @property
    def allowed_stages(self) -> str:
        """Lengths that a whole number of swaps fills."""
        return f"an even sequence length in 4 .. {_LONGEST}"

    @property
    def supervised(self) -> str:
        """What the supervision knob says."""
        if self.supervision == "final":
            return "the queried pointer"
        return "each swap's second pointer and the queried pointer"

    @property
    def token_names(self) -> tuple[str, ...]:
        """QUERY, letters for the pointers, numbers for the places."""
        letters = [chr(ord("a") + i) for i in range(self.pointers)]
        return ("QUERY", *letters, *(str(i) for i in range(self.pointers)))

    def num_swaps(self, stage: int) -> int:
        """Swaps before the query.

        Args:
            stage: The sequence length.

        Returns:
            n = (stage - 2) / 2.
        """
        self.check_stage(stage)
        return (stage - 2) // 2

    def _allows(self, stage: int) -> bool:
        return stage % 2 == 0 and 4 <= stage <= _LONGEST

    def _length(self, stage: int) -> int:
        return stage

    def _radices(self, stage: int) -> tuple[int, ...]:
        pairs = self.pointers * (self.pointers - 1)
        return (pairs,) * self.num_swaps(stage) + (self.pointers,)

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        k = self.pointers
        first, second = swaps.named_pair(np.ascontiguousarray(codes[:, :-1].T), k)
        asked = codes[:, -1].astype(np.int64)
        held, places = swaps.follow(first, second, k)
        inputs = np.empty((len(codes), stage), dtype=np.int64)
        inputs[:, 0:-2:2] = first.T + 1
        inputs[:, 1:-2:2] = second.T + 1
        inputs[:, -2] = _QUERY
        inputs[:, -1] = asked + 1
        targets = np.full_like(inputs, IGNORE)
        if self.supervision == "dense":
            targets[:, 1:-2:2] = held.T + (1 + k)
        targets[:, -1] = places[asked, np.arange(len(codes))] + (1 + k)
        return inputs, targets

    def _floors(self, stage: int) -> dict[str, float]:
        k, n = self.pointers, self.num_swaps(stage)
        home, unnamed = swaps.home_chance(n, k), swaps.unnamed_chance(n, k)
        elsewhere = (1 - home) / (k - 1)
        return {
            "uniform": 1 / k,
            "majority": 1 / k,
            # The initial place, as if nothing had been swapped.
            "no_tracking": home,
            # The initial place if the pointer was never named, else the best other guess.
            "never_named": unnamed + max(home - unnamed, elsewhere),
        }

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        floors = np.full(stage, np.nan)
        if self.supervision == "dense":
            floors[1:-2:2] = 1 / self.pointers
        floors[-1] = 1 / self.pointers
        return floors
