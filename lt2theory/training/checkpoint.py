"""Checkpoints of a curriculum run: safetensors for tensors, JSON for the rest; no pickle."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from lt2theory.runs.atomic import read_json
from lt2theory.runs.contents import check_contents
from lt2theory.training.records import checked
from lt2theory.training.train_state import TrainState

MODEL = "model.safetensors"
OPTIMISER = "optimiser.safetensors"
STATE = "state.json"


def pack(model: nn.Module, optimiser: torch.optim.Optimizer, state: TrainState) -> dict[str, bytes]:
    """Serialise everything that the next step depends on.

    Args:
        model: The model.
        optimiser: Its optimiser.
        state: Where the run is.

    Returns:
        File name -> contents.
    """
    text = json.dumps(state.model_dump(mode="json"), indent=2, allow_nan=False)
    return {
        MODEL: save(_contiguous(model_tensors(model))),
        OPTIMISER: save(_contiguous(_optimiser_tensors(model, optimiser))),
        STATE: text.encode(),
    }


def unpack(folder: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> TrainState:
    """Put a model and its optimiser into the state of a checkpoint.

    Args:
        folder: The checkpoint.
        model: A model of the same configuration, changed in place.
        optimiser: A new optimiser of it, changed in place.

    Returns:
        Where the run was.

    Raises:
        ValueError: A file is missing, damaged, or belongs to another model; nothing has changed.
    """
    state = checked(TrainState, read_json(folder / STATE), folder / STATE)
    check_contents(folder)
    weights = _read(folder / MODEL)
    moments = _read(folder / OPTIMISER)
    parameters = dict(model.named_parameters())
    strangers = {name.rpartition(".")[0] for name in moments} - set(parameters)
    if strangers:
        raise ValueError(f"{folder / OPTIMISER} names {min(strangers)}, which the model lacks")
    _fill(model, weights, folder / MODEL)
    for key, tensor in moments.items():
        name, _, field = key.rpartition(".")
        parameter = parameters[name]
        optimiser.state[parameter][field] = tensor.to(parameter.device)
    return state


def load_weights(folder: Path, model: nn.Module) -> None:
    """Put the weights of a checkpoint into a model.

    Args:
        folder: The checkpoint.
        model: A model of the same configuration, changed in place.

    Raises:
        ValueError: The file is missing, damaged, or belongs to another model.
    """
    check_contents(folder, (MODEL,))
    _fill(model, _read(folder / MODEL), folder / MODEL)


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """What of a model is saved: parameters, once each however often shared, and lasting buffers.

    Args:
        model: The model.

    Returns:
        Name -> tensor, detached.
    """
    lasting = model.state_dict()
    tensors = dict(model.named_parameters()) | {
        name: buffer for name, buffer in model.named_buffers() if name in lasting
    }
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _optimiser_tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    return {
        f"{name}.{field}": value
        for name, parameter in model.named_parameters()
        for field, value in optimiser.state[parameter].items()
    }


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}


def _read(path: Path) -> dict[str, Tensor]:
    try:
        return dict(load(path.read_bytes()))
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _fill(model: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    own = model_tensors(model)
    wrong = sorted(
        name
        for name in own.keys() | weights.keys()
        if name not in own or name not in weights or own[name].shape != weights[name].shape
    )
    if wrong:
        raise ValueError(f"{path} does not fit the model: {wrong[0]} differs or is missing")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(weights[name])
