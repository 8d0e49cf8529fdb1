"""Device, precision and threads of a run."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from lt2theory.training.config import Device, Dtype

_EAGER = threading.RLock()


@dataclass(frozen=True)
class Runtime:
    """Where and how precisely to compute.

    Attributes:
        device: The device.
        dtype: float32, or bfloat16 for products under autocast.
    """

    device: torch.device
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, device: Device, dtype: Dtype) -> "Runtime":
        """Check that the device is there.

        Args:
            device: "cpu" or "cuda".
            dtype: "float32" or "bfloat16".

        Returns:
            The runtime.

        Raises:
            ValueError: There is no CUDA device.
        """
        if device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device: got 'cuda', but torch sees no CUDA device; allowed: 'cpu'")
        return cls(torch.device(device), getattr(torch, dtype))

    @property
    def device_name(self) -> str:
        """The device in words: "cpu", or the GPU's product name."""
        if self.device.type == "cuda":
            return str(torch.cuda.get_device_name(self.device))
        return self.device.type

    def tensor(self, array: Shaped[np.ndarray, "..."]) -> Tensor:
        """Bring an array to the device.

        Args:
            array: Any numpy array.

        Returns:
            A tensor of the same dtype; on a CPU it shares the array's memory.
        """
        return torch.from_numpy(array).to(self.device)

    def alone(self) -> contextlib.AbstractContextManager[object]:
        """Context that one thread at a time is in: for operations one by one on a GPU.

        Recording a CUDA graph, and Triton's compiler and tuner, keep state for the whole process.

        Returns:
            A lock of the process on a GPU, and a context that does nothing on a CPU.
        """
        return _EAGER if self.device.type == "cuda" else contextlib.nullcontext()

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """Context in which products are computed in `dtype`.

        Returns:
            torch's autocast, or a context that does nothing for float32.
        """
        if self.dtype == torch.float32:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)


@contextlib.contextmanager
def torch_threads(threads: int | None) -> Iterator[int]:
    """Use so many threads inside the block, and as many as before after it.

    Args:
        threads: Threads a tensor operation may use, or None to leave them as they are.

    Yields:
        The number in force.
    """
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
