"""GGUF files (llama.cpp's container of weights), versions 2 and 3: metadata, tensors, no code.

Layout: `GGUF`, version, numbers of tensors and of entries, the entries (name, type, value), for
each tensor its name, widths, type and place, then the data, aligned.
"""

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from lt2theory.linearize.gguf_blocks import block_format, widen

SUFFIX = ".gguf"
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_MOST = 2**32
"""No file has more entries, tensors or elements of a list; more is damage."""


@dataclass(frozen=True)
class _Tensor:
    shape: tuple[int, ...]
    code: int
    place: int


class GgufFile:
    """What one file holds; tensors are read when they are asked for.

    Args:
        path: The file.

    Raises:
        ValueError: It is no GGUF file of version 2 or 3, little-endian, or it is damaged.

    Attributes:
        path: The file.
        metadata: Its entries: numbers, strings, and lists of them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # an empty file cannot be mapped
            raise ValueError(f"{path} cannot be read: {error}") from error
        self._at = 0
        try:
            self._read_header()
        except (struct.error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no GGUF file or damaged: {error}") from error

    def _read_header(self) -> None:
        magic, version = self._data[:4], self._struct("<4xI")
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(
                f"{self.path} is no little-endian GGUF file of version 2 or 3 "
                f"(it begins with {magic!r}, {version})"
            )
        tensors, entries = self._count(), self._count()
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            name = self._string()
            self.metadata[name] = self._value(self._struct("<I"))
        self._tensors = dict(self._tensor() for _ in range(tensors))
        alignment = int(self.metadata.get("general.alignment", 32))
        self._start = -(-self._at // alignment) * alignment

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tensors."""
        return tuple(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, rows first.

        Args:
            name: Its name.

        Returns:
            The shape.

        Raises:
            ValueError: There is no such tensor.
        """
        if name not in self._tensors:
            raise ValueError(f"{self.path} has no tensor {name!r}")
        return self._tensors[name].shape

    def read(self, name: str) -> Float32[np.ndarray, "..."]:
        """A tensor, widened to float32.

        Args:
            name: Its name.

        Returns:
            The tensor, of `shape(name)`.

        Raises:
            ValueError: There is no such tensor, its format is not known, or the file was cut.
        """
        shape = self.shape(name)
        tensor = self._tensors[name]
        form = block_format(tensor.code)
        begin = self._start + tensor.place
        size = int(np.prod(shape)) // form.numbers * form.bytes
        data = np.frombuffer(self._data[begin : begin + size], dtype=np.uint8)
        if len(data) != size or (shape and shape[-1] % form.numbers):
            raise ValueError(f"{self.path} was cut or is damaged: tensor {name!r} is not whole")
        return widen(data, tensor.code).reshape(shape)

    def _tensor(self) -> tuple[str, _Tensor]:
        name, axes = self._string(), self._struct("<I")
        if axes > 4:
            raise ValueError(f"{self.path} is damaged: tensor {name!r} has {axes} axes")
        widths = [self._count() for _ in range(axes)]
        code, place = self._struct("<I"), self._struct("<Q")
        return name, _Tensor(tuple(reversed(widths)), code, place)

    def _value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self._struct(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            raise ValueError(f"{self.path} is damaged: an entry has the unknown type {kind}")
        inner, count = self._struct("<I"), self._count()
        return [self._value(inner) for _ in range(count)]

    def _string(self) -> str:
        length = self._count()
        begin, self._at = self._at, self._at + length
        if self._at > len(self._data):
            raise ValueError(f"{self.path} was cut: a name or string is not whole")
        return self._data[begin : self._at].decode()

    def _count(self) -> int:
        number: int = self._struct("<Q")
        if number > _MOST:
            raise ValueError(f"{self.path} is damaged: it counts {number} of something")
        return number

    def _struct(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return value
