"""The word problem of a finite group: the product of all elements so far."""

import dataclasses
import re
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float64, Int64, Integer, UInt

from tasks.groups import Group, canonical_name, group, group_order
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
        "transpositions as tokens only the elements of S_n that swap two points occur as inputs."
    )

    group: str = "S5"
    """S_n, A_n, Z_n (or C_n), D_n, or a direct product such as A4xZ5."""

    tokens: Literal["all", "transpositions"] = "all"
    """Which elements occur as inputs: the whole group, or (S_n only) the swaps of two points."""

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
        if self.tokens == "all":
            return self.vocab_size
        degree = int(self.group[1:])
        return degree * (degree - 1) // 2

    @property
    def token_names(self) -> tuple[str, ...]:
        """The elements in cycle notation."""
        return self._group.names

    @property
    def _group(self) -> Group:
        return group(self.group)

    def _tokens(self, words: UInt[np.ndarray, "b t"]) -> Int64[np.ndarray, "b t"]:
        if self.tokens == "all":
            return words.astype(np.int64)
        return np.take(self._group.transpositions, words)

    def _products(self, words: UInt[np.ndarray, "t b"]) -> Integer[np.ndarray, "t b"]:
        steps = self._group.cayley
        if self.tokens == "transpositions":
            steps = steps[:, self._group.transpositions]
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
        majority = float(self._position_floors(stage)[-1])
        # Whatever is commutative is a function of G / [G, G]; with transpositions that is the sign,
        # which the position alone gives away.
        known = self.tokens == "transpositions"
        commutative = majority if known else 1 / self._group.derived_order
        return {"uniform": 1 / self.vocab_size, "majority": majority, "commutative": commutative}

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        if self.tokens == "all":
            return np.full(stage, 1 / self.vocab_size)
        back = self._group.cayley[:, self._group.transpositions]  # a swap is its own inverse
        chance = np.zeros(self.vocab_size)
        chance[0] = 1.0
        floors = np.empty(stage)
        for t in range(stage):
            chance = chance[back].mean(axis=1)
            floors[t] = chance.max()
        return floors
