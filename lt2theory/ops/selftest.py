"""A gradient self-test: whether a kernel that is wrong on some machines is right on this one.

A small problem of the workload's class (same kernel, dtype, heads and widths: what a compiler and
an autotuner specialise for) is run forwards and backwards on the same device, and every value and
gradient is compared with the token-by-token reference in float64. The verdict holds for the
process and is kept on disk for the same versions and device.

`KernelClass` is the one description of such a test. An op's own says what counts, what is drawn and
what it is judged by: `selftest_recurrence`, `selftest_attention`, `sparse.selftest`.

A pass is strong evidence and no proof: other lengths run the same compiled code, but another
process may autotune to another configuration where Triton's cache was cleared.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from lt2theory.ops.agreement import measure_agreement
from lt2theory.ops.autocast import own_precision
from lt2theory.ops.known_faults import installed_version
from lt2theory.ops.selftest_verdicts import Verdict, read_verdict, write_verdict
from lt2theory.ops.workload import AttentionWorkload, RecurrenceWorkload

Runner = TypeVar("Runner")

# Largest relative error of a tensor (Euclidean norms). FLA's own tests allow 0.02 in half
# precision; float32 is multiplied as TensorFloat-32 in places, as exactly as float16.
TOLERANCES = {torch.float32: 5e-3, torch.float16: 5e-3, torch.bfloat16: 2e-2}

LENGTH = 131  # two full chunks of 64 and a short one of odd length
BATCH = 2

_FORMAT = 1  # raised whenever the self-test itself changes, so that old verdicts lapse


@dataclass(frozen=True)
class KernelClass(ABC, Generic[Runner]):
    """What a verdict holds for, and the problem and the float64 twin that it is found with.

    A class of an op adds those fields of its workload that change what is compiled.

    Attributes:
        kernel: Name of the kernel.
        device: Device type and index.
        device_name: Name of the device's model.
        dtype: Dtype of the inputs.
    """

    kernel: str
    device: str
    device_name: str
    dtype: torch.dtype

    seed: ClassVar[int]

    @classmethod
    def of(cls, kernel: str, workload: RecurrenceWorkload | AttentionWorkload) -> Self:
        """The class of a workload.

        Args:
            kernel: Name of the kernel.
            workload: What is to be computed.

        Returns:
            Its class.
        """
        device = model = workload.device
        if device == "cuda":
            device = f"cuda:{workload.device_index}"
            model = torch.cuda.get_device_name(workload.device_index)
        given: dict[str, Any] = {"kernel": kernel, "device": device, "device_name": model}
        names = [field.name for field in fields(cls) if field.name not in given]
        return cls(**given, **{name: getattr(workload, name) for name in names})

    def key(self) -> dict[str, Any]:
        """What has to be the same for a verdict to hold.

        Returns:
            JSON values: the fields but for the device, since the model counts and not which of
            several it is, and the versions that compile a kernel.
        """
        own = {name: x for name, x in asdict(self).items() if name != "device"}
        versions = {name: installed_version(name) for name in ("torch", "triton", "fla-core")}
        return {**own, "dtype": str(self.dtype), "format": _FORMAT, "versions": versions}

    @abstractmethod
    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        """Random inputs of the class.

        Args:
            generator: Source of randomness, on the CPU.

        Returns:
            Floating tensors by name in float64, on the CPU, `q` among them.
        """

    @abstractmethod
    def compute(self, run: Runner, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run a backend.

        Args:
            run: The backend.
            inputs: What `draw` gave, where and in the dtype that the backend takes.

        Returns:
            Its results by name.
        """

    @abstractmethod
    def twin(self) -> Runner:
        """What the kernel is judged by.

        Returns:
            The reference, which computes in float64.
        """

    def cast(self, name: str, x: Tensor) -> Tensor:
        """An input as the kernel gets it.

        Args:
            name: Its name.
            x: What was drawn.

        Returns:
            It on the device, in the dtype of the class.
        """
        return x.to(self.device, self.dtype)


_VERDICTS: dict[KernelClass[Any], Verdict] = {}


def find_verdict(shape: KernelClass[Runner], run: Runner) -> Verdict:
    """The verdict on a class: known in this process, read from disk, or measured now.

    Args:
        shape: The class.
        run: The kernel.

    Returns:
        The verdict.
    """
    if shape not in _VERDICTS:
        verdict = read_verdict(shape.key())
        if verdict is None:
            verdict = run_self_test(shape, run)
            if verdict.error is not None:  # what did not finish may be a matter of the moment
                write_verdict(shape.key(), verdict)
        _VERDICTS[shape] = verdict
    return _VERDICTS[shape]


def known_verdict(shape: KernelClass[Any]) -> str | None:
    """The verdict on a class where this process has asked for it; nothing is read or run.

    Args:
        shape: The class.

    Returns:
        It as text, or None.
    """
    return str(_VERDICTS[shape]) if shape in _VERDICTS else None


def run_self_test(shape: KernelClass[Runner], run: Runner) -> Verdict:
    """Compare a kernel's values and gradients with the float64 reference on the same device.

    Args:
        shape: The class.
        run: The kernel.

    Returns:
        The verdict, whatever the caller's contexts are; an exception in the kernel is a failure.
    """
    generator = torch.Generator().manual_seed(shape.seed)
    inputs = {name: shape.cast(name, x) for name, x in shape.draw(generator).items()}
    candidate, reference = (partial(shape.compute, each) for each in (run, shape.twin()))
    tolerance = TOLERANCES[shape.dtype]
    with ExitStack() as own:
        # A call inside a checkpointed part must not add to what that part is seen to save.
        own.enter_context(saved_tensors_hooks(_itself, _itself))
        own.enter_context(torch.inference_mode(False))
        own.enter_context(torch.enable_grad())
        own.enter_context(own_precision(inputs["q"].device))
        try:
            agreement = measure_agreement(candidate, reference, inputs, generator=generator)
        except Exception as stop:  # noqa: BLE001 - whatever stops the kernel, it is not usable
            return Verdict(False, f"{type(stop).__name__}: {str(stop)[:200]}", None, tolerance)
    gradients = {f"gradient of {name}": e for name, e in agreement.gradients.items()}
    errors = {**agreement.values, **gradients}
    worst = max(errors, key=lambda name: errors[name])
    error = min(errors[worst], 1e30)  # JSON has no infinity
    return Verdict(agreement.within(tolerance), worst, error, tolerance)


def _itself(tensor: Tensor) -> Tensor:
    """Save and give back a tensor as it is."""
    return tensor
