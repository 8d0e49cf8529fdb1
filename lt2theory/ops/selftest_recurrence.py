"""The self-test of kernels of the linear recurrence: see `selftest`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from lt2theory.ops.factors import Factors
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.selftest import BATCH, LENGTH, KernelClass
from lt2theory.ops.workload import RecurrenceRunner


@dataclass(frozen=True)
class RecurrenceClass(KernelClass[RecurrenceRunner]):
    """What a verdict on a kernel of the recurrence holds for: every length.

    Attributes:
        num_heads: Heads.
        key_width: Key width of a head.
        value_width: Value width of a head.
        decay: `none`, `scalar` or `vector`.
        erases: Whether there is a beta.
        own_write: Whether there is a write strength of its own.
    """

    num_heads: int
    key_width: int
    value_width: int
    decay: str
    erases: bool
    own_write: bool = False

    seed: ClassVar[int] = 640

    @override
    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        steps = (BATCH, LENGTH, 1, self.num_heads)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, generator=generator, dtype=torch.float64)

        # Keys that resemble one another, as positive features do, make erasures matter.
        keys = torch.nn.functional.normalize(normal(*steps, self.key_width) + 0.5, dim=-1)
        drawn = {
            "q": normal(BATCH, LENGTH, self.num_heads, self.key_width),
            "k": keys,
            "v": normal(*steps, self.value_width),
            "state": normal(BATCH, self.num_heads, self.key_width, self.value_width),
        }
        if self.decay != "none":
            size = (*steps, self.key_width) if self.decay == "vector" else steps
            drawn["log_decay"] = -0.5 * torch.rand(*size, generator=generator, dtype=torch.float64)
        if self.erases:
            drawn["beta"] = torch.rand(*steps, generator=generator, dtype=torch.float64)
        if self.own_write:
            drawn["write"] = torch.rand(*steps, generator=generator, dtype=torch.float64)
        return drawn

    @override
    def cast(self, name: str, x: Tensor) -> Tensor:
        x = super().cast(name, x)
        return x.float() if name == "state" else x

    @override
    def compute(self, run: RecurrenceRunner, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        log_decay, beta, write = (inputs.get(name) for name in ("log_decay", "beta", "write"))
        factors = Factors(inputs["q"], inputs["k"], inputs["v"], log_decay, beta, write)
        output, state = run(factors, inputs["state"])
        return {"output": output, "state": state}

    @override
    def twin(self) -> RecurrenceRunner:
        return reference_recurrence
