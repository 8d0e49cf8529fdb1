"""The word problem of a finite group: the product of all elements so far."""

import dataclasses
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float64, Int64, Integer, UInt

from tasks.groups import Group, canonical_name, commutative_classes, group, group_order
from tasks.streams import smallest_unsigned
from tasks.validation import refusal
from tasks.words import WordTask


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupWord(WordTask):
    """Running product of group elements, labelled at every token.

    The state starts as the identity (token 0), and each token is applied *after* the state: as
    permutations, label_t(x) = token_t(label_{t-1}(x)), products read from left to right. Word
    problems of groups that are not solvable (S5, A5) are complete for NC1; Z60, A4xZ5 and A5 share
    a vocabulary and differ in nothing else. The stage is the length.

    Example:
        >>> task = GroupWord(group="S3")
        >>> print(task.describe(task.batch(stage=4, size=1), 0))
        (1 2)[(1 2)] ()[(1 2)] (1 3 2)[(2 3)] (1 3 2)[(1 3)]
        answer: (1 3 2) (position 3) -> (1 3)
    """

    name: ClassVar[str] = "group_word"
    definition: ClassVar[str] = (
        "Each token is a group element (an id in the order of the vocabulary, 0 the identity); the "
        "label is the product of all elements up to it, the earlier applied first. With "
        "transpositions as tokens only the elements of S_n that swap two points occur as inputs, "
        "with generators only the identity and a few elements that generate the group."
    )

    group: str = "S5"
    """S_n, A_n, Z_n (or C_n), D_n, or a direct product such as A4xZ5."""

    tokens: Literal["all", "transpositions", "generators"] = "all"
    """Which elements occur as inputs: the whole group, (S_n only) the swaps of two points, or the
    identity and the group's `generators`, such as (), (1 2) and (1 2 3 4 5) of S5: few letters that
    still reach every element."""

    def _check_knobs(self) -> None:
        name = canonical_name(self.group)
        if self.tokens == "transpositions" and not re.fullmatch("S[3-9]", name):
            raise ValueError(
                refusal("tokens", self.tokens, f"'all' for {self.group}: it is no S_n, n >= 3")
            )

    @property
    def instance_knobs(self) -> dict[str, Any]:
        """The knobs, C_n and Z_n being one group."""
        return {"group": canonical_name(self.group), "tokens": self.tokens}

    @property
    def vocab_size(self) -> int:
        """One token an element."""
        return group_order(self.group)

    @property
    def alphabet_size(self) -> int:
        """Elements that occur as inputs."""
        return self.vocab_size if self.tokens == "all" else len(self._letters)

    @property
    def token_names(self) -> tuple[str, ...]:
        """The elements in cycle notation."""
        return self._group.names

    @property
    def _group(self) -> Group:
        return group(self.group)

    @property
    def _letters(self) -> Int64[np.ndarray, "letters"]:
        """The elements that occur as inputs, where they are not all."""
        if self.tokens == "transpositions":
            return self._group.transpositions
        return np.concatenate([[0], self._group.generators])

    def _tokens(self, words: UInt[np.ndarray, "b t"]) -> Int64[np.ndarray, "b t"]:
        return words.astype(np.int64) if self.tokens == "all" else np.take(self._letters, words)

    def _products(self, words: UInt[np.ndarray, "t b"]) -> Integer[np.ndarray, "t b"]:
        steps = self._group.cayley
        if self.tokens != "all":
            steps = steps[:, self._letters]
        letters = steps.shape[1]
        flat = np.ascontiguousarray(steps).reshape(-1)
        length, size = words.shape
        products = np.empty((length, size), dtype=smallest_unsigned(len(steps)))
        state = np.zeros(size, dtype=np.int32)
        place = np.empty(size, dtype=np.int64)
        for t in range(length):
            np.multiply(state, letters, out=place)
            place += words[t]
            # Every place lies inside the table; "clip" lets `take` write without a copy.
            np.take(flat, place, out=state, mode="clip")
            products[t] = state
        return products

    def _floors(self, stage: int) -> dict[str, float]:
        uniform = 1 / self.vocab_size
        if self.tokens == "all":
            commutative = 1 / self._group.derived_order
            return {"uniform": uniform, "majority": uniform, "commutative": commutative}
        chance = deque(self._walk(stage), maxlen=1).pop()  # the last alone: a word may be long
        # A commutative image of G is one of G / [G, G]: the likeliest element of each class.
        best = np.zeros(self.vocab_size)
        np.maximum.at(best, commutative_classes(self._group), chance)
        return {
            "uniform": uniform,
            "majority": float(chance.max()),
            "commutative": float(best.sum()),
        }

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        if self.tokens == "all":
            return np.full(stage, 1 / self.vocab_size)
        return np.array([chance.max() for chance in self._walk(stage)])

    def _walk(self, stage: int) -> Iterator[Float64[np.ndarray, "order"]]:
        """Probability of every product, after each token of a word over the letters."""
        steps = self._group.cayley[:, self._letters]
        chance = np.zeros(self.vocab_size)
        chance[0] = 1.0
        for _ in range(stage):
            reached = np.zeros_like(chance)
            for step in steps.T:
                reached[step] += chance  # a letter permutes the elements: no place occurs twice
            chance = reached / steps.shape[1]
            yield chance
