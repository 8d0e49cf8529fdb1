"""Noisy in-context recall (MAD, Poli et al., arXiv 2403.17844): key-value pairs among noise."""

import dataclasses
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt

from tasks import chances
from tasks.base import IGNORE, Task
from tasks.streams import Stream
from tasks.validation import refusal

_QUERY = 0
_LENGTHS = (32, 64, 128, 256, 512, 1024)
_LONGEST = 1 << 16
_MOST = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisyRecall(Task):
    """Recall a value although noise stands between the pairs.

    A row of slots of two tokens. A slot is noise (two uniform noise tokens) with a given chance,
    else a uniform key, drawn with replacement, and its value, which stays the same throughout the
    example; one slot, chosen uniformly, is never noise. The last slot is QUERY and a key, uniform
    among those that occurred. The label at a key that occurred before, and at the last one, is its
    value; the last one is scored. The stage is the sequence length.

    An instance is the table of values; which keys occur, and the noise, are its presentation.

    Example:
        >>> task = NoisyRecall(noise=0.4)
        >>> print(task.describe(task.batch(stage=16, size=1), 0))
        n9 n8 k2 v5 k3 v6 k1 v7 n4 n3 n11 n10 n8 n4 QUERY k3[v6]
        answer: k3 (position 15) -> v6
    """

    name: ClassVar[str] = "noisy_recall"
    definition: ClassVar[str] = (
        "Slots of two tokens: with chance `noise` two uniform noise tokens, else a uniform key "
        "(with replacement) and its value; one uniform slot is never noise; each key's value is "
        "uniform and the same throughout the example. Then QUERY and a key, uniform among those "
        "that occurred. The label at the queried key, and at every key that occurred before, is "
        "its value."
    )
    presentation: ClassVar[tuple[str, ...]] = ("supervision", "noise", "noise_tokens")

    keys: int = 8
    """Different keys (2 to 4096)."""

    values: int = 8
    """Different values (2 to 4096)."""

    noise_tokens: int = 16
    """Different noise tokens (1 to 4096)."""

    noise: float = 0.2
    """Chance that a slot is noise (at least 0, below 1)."""

    supervision: Literal["every", "final"] = "every"
    """Label every key that occurred before, or the queried key only."""

    def _check_knobs(self) -> None:
        for field, least in (("keys", 2), ("values", 2), ("noise_tokens", 1)):
            if not least <= getattr(self, field) <= _MOST:
                raise ValueError(refusal(field, getattr(self, field), f"in {least} .. {_MOST}"))
        if not 0 <= self.noise < 1:
            raise ValueError(refusal("noise", self.noise, "at least 0 and below 1"))

    @property
    def vocab_size(self) -> int:
        """QUERY, keys, values, noise tokens."""
        return 1 + self.keys + self.values + self.noise_tokens

    @property
    def stages(self) -> tuple[int, ...]:
        """Powers of two; MAD's is 128."""
        return _LENGTHS

    @property
    def allowed_stages(self) -> str:
        """Lengths that hold whole slots."""
        return f"an even sequence length in 4 .. {_LONGEST}"

    @property
    def supervised(self) -> str:
        """What the supervision knob says."""
        if self.supervision == "final":
            return "the queried key"
        return "every key that occurred before, and the queried key"

    @property
    def token_names(self) -> tuple[str, ...]:
        """QUERY, k0, k1, ... for keys, v0, ... for values, n0, ... for noise."""
        kinds = (("k", self.keys), ("v", self.values), ("n", self.noise_tokens))
        return ("QUERY", *(f"{kind}{i}" for kind, count in kinds for i in range(count)))

    def _allows(self, stage: int) -> bool:
        return stage % 2 == 0 and 4 <= stage <= _LONGEST

    def _length(self, stage: int) -> int:
        return stage

    def _radices(self, stage: int) -> tuple[int, ...]:
        return (self.values,) * self.keys

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        size, slots = len(codes), stage // 2 - 1
        keys = stream.below(self.keys, slots, size)
        noisy = self._noisy(stream, slots, size)
        before, seen = _seen(keys, noisy, self.keys)
        asked = _one_of(seen, stream)
        # Tokens fit in 16 bits; narrow arrays are transposed several times faster.
        table = codes.T.astype(np.int16) + np.int16(1 + self.keys)
        values = np.take_along_axis(table, keys, 0)
        noise = stream.below(self.noise_tokens, 2 * slots, size).astype(np.int16)
        noise += np.int16(1 + self.keys + self.values)
        pairs = np.empty((slots, 2, size), dtype=np.int16)
        pairs[:, 0] = np.where(noisy, noise[:slots], keys.astype(np.int16) + np.int16(1))
        pairs[:, 1] = np.where(noisy, noise[slots:], values)
        inputs = np.empty((size, stage), dtype=np.int64)
        inputs[:, :-2] = np.ascontiguousarray(pairs.reshape(2 * slots, size).T)
        inputs[:, -2] = _QUERY
        inputs[:, -1] = asked + 1
        targets = np.full_like(inputs, IGNORE)
        if self.supervision == "every":
            targets[:, 0:-2:2] = np.where(before, values, np.int16(IGNORE)).T
        targets[:, -1] = table[asked, np.arange(size)]
        return inputs, targets

    def _noisy(self, stream: Stream, slots: int, size: int) -> Bool[np.ndarray, "t b"]:
        """Which slots are noise."""
        draws = stream.below(1 << 32, slots, size)
        noisy = np.asarray(draws < np.uint64(round(self.noise * 2**32)))
        noisy[stream.below(slots, 1, size)[0], np.arange(size)] = False
        return noisy

    def _floors(self, stage: int) -> dict[str, float]:
        guess, occurring = 1 / self.values, self._occurring(stage)
        number = np.arange(1, self.keys + 1)
        likely = number[occurring[1:] > 1e-12]
        frequent = sum(occurring[d] * chances.most_frequent(int(d), self.values) for d in likely)
        return {
            "uniform": guess,
            "majority": guess,
            # The value of some key that occurred, and the most frequent one among them.
            "context_value": float(guess + (1 - guess) * (occurring[1:] / number).sum()),
            "most_frequent_value": float(frequent),
        }

    def _occurring(self, stage: int) -> Float64[np.ndarray, "keys"]:
        """Distribution of the number of different keys before QUERY."""
        fresh = 1 - np.arange(self.keys + 1) / self.keys
        number = np.zeros(self.keys + 1)
        number[1] = 1  # the slot that is never noise
        for _ in range(stage // 2 - 2):
            more = (1 - self.noise) * fresh * number
            number = number - more
            number[1:] += more[:-1]
        return number

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        floors = np.full(stage, np.nan)
        if self.supervision == "every":
            floors[2:-2:2] = 1 / self.values
        floors[-1] = 1 / self.values
        return floors


def _seen(
    keys: UInt[np.ndarray, "t b"], noisy: Bool[np.ndarray, "t b"], count: int
) -> tuple[Bool[np.ndarray, "t b"], Bool[np.ndarray, "k b"]]:
    """Which slots hold a key that occurred before, and the keys that occur at all."""
    size = keys.shape[1]
    seen = np.zeros(count * size, dtype=bool)
    before = np.empty(keys.shape, dtype=bool)
    shown, rows = ~noisy, np.arange(size)
    for t in range(len(keys)):
        key = keys[t] * np.int64(size) + rows
        found = seen[key]
        before[t] = found & shown[t]
        seen[key] = found | shown[t]
    return before, seen.reshape(count, size)


def _one_of(seen: Bool[np.ndarray, "k b"], stream: Stream) -> Int64[np.ndarray, "b"]:
    """A uniform key among the marked ones of each column."""
    rank = np.cumsum(seen, axis=0)
    draws = stream.below(1 << 32, 1, seen.shape[1])[0].astype(np.uint64)
    chosen = (draws * rank[-1].astype(np.uint64)) >> np.uint64(32)
    return np.asarray(np.argmax(rank > chosen, axis=0))
