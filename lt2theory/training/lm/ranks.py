"""The processes of a run: who they are, and what they tell each other on the host.

torchrun starts them and says in the environment who is who. Gradients travel over NCCL on GPUs and
gloo on CPUs; short messages between hosts always over gloo, so that no device has to wait.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from lt2theory.training.config import Device
from lt2theory.training.signals import Interrupted

_LOST = re.compile(
    r"gloo|nccl|connection (closed|reset|refused)|broken pipe|socket|peer", re.IGNORECASE
)


class FirstRefusedError(ValueError):
    """What the first process refused, told by another."""


class LostProcessError(Interrupted):
    """Another process of the run is gone."""


@dataclass(frozen=True)
class Ranks:
    """The processes of a run.

    Attributes:
        rank: Number of this one.
        size: How many there are.
        device: Where this one computes.
        mesh: All of them in a row; None for one process.
        host: Group for short messages; None for one process.
        storage: Group for checkpoints, which may be written beside the steps; likewise.
    """

    rank: int
    size: int
    device: torch.device
    mesh: DeviceMesh | None = None
    host: dist.ProcessGroup | None = None
    storage: dist.ProcessGroup | None = None

    @property
    def is_first(self) -> bool:
        """Whether this process writes the run's folder."""
        return self.rank == 0

    def sum(self, values: Sequence[float | int]) -> list[float]:
        """Sum numbers over all processes, on the host.

        Args:
            values: Numbers of this process, as many as of the others.

        Returns:
            The sums, in float64.
        """
        total = torch.tensor(values, dtype=torch.float64)
        if self.host is not None:
            dist.all_reduce(total, group=self.host)
        return [float(value) for value in total.tolist()]

    def from_first(self, value: Any) -> Any:
        """What the first process has.

        Args:
            value: Plain Python values; read from the first process alone.

        Returns:
            Its value.
        """
        if self.host is None:
            return value
        box = [value if self.is_first else None]
        dist.broadcast_object_list(box, src=0, group=self.host)
        return box[0]

    @contextlib.contextmanager
    def first_decides(self) -> Iterator[None]:
        """Let no process go on from a block in which the first one was refused something.

        Yields:
            Nothing; only the first process may fail in the block.

        Raises:
            FirstRefusedError: In the others, where it has.
            Exception: In the first, what the block raised.
        """
        if not self.is_first:
            yield
            refusal = self.from_first(None)
            if refusal is not None:
                raise FirstRefusedError(refusal)
            return
        try:
            yield
        except Exception as error:
            self.from_first(str(error))
            raise
        self.from_first(None)


def starts_first() -> bool:
    """Whether this is the first of the processes that torchrun starts, or the only one.

    Returns:
        So before they have met; `Ranks.is_first` tells afterwards.
    """
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def join_ranks(device: Device) -> Iterator[Ranks]:
    """Take this process's place among those that torchrun has started; alone without torchrun.

    Args:
        device: "cpu" or "cuda"; on a host with several GPUs each process takes its own.

    Yields:
        The processes.

    Raises:
        ValueError: There is no CUDA device for this process, or as the block raises.
        LostProcessError: As the block raises.
        Interrupted: As the block raises.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    own = _own_device(device)
    if size == 1:
        yield Ranks(0, 1, own)
        return
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
    mesh = init_device_mesh(own.type, (size,))
    host, storage = (dist.new_group(backend="gloo") for _ in range(2))
    try:
        yield Ranks(dist.get_rank(), size, own, mesh, host, storage)
    except LostProcessError:
        raise  # the others would wait for it in what follows
    except (Interrupted, ValueError):
        dist.destroy_process_group()  # all have come here
        raise
    dist.destroy_process_group()


def _own_device(device: Device) -> torch.device:
    """Return the device of this process, which becomes the current one.

    Raises:
        ValueError: There is none.
    """
    if device == "cpu":
        return torch.device("cpu")
    local, found = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local >= found:
        raise ValueError(
            f"device: got 'cuda' for process {local} of this host, but torch sees {found} CUDA "
            "devices; start fewer processes, or allowed: 'cpu'"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


@contextlib.contextmanager
def losses_of_peers_named(size: int) -> Iterator[None]:
    """Turn what a collective operation raises when a process is gone into an interruption.

    Args:
        size: How many processes there are.

    Yields:
        Nothing.

    Raises:
        LostProcessError: A process is gone; the last checkpoint is as it was.
        RuntimeError: Whatever else went wrong.
    """
    try:
        yield
    except RuntimeError as error:
        if size == 1 or not (isinstance(error, dist.DistError) or _LOST.search(str(error))):
            raise
        raise LostProcessError(
            "another process of the run is gone; the same command continues from the last "
            f"checkpoint ({' '.join(str(error).split())[:120]})"
        ) from error
