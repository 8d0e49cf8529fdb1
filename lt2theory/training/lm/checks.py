"""Whether a run can be carried out as it is asked for, before its folder is touched."""

import warnings

from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.options import Execution
from lt2theory.training.lm.placement import choose_parallel
from lt2theory.training.stepper import check_compiler


def check_execution(config: LmConfig, execution: Execution, size: int, whole: str = "") -> None:
    """Refuse what would fail only once a run has begun.

    Args:
        config: The run.
        execution: How it is to be carried out.
        size: Processes.
        whole: What of the objective needs whole weights, as in `Learner`.

    Raises:
        ValueError: The processes cannot share a batch, something that is asked for is missing, or
            a step cannot be recorded as a CUDA graph.
    """
    if config.batch_size % size:
        raise ValueError(
            f"batch_size: {config.batch_size} must be a multiple of the {size} processes"
        )
    choose_parallel(execution, config.optimiser, whole)
    check_compiler(execution.compile)
    if not execution.cuda_graph:
        return
    if size > 1:
        raise ValueError(f"cuda_graph: True needs one process, there are {size}")
    if config.model.positions == "learned":
        # How far positions reach is looked up on the host, at every call.
        raise ValueError("cuda_graph: True is not allowed with positions 'learned'")


def shared_execution(execution: Execution, size: int, *, tell: bool) -> Execution:
    """An execution as so many processes can share it.

    A run that one process began from graphs is continued by several with the same command.

    Args:
        execution: How a run is to be carried out.
        size: Processes.
        tell: Whether this process is the one that warns.

    Returns:
        The same for one process; for several without CUDA graphs, with a warning.
    """
    if size == 1 or not execution.cuda_graph:
        return execution
    if tell:
        warnings.warn(
            f"cuda_graph: True is for one process, there are {size}; steps are taken one "
            "operation after the other",
            stacklevel=2,
        )
    return execution.model_copy(update={"cuda_graph": False})
