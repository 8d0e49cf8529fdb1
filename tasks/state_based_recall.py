"""State-based recall: follow five pointers through swaps, then read the bit that one points to."""

import dataclasses
from math import comb
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float64, Int64, UInt

from tasks import digits, swaps
from tasks.base import IGNORE, Batch, Task
from tasks.streams import Stream
from tasks.validation import refusal

POINTERS = 5
LEAST_BITS = 8
_INIT, _OPS, _QUERY, _BIT, _POINTER, _ADDRESS = 0, 1, 2, 3, 5, 10
_PAIRS = POINTERS * (POINTERS - 1)
_RUNGS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StateBasedRecall(Task):
    """State tracking and recall composed (Olmo Hybrid, arXiv 2604.03444; LT2, arXiv 2605.20670).

    A memory of m bits, five pointers with distinct addresses, n swaps of two pointers' addresses,
    one question: the bit that a pointer points to in the end. The stage is n, and m = max(8, n).
    Neither recall alone nor tracking alone passes 0.90 (see the floors). Whatever the supervision,
    only the last query is scored, and the instance behind it is the same.

    In the example e takes a's address @1 (bit 0), then d takes @2 from a (bit 1); nobody named c,
    which still points to @3 (bit 0).

    Example:
        >>> task = StateBasedRecall(supervision="dense")
        >>> print(task.describe(task.batch(stage=2, size=1), 0))
        bits: 0 0 1 0 1 0 0 0
        pointers: a @1 b @5 c @3 d @4 e @2
        swaps: e a[0] d a[1]
        query: c[0]
        answer: c (position 25) -> 0
    """

    name: ClassVar[str] = "state_based_recall"
    definition: ClassVar[str] = (
        "Plain layout: m uniform bits, INIT, five (pointer, address), OPS, n (pointer, pointer), "
        "QUERY, pointer. The addresses are distinct and uniform; a swap names an ordered pair of "
        "different pointers (uniform) and exchanges their addresses. The label at the queried "
        "pointer is the bit at its address. Indexed layout: every bit is preceded by its address "
        "token. all_pointers: after QUERY the five pointers in random order, each labelled, the "
        "instance's own query last. dense: also, at each swap's second pointer, the bit that its "
        "first pointer now holds."
    )
    presentation: ClassVar[tuple[str, ...]] = ("supervision", "layout")

    supervision: Literal["final", "all_pointers", "dense"] = "final"
    """Label the last query only, all five pointers after QUERY, or every swap and the query."""

    layout: Literal["plain", "indexed"] = "plain"
    """Bits alone, or each bit preceded by its address token."""

    max_bits: int = 256
    """Size of the address vocabulary, and so the largest stage (8 to 4096)."""

    def _check_knobs(self) -> None:
        if not LEAST_BITS <= self.max_bits <= 4096:
            raise ValueError(refusal("max_bits", self.max_bits, f"in {LEAST_BITS} .. 4096"))

    @property
    def vocab_size(self) -> int:
        """Three markers, two bits, five pointers, the addresses."""
        return _ADDRESS + self.max_bits

    @property
    def stages(self) -> tuple[int, ...]:
        """Warm-up rungs 1, 2, 4 and the curriculum 8 to 256."""
        return tuple(swap_count for swap_count in _RUNGS if swap_count <= self.max_bits)

    @property
    def allowed_stages(self) -> str:
        """Numbers of swaps that the address tokens suffice for."""
        return f"a number of swaps in 1 .. {self.max_bits}"

    @property
    def supervised(self) -> str:
        """What the supervision knob says."""
        return {
            "final": "the queried pointer",
            "all_pointers": "the five pointers after QUERY",
            "dense": "each swap's second pointer and the queried pointer",
        }[self.supervision]

    @property
    def token_names(self) -> tuple[str, ...]:
        """Markers, bits, letters for the pointers, @0, @1, ... for the addresses."""
        addresses = (f"@{i}" for i in range(self.max_bits))
        return ("INIT", "OPS", "QUERY", "0", "1", "a", "b", "c", "d", "e", *addresses)

    def num_bits(self, stage: int) -> int:
        """Bits in memory.

        Args:
            stage: The number of swaps n.

        Returns:
            m = max(8, n).
        """
        return max(LEAST_BITS, stage)

    def describe(self, batch: Batch, row: int) -> str:
        """One example in readable form, with its answers.

        Args:
            batch: A batch of this task.
            row: Which example.

        Returns:
            One line a part: bits, pointers, swaps, query; a label stands in brackets.
        """
        text, answer = super().describe(batch, row).split("\n")
        memory, rest = text.split(" INIT ")
        start, rest = rest.split(" OPS ")
        steps, query = rest.split(" QUERY ")
        parts = {"bits": memory, "pointers": start, "swaps": steps, "query": query}
        return "\n".join([*(f"{part}: {words}" for part, words in parts.items()), answer])

    def _allows(self, stage: int) -> bool:
        return stage <= self.max_bits

    def _length(self, stage: int) -> int:
        memory = self.num_bits(stage) * (2 if self.layout == "indexed" else 1)
        asked = POINTERS if self.supervision == "all_pointers" else 1
        return memory + 2 * POINTERS + 2 * stage + 3 + asked

    def _radices(self, stage: int) -> tuple[int, ...]:
        bits = self.num_bits(stage)
        addresses = (bits - j for j in range(POINTERS))
        return ((2,) * bits) + (*addresses, *(_PAIRS,) * stage, POINTERS)

    def _from_digits(
        self, digit_rows: UInt[np.ndarray, "count width"], stage: int
    ) -> UInt[np.ndarray, "count width"]:
        bits = self.num_bits(stage)
        codes = digit_rows.copy()
        home = slice(bits, bits + POINTERS)
        codes[:, home] = digits.falling(digit_rows[:, home], bits)
        return codes

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        bits = self.num_bits(stage)
        memory, addresses = codes[:, :bits], codes[:, bits : bits + POINTERS].astype(np.int64)
        pairs = np.ascontiguousarray(codes[:, bits + POINTERS : -1].T)
        first, second = swaps.named_pair(pairs, POINTERS)
        held, places = swaps.follow(first, second, POINTERS)
        # The bit that each of the five starting addresses holds.
        pointed = np.take_along_axis(memory, addresses, 1)
        asked = self._asked(codes[:, -1], stream)
        inputs = np.empty((len(codes), self._length(stage)), dtype=np.int64)
        at = self._write_memory(inputs, memory)
        inputs[:, at] = _INIT
        inputs[:, at + 1 : at + 11 : 2] = np.arange(POINTERS) + _POINTER
        inputs[:, at + 2 : at + 11 : 2] = addresses + _ADDRESS
        inputs[:, at + 11] = _OPS
        at += 12
        inputs[:, at : at + 2 * stage : 2] = first.T + _POINTER
        inputs[:, at + 1 : at + 2 * stage : 2] = second.T + _POINTER
        inputs[:, at + 2 * stage] = _QUERY
        inputs[:, at + 2 * stage + 1 :] = asked + _POINTER
        targets = np.full_like(inputs, IGNORE)
        if self.supervision == "dense":
            labels = np.take_along_axis(pointed, np.ascontiguousarray(held.T), 1)
            targets[:, at + 1 : at + 2 * stage : 2] = labels.astype(np.int64) + _BIT
        answers = np.take_along_axis(pointed, np.take_along_axis(places.T, asked, 1), 1)
        targets[:, at + 2 * stage + 1 :] = answers.astype(np.int64) + _BIT
        return inputs, targets

    def _asked(self, query: UInt[np.ndarray, "size"], stream: Stream) -> Int64[np.ndarray, "b q"]:
        """The pointers after QUERY, the instance's own last."""
        own = query.astype(np.int64)[:, None]
        if self.supervision != "all_pointers":
            return own
        others = stream.permutations(len(query), POINTERS - 1).astype(np.int64)
        return np.concatenate([(own + 1 + others) % POINTERS, own], axis=1)

    def _write_memory(
        self, inputs: Int64[np.ndarray, "size length"], memory: UInt[np.ndarray, "size bits"]
    ) -> int:
        """Writes the bits, and returns where they end."""
        bits = int(memory.shape[1])
        if self.layout == "plain":
            inputs[:, :bits] = memory
            inputs[:, :bits] += _BIT
            return bits
        inputs[:, 0 : 2 * bits : 2] = np.arange(bits) + _ADDRESS
        inputs[:, 1 : 2 * bits : 2] = memory
        inputs[:, 1 : 2 * bits : 2] += _BIT
        return 2 * bits

    def _floors(self, stage: int) -> dict[str, float]:
        home = swaps.home_chance(stage, POINTERS)
        other = (1 - home) / (POINTERS - 1)
        # The vote of the five pointed bits, weighted by where the pointer is likely to be; by
        # symmetry the initially pointed bit may be called 1, and `ones` of the other four are too.
        ignoring = sum(
            comb(4, ones) / 16 * max(home + ones * other, (4 - ones) * other) for ones in range(5)
        )
        unnamed, bits = swaps.unnamed_chance(stage, POINTERS), self.num_bits(stage)
        even, half = bits % 2 == 0, bits // 2
        surplus = comb(bits, half) / 2 ** (bits + 1) if even else comb(bits - 1, half) / 2**bits
        return {
            "uniform": 0.5,
            "majority": 0.5,
            "initial_bit": 0.5 + 0.5 * home,
            "ignores_swaps": ignoring,
            "never_named": unnamed + (1 - unnamed) * 11 / 16,
            "memory_majority": 0.5 + surplus,
        }

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        floors = np.full(self._length(stage), np.nan)
        asked = POINTERS if self.supervision == "all_pointers" else 1
        floors[-asked:] = 0.5
        if self.supervision == "dense":
            floors[-2 - 2 * stage : -2][1::2] = 0.5
        return floors
