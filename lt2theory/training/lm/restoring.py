"""Reading checkpoints of several processes, in whatever number of processes there are now."""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load

from lt2theory.models import LoopedModel
from lt2theory.runs import read_json
from lt2theory.runs.contents import check_contents
from lt2theory.training.checkpoint import model_tensors
from lt2theory.training.lm.optimisers import FIELDS
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.lm.records import LmState
from lt2theory.training.records import checked

STATE = "state.json"


def training_tensors(
    model: LoopedModel, optimisers: Sequence[torch.optim.Optimizer]
) -> dict[str, Tensor]:
    """All tensors that the next step depends on.

    Args:
        model: The model, sharded or not.
        optimisers: Its optimisers.

    Returns:
        `model.<name>` and `optimiser.<name>.<field>`, sharing memory with them.
    """
    tensors = {f"model.{name}": tensor for name, tensor in model_tensors(model).items()}
    for name, parameter in model.named_parameters():
        for optimiser in optimisers:
            if parameter not in optimiser.state:
                continue
            for field in FIELDS[type(optimiser).__name__]:
                tensors[f"optimiser.{name}.{field}"] = optimiser.state[parameter][field]
    return tensors


def load_training(
    folder: Path,
    model: LoopedModel,
    optimisers: Sequence[torch.optim.Optimizer],
    ranks: Ranks,
) -> LmState:
    """Put a model and its optimisers into the state of a checkpoint.

    Args:
        folder: The checkpoint.
        model: A model of the same configuration, changed in place.
        optimisers: Its optimisers, likewise.
        ranks: The processes, as many as there are now.

    Returns:
        Where the run was.

    Raises:
        ValueError: A file is missing, damaged, or of another model.
    """
    with ranks.first_decides():  # one process reads all of it
        state = _read_state(folder) if ranks.is_first else LmState()
    told = ranks.from_first(state.model_dump(mode="json"))
    _load(folder, training_tensors(model, optimisers), ranks)
    return LmState.model_validate(told)


def load_newest(
    folders: Sequence[Path],
    model: LoopedModel,
    optimisers: Sequence[torch.optim.Optimizer],
    ranks: Ranks,
) -> LmState:
    """Put a model and its optimisers into the newest state that every process can read.

    Args:
        folders: The checkpoints, the newest first, at least one.
        model: A model of the same configuration, changed in place.
        optimisers: Its optimisers, likewise.
        ranks: The processes, as many as there are now.

    Returns:
        Where the run was.

    Raises:
        ValueError: None can be read; it says why not the last.
    """
    reason = None
    for folder in folders:
        if reason is not None:
            warnings.warn(f"going back one checkpoint: {reason}", stacklevel=3)
        state, reason = _tried(folder, model, optimisers, ranks)
        if state is not None:
            return state
    raise ValueError(reason)


def _tried(
    folder: Path,
    model: LoopedModel,
    optimisers: Sequence[torch.optim.Optimizer],
    ranks: Ranks,
) -> tuple[LmState | None, str | None]:
    """The state of a checkpoint, or why it cannot be read by all processes."""
    state, reason = None, None
    try:
        state = load_training(folder, model, optimisers, ranks)
    except ValueError as error:
        reason = str(error)
    if ranks.sum([reason is not None])[0]:
        return None, reason or f"{folder} cannot be read by another process"
    return state, None


def load_weights(folder: Path, model: LoopedModel) -> None:
    """Put the weights of a checkpoint into a model of this process alone.

    Args:
        folder: The checkpoint.
        model: A model of the same configuration, changed in place.

    Raises:
        ValueError: A file is missing, damaged, or of another model.
    """
    _read_state(folder)
    tensors = {f"model.{name}": tensor for name, tensor in model_tensors(model).items()}
    _load(folder, tensors, Ranks(0, 1, torch.device("cpu")))


def _read_state(folder: Path) -> LmState:
    """Return the state of a checkpoint whose files are all there.

    Raises:
        ValueError: They are not, or are not what was written.
    """
    path = folder / STATE
    state = checked(LmState, read_json(path), path)
    if not state.files:  # every field has a value by default
        raise ValueError(f"{path} is damaged: files: it names none")
    for name, size in state.files.items():
        file = folder / name
        found = file.stat().st_size if file.is_file() else None
        if found != size:
            raise ValueError(f"{file} is damaged: {found} bytes where {path} says {size}")
    check_contents(folder)
    return state


def _load(folder: Path, tensors: dict[str, Tensor], ranks: Ranks) -> None:
    """Fill tensors in place.

    Raises:
        ValueError: A file is damaged, or of another model.
    """
    reader = HuggingFaceStorageReader(str(folder))
    try:
        with one_process_is_meant(), _refused_in_one_line():
            load(
                tensors,
                storage_reader=reader,
                process_group=ranks.storage,
                no_dist=ranks.size == 1,
            )
    except CheckpointException as error:
        causes = "; ".join(str(failure[0]) for failure in error.failures.values())
        raise ValueError(f"{folder} cannot be read: {' '.join(causes.split())[:200]}") from error


@contextlib.contextmanager
def one_process_is_meant() -> Iterator[None]:
    """Keep torch from warning that there is no process group.

    Yields:
        Nothing.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # no group is needed
        yield


@contextlib.contextmanager
def _refused_in_one_line() -> Iterator[None]:
    """Keep torch from logging the traceback of an error that it raises as well."""
    logger = logging.getLogger()

    def is_other(record: logging.LogRecord) -> bool:
        return record.module != "state_dict_loader"

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)
