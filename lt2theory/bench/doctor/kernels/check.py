"""What a check of a kernel is made of."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]
"""Tensors by name."""

# Largest relative errors. Float32 kernels multiply without loss, or by products that lose nothing;
# what they sum in another order leaves some 1e-6. A bfloat16 result has been rounded to 8 bits, and
# so have the weights of an attention: 4e-3 was measured.
TOLERANCES = {"float32": 2e-5, "bfloat16": 1e-2}


@dataclass(frozen=True)
class Problem:
    """Random numbers, and two ways to compute with them.

    Attributes:
        inputs: Floating tensors as the kernel gets them; the reference gets them in float64.
        run: The kernel. It must leave the inputs as they are.
        reference: The same in plain torch. Whole numbers are compared as floating ones of which
            each counts, see `one_hot`.
        differentiable: Whether gradients are compared too.
    """

    inputs: dict[str, Tensor]
    run: Callable[[Tensors], Tensors]
    reference: Callable[[Tensors], Tensors]
    differentiable: bool = True


@dataclass(frozen=True)
class Draw:
    """A source of random tensors; every machine gets the same numbers.

    Attributes:
        generator: Source of randomness, on the CPU.
        dtype: Dtype of floating tensors.
        device: Where they go.
    """

    generator: torch.Generator
    dtype: torch.dtype
    device: str

    def normal(self, *size: int, dtype: torch.dtype | None = None) -> Tensor:
        """Normal numbers, rounded to the dtype.

        Args:
            size: Their shape.
            dtype: Instead of the source's.

        Returns:
            The tensor.
        """
        x = torch.randn(*size, generator=self.generator, dtype=torch.float64)
        return x.to(self.device, self.dtype if dtype is None else dtype)

    def whole(self, *size: int, most: int = 1) -> Tensor:
        """Whole numbers, exact in every dtype, so that scores of them are too.

        Args:
            size: Their shape.
            most: Largest absolute value.

        Returns:
            The tensor, in the dtype of the source.
        """
        x = torch.randint(-most, most + 1, size, generator=self.generator)
        return x.to(self.device, self.dtype)

    def order(self, rows: int, count: int) -> Tensor:
        """Permutations of `0 .. count-1`.

        Args:
            rows: How many.
            count: Numbers of each.

        Returns:
            `[rows count]`, int64.
        """
        found = [torch.randperm(count, generator=self.generator) for _ in range(rows)]
        return torch.stack(found).to(self.device)

    def counters(self, *size: int) -> Tensor:
        """Counters of programs that have arrived.

        Args:
            size: Their shape.

        Returns:
            Zeros, int32.
        """
        return torch.zeros(*size, dtype=torch.int32, device=self.device)

    def position(self, *numbers: int) -> Tensor:
        """Given positions or lengths.

        Args:
            numbers: The numbers.

        Returns:
            Them as int64.
        """
        return torch.tensor(numbers, device=self.device)


@dataclass(frozen=True)
class KernelCheck:
    """A kernel, or a few that work together, and how it is checked.

    Attributes:
        name: What the doctor calls it.
        modules: Modules with the kernels that it launches, after `lt2theory.ops.`.
        build: Makes a problem.
        tolerances: Largest relative error by name of a dtype, all of which are measured.
        repeats: Whether two runs promise the same bits; sums in no fixed order do not.
    """

    name: str
    modules: tuple[str, ...]
    build: Callable[[Draw], Problem]
    tolerances: Mapping[str, float] = field(default_factory=lambda: TOLERANCES)
    repeats: bool = True


def one_hot(numbers: Tensor, count: int) -> Tensor:
    """Whole numbers as tensors of which a wrong one is far away.

    Args:
        numbers: Numbers from -1 to `count - 1`.
        count: See there.

    Returns:
        A 1 for each among zeros, in float64.
    """
    return torch.nn.functional.one_hot(numbers.long() + 1, count + 1).double()
