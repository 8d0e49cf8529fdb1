"""Runs that repeat to the bit: torch's deterministic algorithms, switched on for one run."""

import contextlib
import os
from collections.abc import Iterator

import torch

CUBLAS_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
CUBLAS_WORKSPACES = (":4096:8", ":16:8")
"""Workspaces with which cuBLAS gives the same bits again (its documentation, "Reproducibility")."""

_NO_VERSION = "does not have a deterministic implementation"


def check_determinism(device: str) -> None:
    """Refuse a machine on which a deterministic run cannot begin.

    Args:
        device: "cpu" or "cuda".

    Raises:
        ValueError: The device is "cuda" and cuBLAS has not been told to repeat itself, which has
            to happen before the process first uses it.
    """
    found = os.environ.get(CUBLAS_VARIABLE)
    if device == "cuda" and found not in CUBLAS_WORKSPACES:
        raise ValueError(
            f"deterministic: on a CUDA device start with {CUBLAS_VARIABLE} in the environment, got "
            f"{found!r}; allowed: {', '.join(CUBLAS_WORKSPACES)}"
        )


@contextlib.contextmanager
def deterministic_algorithms(on: bool, device: str = "cpu") -> Iterator[None]:
    """Let torch use deterministic algorithms alone inside the block, and what it did before after.

    Two runs of one configuration on one machine then give the same bits. On a CPU they do so
    anyway, for one number of threads; on a CUDA device several operations add in the order in which
    their threads arrive. `auto` leaves out the Triton kernels (`lt2theory.ops`), which choose
    their block sizes by measuring, and so may add in another order in another process.

    Args:
        on: Whether to change anything.
        device: Where the block computes, "cpu" or "cuda".

    Yields:
        Nothing.

    Raises:
        ValueError: An operation has no deterministic version on this device (it is named), or
            `check_determinism` refuses.
        RuntimeError: Whatever else the block raises.
    """
    if not on:
        yield
        return
    check_determinism(device)
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    except RuntimeError as error:
        if _NO_VERSION not in str(error):
            raise
        operation = str(error).split(_NO_VERSION)[0].strip()
        raise ValueError(
            f"deterministic: {operation} has no deterministic version on {device}; compute on "
            "'cpu', with another mixer or backend, or without deterministic"
        ) from error
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)
