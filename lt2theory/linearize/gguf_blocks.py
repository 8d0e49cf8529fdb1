"""The block formats in which GGUF files keep weights, widened to float32 with numpy.

A block holds a run of consecutive numbers of one row as small integers with a scale (and an offset
or several scales) of their own. Layouts as llama.cpp's `ggml-common.h` defines them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, UInt8

_Blocks = UInt8[np.ndarray, "blocks bytes"]
_Numbers = Float32[np.ndarray, "blocks numbers"]


@dataclass(frozen=True)
class BlockFormat:
    """How one kind of tensor is stored.

    Attributes:
        name: Its name in llama.cpp.
        numbers: Numbers of a block.
        bytes: Bytes of a block.
        widen: Blocks `[n bytes]` -> numbers `[n numbers]` in float32.
    """

    name: str
    numbers: int
    bytes: int
    widen: Callable[[_Blocks], _Numbers]


def widen(data: UInt8[np.ndarray, "bytes"], code: int) -> Float32[np.ndarray, "numbers"]:
    """The numbers of a tensor.

    Args:
        data: Its bytes.
        code: Its type in the file.

    Returns:
        All numbers in order, float32.

    Raises:
        ValueError: The type is none of `FORMATS`, or the bytes are no whole blocks.
    """
    form = block_format(code)
    if len(data) % form.bytes:
        raise ValueError(f"data: {len(data)} bytes are no whole blocks of {form.name}")
    return form.widen(data.reshape(-1, form.bytes)).reshape(-1)


def block_format(code: int) -> BlockFormat:
    """Look a format up.

    Args:
        code: Type of a tensor in the file.

    Returns:
        The format.

    Raises:
        ValueError: It is none of `FORMATS`.
    """
    if code not in FORMATS:
        allowed = ", ".join(f"{number} ({form.name})" for number, form in FORMATS.items())
        raise ValueError(f"type: {code} of a GGUF tensor is not allowed (one of {allowed})")
    return FORMATS[code]


def _float32(blocks: _Blocks) -> _Numbers:
    return blocks.copy().view("<f4").astype(np.float32)


def _float16(blocks: _Blocks) -> _Numbers:
    return blocks.copy().view("<f2").astype(np.float32)


def _bfloat16(blocks: _Blocks) -> _Numbers:
    high = blocks.copy().view("<u2").astype(np.uint32) << 16
    return high.view(np.float32)


def _halves(blocks: _Blocks) -> UInt8[np.ndarray, "blocks 32"]:
    """Low halves of 16 bytes, then their high halves."""
    return np.concatenate([blocks & 15, blocks >> 4], 1)


def _fifth_bits(blocks: _Blocks) -> UInt8[np.ndarray, "blocks 32"]:
    """One bit for each number, from the lowest on, in the place of a fifth."""
    return np.unpackbits(blocks, axis=1, bitorder="little") << 4


def _q4_0(blocks: _Blocks) -> _Numbers:
    return _float16(blocks[:, :2]) * (_halves(blocks[:, 2:]).astype(np.float32) - 8)


def _q4_1(blocks: _Blocks) -> _Numbers:
    numbers: _Numbers = _float16(blocks[:, :2]) * _halves(blocks[:, 4:]) + _float16(blocks[:, 2:4])
    return numbers


def _q5_0(blocks: _Blocks) -> _Numbers:
    whole = _halves(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    numbers: _Numbers = _float16(blocks[:, :2]) * (whole.astype(np.float32) - 16)
    return numbers


def _q5_1(blocks: _Blocks) -> _Numbers:
    whole = _halves(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    numbers: _Numbers = _float16(blocks[:, :2]) * whole + _float16(blocks[:, 2:4])
    return numbers


def _q8_0(blocks: _Blocks) -> _Numbers:
    numbers: _Numbers = _float16(blocks[:, :2]) * blocks[:, 2:].view(np.int8)
    return numbers


def _q6_k(blocks: _Blocks) -> _Numbers:
    """256 numbers of six bits: two halves of four runs of 32, a scale to every 16."""
    low = blocks[:, :128].reshape(-1, 2, 2, 32)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    scales = blocks[:, 192:208].view(np.int8).reshape(-1, 2, 4, 2, 1)
    four = np.concatenate([low & 15, low >> 4], 2)
    two = np.concatenate([(high >> shift) & 3 for shift in (0, 2, 4, 6)], 2)
    whole = (four | (two << 4)).astype(np.float32) - 32
    scaled = whole.reshape(-1, 2, 4, 2, 16) * scales
    numbers: _Numbers = scaled.reshape(len(blocks), 256) * _float16(blocks[:, 208:])
    return numbers


FORMATS = {
    0: BlockFormat("F32", 1, 4, _float32),
    1: BlockFormat("F16", 1, 2, _float16),
    2: BlockFormat("Q4_0", 32, 18, _q4_0),
    3: BlockFormat("Q4_1", 32, 20, _q4_1),
    6: BlockFormat("Q5_0", 32, 22, _q5_0),
    7: BlockFormat("Q5_1", 32, 24, _q5_1),
    8: BlockFormat("Q8_0", 32, 34, _q8_0),
    14: BlockFormat("Q6_K", 256, 210, _q6_k),
    30: BlockFormat("BF16", 1, 2, _bfloat16),
}
"""Formats by their number in a file."""
