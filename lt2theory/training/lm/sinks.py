"""Where metrics go besides the run's folder: TensorBoard, Weights & Biases, trackio."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lt2theory.training.lm.options import SinkName

_PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb", "trackio": "trackio"}


@runtime_checkable
class Sink(Protocol):
    """Takes numbers by step."""

    def log(self, step: int, numbers: Mapping[str, float | int]) -> None:
        """Take numbers.

        Args:
            step: Steps done.
            numbers: By name, such as `train/loss`.
        """

    def close(self) -> None:
        """Write what is left."""


class TensorBoardSink:
    """Event files that TensorBoard reads.

    Args:
        folder: Where they go.
    """

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def log(self, step: int, numbers: Mapping[str, float | int]) -> None:
        """As in `Sink`.

        Args:
            step: Steps done.
            numbers: By name.
        """
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """As in `Sink`."""
        self._writer.close()


class TrackerSink:
    """A run of wandb, or of trackio, whose interface is the same.

    Args:
        module: The package.
        name: Name of the run; a resumed run goes on under it.
        config: What is shown as its configuration.
        **options: Further arguments of the package's `init`.
    """

    def __init__(self, module: Any, name: str, config: Mapping[str, Any], **options: Any) -> None:
        self._module = module
        module.init(project="lt2theory", name=name, config=dict(config), **options)

    def log(self, step: int, numbers: Mapping[str, float | int]) -> None:
        """As in `Sink`.

        Args:
            step: Steps done.
            numbers: By name.
        """
        self._module.log(dict(numbers), step=step)

    def close(self) -> None:
        """As in `Sink`."""
        self._module.finish()


def check_sinks(names: Sequence[SinkName]) -> None:
    """Refuse sinks whose package is missing, before any work.

    Args:
        names: The sinks.

    Raises:
        ValueError: Naming the first one and its package.
    """
    for name in names:
        _package(name)


def open_sinks(
    names: Sequence[SinkName], folder: Path, config: Mapping[str, Any], identity: str
) -> list[Sink]:
    """Open sinks for a run.

    Args:
        names: Which.
        folder: The run's folder; local files go below it.
        config: The run's configuration.
        identity: Its hash, under which Weights & Biases goes on with a resumed run.

    Returns:
        The sinks.

    Raises:
        ValueError: A package is missing.
    """
    sinks: list[Sink] = []
    for name in names:
        module = _package(name)
        if name == "tensorboard":
            sinks.append(TensorBoardSink(folder / "tensorboard"))
        elif name == "wandb":
            # Its mode (online, offline) is the user's choice in WANDB_MODE.
            options = {"id": f"{folder.name}-{identity}", "resume": "allow", "dir": str(folder)}
            sinks.append(TrackerSink(module, folder.name, config, **options))
        else:
            sinks.append(TrackerSink(module, folder.name, config, resume="allow"))
    return sinks


def _package(name: SinkName) -> Any:
    """Return the package of a sink.

    Raises:
        ValueError: It is not installed.
    """
    try:
        return importlib.import_module(_PACKAGES[name])
    except ImportError as error:
        raise ValueError(
            f"sinks: {name!r} needs the package {_PACKAGES[name]} "
            f"(pip install 'lt2theory[track]'): {error}"
        ) from None
