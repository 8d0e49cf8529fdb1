"""Chains of variable assignments (RULER's variable tracking, arXiv 2404.06654)."""

import dataclasses
from math import comb
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64, Int64, UInt

from tasks import digits
from tasks.base import IGNORE, Task
from tasks.streams import Stream, smallest_unsigned
from tasks.validation import refusal

_QUERY = 0
_HOPS = (1, 2, 4, 8, 16, 32, 64)
_MOST_VARIABLES = 1024
_MOST_VALUES = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiHopVariables(Task):
    """Follow a variable through copies back to a value.

    Several chains of assignments of two tokens, target and source: the first of a chain gives a
    variable a value, each of the h others gives a new variable what the one before it holds. No
    variable is assigned twice, values differ between chains. The chains are shuffled into one
    another, any way alike; `forward` keeps the order within a chain, so that one pass with a table
    suffices, and `shuffled` does not, so that h look-ups in turn are needed. Then come QUERY and
    the last variable of one chain, and the label at it is the chain's value. The stage is h.

    In the example x71 copies x255, which copies x73, which holds v21.

    Example:
        >>> task = MultiHopVariables(chains=2)
        >>> print(task.describe(task.batch(stage=2, size=1), 0))
        x73 v21 x57 v51 x93 x57 x215 x93 x255 x73 x71 x255 QUERY x71[v21]
        answer: x71 (position 13) -> v21
    """

    name: ClassVar[str] = "multi_hop_variables"
    definition: ClassVar[str] = (
        "Assignments of two tokens, target and source, in `chains` chains: variable and value, "
        "then h times a new variable and the variable before it. Variables and values are "
        "distinct and uniform. A uniform shuffle of all assignments; forward keeps the order "
        "within each chain. Then QUERY and the last variable of a uniform chain; the label at it "
        "is the value of its chain."
    )
    presentation: ClassVar[tuple[str, ...]] = ("order",)

    chains: int = 4
    """Chains of assignments (2 to 16)."""

    variables: int = 256
    """Different variables (4 to 1024)."""

    values: int = 64
    """Different values (2 to 4096, at least the number of chains)."""

    order: Literal["forward", "shuffled"] = "forward"
    """Keep the order of the assignments within a chain, or shuffle them all."""

    def _check_knobs(self) -> None:
        if not 2 <= self.chains <= 16:
            raise ValueError(refusal("chains", self.chains, "in 2 .. 16"))
        least = 2 * self.chains
        if not least <= self.variables <= _MOST_VARIABLES:
            allowed = f"in {least} .. {_MOST_VARIABLES}, two a chain or more"
            raise ValueError(refusal("variables", self.variables, allowed))
        if not self.chains <= self.values <= _MOST_VALUES:
            allowed = f"in {self.chains} .. {_MOST_VALUES}, one a chain or more"
            raise ValueError(refusal("values", self.values, allowed))

    @property
    def vocab_size(self) -> int:
        """QUERY, variables, values."""
        return 1 + self.variables + self.values

    @property
    def stages(self) -> tuple[int, ...]:
        """Powers of two that the variables suffice for."""
        return tuple(hops for hops in _HOPS if self._allows(hops))

    @property
    def allowed_stages(self) -> str:
        """Numbers of hops that the variables suffice for."""
        return f"a number of hops in 1 .. {self.variables // self.chains - 1}"

    @property
    def supervised(self) -> str:
        """The query."""
        return "the queried variable"

    @property
    def token_names(self) -> tuple[str, ...]:
        """QUERY, x0, x1, ... for variables, v0, v1, ... for values."""
        variables = (f"x{i}" for i in range(self.variables))
        return ("QUERY", *variables, *(f"v{i}" for i in range(self.values)))

    def _allows(self, stage: int) -> bool:
        return self._assignments(stage) <= self.variables

    def _assignments(self, stage: int) -> int:
        return self.chains * (stage + 1)

    def _length(self, stage: int) -> int:
        return 2 * self._assignments(stage) + 2

    def _radices(self, stage: int) -> tuple[int, ...]:
        fresh = (self.variables - j for j in range(self._assignments(stage)))
        return (*fresh, *(self.values - j for j in range(self.chains)), self.chains)

    def _from_digits(
        self, digit_rows: UInt[np.ndarray, "count width"], stage: int
    ) -> UInt[np.ndarray, "count width"]:
        fresh = self._assignments(stage)
        codes = digit_rows.copy()
        codes[:, :fresh] = digits.falling(digit_rows[:, :fresh], self.variables)
        codes[:, fresh:-1] = digits.falling(digit_rows[:, fresh:-1], self.values)
        return codes

    def _draw(self, stream: Stream, stage: int, count: int) -> UInt[np.ndarray, "count width"]:
        fresh = self._assignments(stage)
        kind = smallest_unsigned(max(self._radices(stage)))
        codes = np.empty((count, fresh + self.chains + 1), dtype=kind)
        codes[:, :fresh] = stream.distinct(self.variables, count, fresh)
        codes[:, fresh:-1] = stream.distinct(self.values, count, self.chains)
        codes[:, -1:] = stream.below(self.chains, count, 1)
        return codes

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        size, fresh = len(codes), self._assignments(stage)
        chained = codes[:, :fresh].astype(np.int64).reshape(size, self.chains, stage + 1) + 1
        values = codes[:, fresh:-1].astype(np.int64) + (1 + self.variables)
        sources = np.concatenate([values[:, :, None], chained[:, :, :-1]], axis=2)
        places = 2 * self._places(stream, size, stage)
        inputs = np.empty((size, self._length(stage)), dtype=np.int64)
        np.put_along_axis(inputs, places, chained.reshape(size, fresh), 1)
        np.put_along_axis(inputs, places + 1, sources.reshape(size, fresh), 1)
        rows, asked = np.arange(size), codes[:, -1]
        inputs[:, -2] = _QUERY
        inputs[:, -1] = chained[rows, asked, -1]
        targets = np.full_like(inputs, IGNORE)
        targets[:, -1] = values[rows, asked]
        return inputs, targets

    def _places(self, stream: Stream, size: int, stage: int) -> Int64[np.ndarray, "size fresh"]:
        """The place of every assignment; chains are numbered by where they begin."""
        fresh = self._assignments(stage)
        places = stream.permutations(size, fresh).reshape(size, self.chains, stage + 1)
        if self.order == "forward":
            places.sort(axis=2)
        # Numbering the chains by what is seen makes instances differ whenever their rows do not.
        first = np.argsort(places[:, :, 0], axis=1)
        ordered = np.take_along_axis(places, first[:, :, None], 1)
        return ordered.reshape(size, fresh).astype(np.int64)

    def _floors(self, stage: int) -> dict[str, float]:
        floors = {
            "uniform": 1 / self.values,
            "majority": 1 / self.values,
            "any_chain": 1 / self.chains,
        }
        if self.order == "forward":
            floors["place_of_last"] = self._by_place(stage)
        return floors

    def _by_place(self, stage: int) -> float:
        """Guessing how many chains begin before the right one, from where its last variable is."""
        others, length = self.chains - 1, stage + 1
        rest = others * length
        # Chance that the first so many assignments of other chains come from exactly r of them.
        hit = np.array(
            [
                [
                    _covering(r, length, a) * comb(others, r) / comb(rest, a)
                    for r in range(others + 1)
                ]
                for a in range(rest + 1)
            ]
        )
        total = rest + length
        # Chance that the chain begins at place a and ends at place s.
        ends = np.zeros((total, rest + 1))
        ways = comb(total, length)
        between = [comb(gap, stage - 1) / ways for gap in range(total)]
        for a in range(rest + 1):
            ends[a + 1 :, a] = between[: total - a - 1]
        return float((ends @ hit).max(axis=1).sum())

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        floors = np.full(self._length(stage), np.nan)
        floors[-1] = 1 / self.values
        return floors


def _covering(groups: int, length: int, items: int) -> int:
    """Choices of so many items out of groups of a length that leave no group out."""
    return sum(
        (-1) ** k * comb(groups, k) * comb((groups - k) * length, items) for k in range(groups + 1)
    )
