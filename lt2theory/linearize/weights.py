"""Where a teacher's weights come from: a configuration and named tensors, read one by one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from safetensors import SafetensorError, safe_open
from torch import Tensor

from lt2theory.runs.atomic import read_json

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


@runtime_checkable
class WeightSource(Protocol):
    """A checkpoint in Hugging Face's terms, wherever it is kept."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def config(self) -> Mapping[str, Any]:
        """What a Hugging Face config.json says."""

    @property
    def names(self) -> frozenset[str]:
        """Names of the tensors."""

    def read(self, name: str) -> Tensor:
        """A tensor.

        Args:
            name: One of `names`.

        Returns:
            The tensor, on the CPU, in the dtype in which it is kept.
        """


class FolderSource:
    """A folder with config.json and safetensors, in one file or several with an index.

    Args:
        folder: The folder.

    Raises:
        ValueError: A file is missing or damaged, or the weights are not in safetensors.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not (folder / CONFIG).is_file():
            raise ValueError(f"{folder} has no {CONFIG}: not a Hugging Face checkpoint")
        self._config = read_json(folder / CONFIG)
        self._files = self._find()

    def _find(self) -> dict[str, Path]:
        """File of each tensor."""
        if (self._folder / INDEX).is_file():
            listed = read_json(self._folder / INDEX).get("weight_map")
            if not isinstance(listed, dict):
                raise ValueError(f"{self._folder / INDEX} is damaged: it has no weight_map")
            # A file's name alone, so that an index cannot point out of the folder.
            return {name: self._folder / Path(file).name for name, file in listed.items()}
        single = self._folder / WEIGHTS
        if not single.is_file():
            pickled = next(iter(self._folder.glob("pytorch_model*.bin")), None)
            hint = "" if pickled is None else f" ({pickled.name} is a pickle, which is not read)"
            raise ValueError(f"{self._folder} has no {WEIGHTS} and no {INDEX}{hint}")
        try:
            with safe_open(single, framework="pt") as file:
                return dict.fromkeys(file.keys(), single)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{single} cannot be read: {error}") from error

    @property
    def name(self) -> str:
        """The folder."""
        return str(self._folder)

    @property
    def config(self) -> Mapping[str, Any]:
        """Contents of config.json."""
        return self._config

    @property
    def names(self) -> frozenset[str]:
        """Names of the tensors."""
        return frozenset(self._files)

    def read(self, name: str) -> Tensor:
        """A tensor.

        Args:
            name: One of `names`.

        Returns:
            The tensor as it is kept.

        Raises:
            ValueError: Its file is missing or damaged.
        """
        try:
            with safe_open(self._files[name], framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise ValueError(f"{self._files[name]} cannot be read: {error}") from error
        return tensor
