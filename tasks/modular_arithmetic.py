"""Modular arithmetic with and without brackets (Deletang et al., arXiv 2207.02098)."""

import dataclasses
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt

from tasks import digits, expressions, paths
from tasks.base import IGNORE, Task
from tasks.streams import Stream
from tasks.validation import refusal

_LENGTHS = (8, 16, 32, 64, 128, 256)
_LONGEST = 4096
_MOST_OPERATIONS = 256
# A stage is worth listing when its eval split has room for thousands of distinct instances.
_LEAST_INSTANCES = 50_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModularArithmetic(Task):
    """The value of an expression modulo n, asked at "=".

    Without brackets: operands and operators in turn, * binding tighter than + and -; a finite
    automaton suffices. With brackets: a binary tree, uniform among the shapes of its size, every
    operation in brackets; that takes a stack. Operands and operators are uniform. The stage is the
    sequence length: 2m for m operands, with brackets 4m + 2 for m operations.

    Example:
        >>> task = ModularArithmetic(brackets=True)
        >>> print(task.describe(task.batch(stage=18, size=1), 0))
        ( 0 + ( 4 * ( ( 2 - 3 ) * 1 ) ) ) =[1]
        answer: = (position 17) -> 1
    """

    name: ClassVar[str] = "modular_arithmetic"
    definition: ClassVar[str] = (
        "Uniform operands 0 .. n-1 and uniform operators, then =, where the label is the value "
        "modulo n. Without brackets operands and operators stand in turn and * binds tighter than "
        "+ and -. With brackets the expression is a full binary tree, uniform among the shapes "
        "with its number of operations, and every operation stands in brackets."
    )

    modulus: int = 5
    """n: everything is modulo this number (2 to 32)."""

    brackets: bool = False
    """Trees in brackets, or rows of operands."""

    operators: Literal["+-*", "+-"] = "+-*"
    """Which operators there are, each as likely."""

    def _check_knobs(self) -> None:
        if not 2 <= self.modulus <= 32:
            raise ValueError(refusal("modulus", self.modulus, "in 2 .. 32"))

    @property
    def vocab_size(self) -> int:
        """Numbers, three operators, =, two brackets."""
        return self.modulus + 6

    @property
    def stages(self) -> tuple[int, ...]:
        """Powers of two (two more with brackets) with enough instances."""
        lengths = (length + 2 for length in _LENGTHS) if self.brackets else _LENGTHS
        return tuple(n for n in lengths if self.instance_count(n) >= _LEAST_INSTANCES)

    @property
    def allowed_stages(self) -> str:
        """Lengths that whole expressions have."""
        if self.brackets:
            return f"a sequence length 4m + 2 with m in 1 .. {_MOST_OPERATIONS}"
        return f"an even sequence length in 4 .. {_LONGEST}"

    @property
    def supervised(self) -> str:
        """The equals sign."""
        return "="

    @property
    def token_names(self) -> tuple[str, ...]:
        """Numbers and signs."""
        return (*map(str, range(self.modulus)), "+", "-", "*", "=", "(", ")")

    def _allows(self, stage: int) -> bool:
        if self.brackets:
            return stage % 4 == 2 and 1 <= stage // 4 <= _MOST_OPERATIONS
        return stage % 2 == 0 and 4 <= stage <= _LONGEST

    def _length(self, stage: int) -> int:
        return stage

    def _operations(self, stage: int) -> int:
        return stage // 4 if self.brackets else stage // 2 - 1

    def _shape(self, stage: int) -> tuple[int, int, int]:
        """Trees as paths."""
        operations = self._operations(stage)
        return 2 * operations, 0, operations

    def _radices(self, stage: int) -> tuple[int, ...]:
        operations = self._operations(stage)
        shapes = (paths.count(*self._shape(stage)),) if self.brackets else ()
        operands = (self.modulus,) * (operations + 1)
        return (*shapes, *operands, *(len(self.operators),) * operations)

    def _from_digits(
        self, digit_rows: UInt[np.ndarray, "count width"], stage: int
    ) -> UInt[np.ndarray, "count codes"]:
        if not self.brackets:
            return digit_rows
        nodes = paths.listed(digit_rows[:, 0], *self._shape(stage))
        return np.concatenate(
            [nodes.T, digit_rows[:, 1:]], axis=1, dtype=np.uint8, casting="unsafe"
        )

    def _draw(self, stream: Stream, stage: int, count: int) -> UInt[np.ndarray, "count codes"]:
        if not self.brackets:
            return digits.draw(stream, self._radices(stage), count)
        nodes = paths.draw(stream, *self._shape(stage), count)
        rest = digits.draw(stream, self._radices(stage)[1:], count)
        return np.concatenate([nodes.T, rest], axis=1)

    def _render(
        self, codes: UInt[np.ndarray, "size width"], stage: int, stream: Stream
    ) -> tuple[Int64[np.ndarray, "size length"], Int64[np.ndarray, "size length"]]:
        n, operations = self.modulus, self._operations(stage)
        inputs = np.full((len(codes), stage), n + 5, dtype=np.int64)  # closing brackets
        operands, operators = codes[:, -(2 * operations + 1) : -operations], codes[:, -operations:]
        first, second = (np.ascontiguousarray(part.T) for part in (operands, operators))
        if self.brackets:
            nodes = np.ascontiguousarray(codes[:, : 2 * operations].T).astype(bool)
            self._write_tree(inputs, nodes, operands, operators)
            value = expressions.tree_value(nodes, first, second, n)
        else:
            inputs[:, 0:-1:2] = operands
            inputs[:, 1:-2:2] = operators
            inputs[:, 1:-2:2] += n
            value = expressions.row_value(first, second, n)
        inputs[:, -1] = n + 3
        targets = np.full_like(inputs, IGNORE)
        targets[:, -1] = value
        return inputs, targets

    def _write_tree(
        self,
        inputs: Int64[np.ndarray, "size length"],
        nodes: Bool[np.ndarray, "t size"],
        operands: UInt[np.ndarray, "size m"],
        operators: UInt[np.ndarray, "size n"],
    ) -> None:
        """Write operands, operators and opening brackets."""
        places, signs = (np.ascontiguousarray(part.T) for part in expressions.tree_places(nodes))
        is_operation = np.zeros(places.shape, dtype=bool)
        is_operation[:, :-1] = nodes.T
        tokens = np.full(places.shape, self.modulus + 4, dtype=np.int64)
        tokens[~is_operation] = operands.reshape(-1)
        np.put_along_axis(inputs, places, tokens, 1)
        signs = signs[is_operation].reshape(operators.shape)
        np.put_along_axis(inputs, signs, operators.astype(np.int64) + self.modulus, 1)

    def _floors(self, stage: int) -> dict[str, float]:
        operations, kinds = self._operations(stage), len(self.operators)
        if self.brackets:
            chances = expressions.tree_chances(operations, self.modulus, kinds)
        else:
            chances = expressions.row_chances(operations + 1, self.modulus, kinds)
        return {"uniform": 1 / self.modulus, **chances}

    def _position_floors(self, stage: int) -> Float64[np.ndarray, "length"]:
        floors = np.full(stage, np.nan)
        floors[-1] = self._floors(stage)["majority"]
        return floors
