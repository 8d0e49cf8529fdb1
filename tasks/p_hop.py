"""p-hop induction (Sanford, Hsu and Telgarsky, arXiv 2402.09268): follow a pointer p times."""

import dataclasses
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Int64, UInt

from tasks.base import IGNORE, Task
from tasks.streams import Stream
from tasks.validation import refusal

_HOPS = (1, 2, 4, 8, 16, 32, 64)
_LONGEST = 4096
_UNDEFINED = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class PHop(Task):
    """Where does a letter lead in p hops?

    One hop from a letter goes to the place after the last earlier occurrence of the same letter.
    The first token says how many hops p to take; then comes a uniform string without equal
    neighbours, and the label at each of its letters is the letter that p hops from there arrive at,
    or "~" if one of them has nowhere to go. A layer more doubles the hops that a transformer can
    take, a loop more does so too (Saunshi et al., arXiv 2502.17416). The stage is p.

    In the example the last d was seen before at position 7, which leads to c at 8; that c was seen
    before at 3, which leads to a at 4.

    Example:
        >>> task = PHop(length=12)
        >>> print(task.describe(task.batch(stage=2, size=4), 3))
        HOPS2 b[~] a[~] c[~] a[~] b[~] a[a] d[~] c[c] a[~] c[d] d[a]
        answer: d (position 11) -> a
    """

    name: ClassVar[str] = "p_hop"
    definition: ClassVar[str] = (
        "A token naming the number of hops p, then uniform letters, no two neighbours equal. One "
        "hop from a position goes to the position after the last earlier occurrence of its letter; "
        "the label at each letter is the letter p hops from it, or ~ where a hop has no earlier "
        "occurrence."
    )

    length: int = 100
    """Sequence length, the token that names p included."""

    letters: int = 4
    """Size of the alphabet (3 to 26)."""

    max_hops: int = 32
    """Tokens that name a number of hops, and so the largest stage (1 to 1024)."""

    def _check_knobs(self) -> None:
        if not 4 <= self.length <= _LONGEST:
            raise ValueError(refusal("length", self.length, f"in 4 .. {_LONGEST}"))
        if not 3 <= self.letters <= 26:
            raise ValueError(refusal("letters", self.letters, "in 3 .. 26"))
        if not 1 <= self.max_hops <= 1024:
            raise ValueError(refusal("max_hops", self.max_hops, "in 1 .. 1024"))

    @property
    def vocab_size(self) -> int:
        """The answer "~", the letters, the numbers of hops."""
        return 1 + self.letters + self.max_hops

    @property
    def stages(self) -> tuple[int, ...]:
        """Powers of two whose last label is a letter nine times in ten (1 where there is none)."""
        listed = [p for p in _HOPS if p <= self.max_hops and self._lost(p)[-1] <= 0.1]
        return tuple(listed) or (1,)

    @property
    def allowed_stages(self) -> str:
        """Numbers of hops that have a token."""
        return f"a number of hops in 1 .. {self.max_hops}"

    @property
    def supervised(self) -> str:
        """The string."""
        return "every letter"

    @property
    def token_names(self) -> tuple[str, ...]:
        """A tilde for undefined, a, b, c, ... for letters, HOPS1, ... for the numbers of hops."""
        alphabet = (chr(ord("a") + i) for i in range(self.letters))
        return ("~", *alphabet, *(f"HOPS{p}" for p in range(1, self.max_hops + 1)))

    def _allows(self, stage: int) -> bool:
        return stage <= self.max_hops

    def _length(self, stage: int) -> int:
        return self.length

    def _radices(self, stage: int) -> tuple[int, ...]:
        return (self.letters, *(self.letters - 1,) * (self.length - 2))

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        string = _string(np.ascontiguousarray(codes.T), self.letters)
        places = _power(_hop(string, self.letters), stage)
        inputs = np.empty((len(codes), self.length), dtype=np.int64)
        inputs[:, 0] = self.letters + stage
        inputs[:, 1:] = string.T
        inputs[:, 1:] += 1
        # The first letter is nobody's aim, so its place stands for "undefined".
        letter = string + np.uint8(1)
        letter[0] = _UNDEFINED
        targets = np.full_like(inputs, IGNORE)
        targets[:, 1:] = np.take(letter, places).T
        return inputs, targets

    def _step(self) -> Float64[np.ndarray, "s"]:
        """How far back a hop goes: geometric, since the string read backwards is a Markov chain."""
        others = self.letters - 1
        back = np.arange(self.length - 1)
        chance = (1 - 1 / others) ** (back - 1.0) / others
        chance[0] = 0
        return np.asarray(chance)

    def _travelled(self, hops: int) -> Float64[np.ndarray, "s"]:
        """Distribution of the way back of so many hops, cut at the length; hops are independent."""
        way = np.zeros(self.length - 1)
        way[0] = 1
        for _ in range(hops):
            way = np.convolve(way, self._step())[: way.size]
        return way

    def _lost(self, hops: int) -> Float64[np.ndarray, "letters"]:
        """Chance that the label of each letter is undefined."""
        arrived = np.cumsum(self._travelled(hops))
        # The letter at index i has i places before it, of which the first is nobody's aim.
        return np.concatenate([[1.0], 1 - arrived[:-1]]).clip(0, 1)

    def _agreement(self, hops: int, more: int) -> float:
        """Chance that what the last letter leads to in `hops` hops is right `more` hops later."""
        # Letters hopped to form a chain: the next one differs from the present one, and is the one
        # before it with a chance that depends on the step alone. So three cases of a reference
        # letter suffice: it is the present letter, the one before, or neither.
        step, others = self._step(), self.letters - 1
        mixing = (-1 / (others - 1)) ** np.abs(np.arange(step.size) - 1.0)
        back = step * (1 / others + (1 - 1 / others) * mixing)
        elsewhere = step * (1 / others - mixing / others)
        here = self._travelled(hops)
        lost = self._lost(hops)[-1] if hops else 0.0
        before = neither = np.zeros_like(here)
        for _ in range(more):
            arrivals = [
                np.convolve(a, b)[: step.size]
                for a, b in (
                    (before, back),
                    (neither, elsewhere),
                    (here, step),
                    (before, step - back),
                    (neither, step - elsewhere),
                )
            ]
            here, before = arrivals[0] + arrivals[1], arrivals[2]
            neither = arrivals[3] + arrivals[4]
        return float(here[:-1].sum() + lost)

    def _floors(self, stage: int) -> dict[str, float]:
        lost, stays = float(self._lost(stage)[-1]), self._agreement(0, stage)
        floors = {
            "uniform": 1 / (1 + self.letters),
            "majority": max(lost, (1 - lost) / self.letters),
            # The letter that is asked about, as if hops led nowhere.
            "no_hop": stays,
            "another_letter": max(0.0, 1 - lost - stays) / (self.letters - 1),
        }
        if stage > 1:
            floors["one_hop"] = self._agreement(1, stage - 1)
        if stage > 3:
            floors["two_hops_short"] = self._agreement(stage - 2, 2)
        return floors

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        lost = self._lost(stage)
        return np.concatenate([[np.nan], np.maximum(lost, (1 - lost) / self.letters)])


def _string(codes: UInt[np.ndarray, "t b"], letters: int) -> UInt[np.ndarray, "t b"]:
    """Letters from a first letter and the steps (less one) from each letter to the next."""
    string = codes.astype(np.uint8)
    for t in range(1, len(string)):
        string[t] += string[t - 1] + np.uint8(1)
        string[t] %= np.uint8(letters)
    return string


def _hop(string: UInt[np.ndarray, "t b"], letters: int) -> Int64[np.ndarray, "t b"]:
    """One hop from every letter, as flat indices into `string`; undefined goes to the first row."""
    length, size = string.shape
    rows = np.arange(size)
    aims = np.empty((length, size), dtype=np.int64)
    # For every letter of the alphabet, the place after its last occurrence.
    after = np.tile(rows, letters)
    for t in range(length):
        letter = string[t] * np.int64(size) + rows
        aims[t] = after[letter]
        after[letter] = rows + (t + 1) * size
    return aims


def _power(aims: Int64[np.ndarray, "t b"], hops: int) -> Int64[np.ndarray, "t b"]:
    """So many hops at once, by squaring."""
    result = None
    while True:
        if hops % 2:
            result = aims if result is None else np.take(aims, result)
        hops //= 2
        if not hops:
            assert result is not None
            return result
        aims = np.take(aims, aims)
