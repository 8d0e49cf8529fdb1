"""One file of token ids and where its documents lie, read by mapping it into memory.

The file holds, each part filled up to a multiple of 64 bytes: `lt2tokens` and the size of the
header; the header, a JSON object; the ids; where each document begins, and where the last ends
(uint64); how many bytes of text each document was (uint64). All numbers are little-endian.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer, UInt64

from lt2theory.runs import write_bytes

SUFFIX = ".tokens"
VERSION = 1

_MAGIC = b"lt2tokens"
_ALIGN = 64
_DTYPES = ("<u2", "<u4")
_PLACES = np.dtype("<u8")


@dataclass(frozen=True)
class Shard:
    """Documents of one split, mapped into memory.

    Attributes:
        tokens: Ids of all documents, one after the other.
        offsets: Where each document begins in `tokens`, and the end of the last.
        sizes: Bytes of text of each document.
        header: What the file says of itself.
    """

    tokens: Integer[np.ndarray, "n"]
    offsets: UInt64[np.ndarray, "documents_and_one"]
    sizes: UInt64[np.ndarray, "documents"]
    header: dict[str, Any]


def write_shard(
    path: Path,
    documents: Sequence[Integer[np.ndarray, "_"]],
    sizes: Sequence[int],
    *,
    vocab_size: int,
) -> bytes:
    """Write a shard, all or nothing.

    Args:
        path: The file; its folder must exist.
        documents: Ids of every document, at least one; all of one dtype, uint16 or uint32.
        sizes: Bytes of text of every document.
        vocab_size: One more than the largest id.

    Returns:
        The contents of the file.

    Raises:
        DiskFullError: The disk is full; there is no new file then.
    """
    tokens = np.concatenate(documents)
    offsets = np.zeros(len(documents) + 1, dtype=_PLACES)
    np.cumsum([len(document) for document in documents], out=offsets[1:])
    dtype = tokens.dtype.newbyteorder("<")
    header = {
        "version": VERSION,
        "dtype": dtype.str,
        "tokens": len(tokens),
        "documents": len(documents),
        "vocab_size": vocab_size,
    }
    text = json.dumps(header).encode()
    parts = [
        _MAGIC.ljust(16, b"\0") + len(text).to_bytes(8, "little"),
        text,
        tokens.astype(dtype, copy=False).tobytes(),
        offsets.tobytes(),
        np.array(sizes, dtype=_PLACES).tobytes(),
    ]
    data = b"".join(part.ljust(_aligned(len(part)), b"\0") for part in parts)
    write_bytes(path, data)
    return data


def read_shard(path: Path) -> Shard:
    """Map a shard into memory.

    Args:
        path: The file.

    Returns:
        The shard; nothing of the arrays is read yet.

    Raises:
        ValueError: It is missing, no shard, of another version, or shorter or longer than it says.
    """
    header, start = _header(path)
    dtype, tokens, documents = header["dtype"], header["tokens"], header["documents"]
    arrays = []
    for kind, count in ((dtype, tokens), (_PLACES, documents + 1), (_PLACES, documents)):
        width = np.dtype(kind).itemsize
        arrays.append((kind, count, start))
        start += _aligned(count * width)
    found = path.stat().st_size
    if found != start:
        raise ValueError(f"{path} is damaged: {found} bytes where its header says {start}")
    mapped = [_mapped(path, *array) for array in arrays]
    return Shard(mapped[0], mapped[1], mapped[2], header)


def _mapped(path: Path, dtype: Any, count: int, offset: int) -> np.ndarray:
    """An array of a file, read-only; as a plain ndarray, whose slices cost less."""
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=(count,)))


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a shard and where its ids begin.

    Raises:
        ValueError: It is missing, no shard, or one of another version.
    """
    try:
        with path.open("rb") as file:
            first = file.read(_ALIGN)
            size = int.from_bytes(first[16:24], "little")
            if not first.startswith(_MAGIC) or size > 1 << 16:
                raise ValueError(f"{path} is no token shard")
            header = json.loads(file.read(size))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    # Bytes that are no UTF-8 are another kind of ValueError than text that is no JSON.
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged: its header is no JSON") from error
    if not isinstance(header, dict):
        raise ValueError(f"{path} is damaged: its header is no JSON object")
    if header.get("version") != VERSION or header.get("dtype") not in _DTYPES:
        raise ValueError(
            f"{path} is of version {header.get('version')} and dtype {header.get('dtype')}; "
            f"this program reads version {VERSION} and dtypes {', '.join(_DTYPES)}"
        )
    for name in ("tokens", "documents"):
        if type(header.get(name)) is not int or header[name] < 1:
            raise ValueError(f"{path} is damaged: {name} in its header is {header.get(name)!r}")
    return header, _ALIGN + _aligned(size)


def _aligned(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // _ALIGN) * _ALIGN
