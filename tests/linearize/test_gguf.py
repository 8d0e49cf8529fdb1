"""GGUF files: every block format against a scalar reading, a tiny file from end to end."""

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lt2theory.linearize.gguf import GgufFile
from lt2theory.linearize.gguf_blocks import FORMATS, widen
from lt2theory.linearize.gguf_llama import GgufSource, write_folder
from lt2theory.linearize.llama import load_llama
from lt2theory.linearize.weights import FolderSource


def half(data: bytes) -> float:
    return struct.unpack("<e", data)[0]


def nibble(data: bytes, i: int) -> int:
    """Number i of 32: the low halves come first."""
    return data[i] & 15 if i < 16 else data[i - 16] >> 4


def fifth(data: bytes, i: int) -> int:
    return (int.from_bytes(data, "little") >> i & 1) << 4


def six_bits(block: bytes, i: int) -> float:
    part, inner = divmod(i, 128)
    run, at = divmod(inner, 32)
    low, high = block[64 * part : 64 * part + 64], block[128 + 32 * part : 160 + 32 * part]
    four = low[at + 32 * (run % 2)] >> 4 * (run // 2) & 15
    scale = struct.unpack("b", block[192 + 8 * part + 2 * run + at // 16 :][:1])[0]
    return half(block[208:]) * scale * ((four | (high[at] >> 2 * run & 3) << 4) - 32)


SLOW: dict[int, Callable[[bytes, int], float]] = {
    0: lambda b, i: struct.unpack("<f", b)[0],
    1: lambda b, i: half(b),
    2: lambda b, i: half(b[:2]) * (nibble(b[2:], i) - 8),
    3: lambda b, i: half(b[:2]) * nibble(b[4:], i) + half(b[2:4]),
    6: lambda b, i: half(b[:2]) * ((nibble(b[6:], i) | fifth(b[2:6], i)) - 16),
    7: lambda b, i: half(b[:2]) * (nibble(b[8:], i) | fifth(b[4:8], i)) + half(b[2:4]),
    8: lambda b, i: half(b[:2]) * struct.unpack("b", b[2 + i : 3 + i])[0],
    14: six_bits,
    30: lambda b, i: struct.unpack("<f", b"\0\0" + b)[0],
}


@pytest.mark.parametrize("code", FORMATS)
def test_block_formats(code: int) -> None:
    form = FORMATS[code]
    data = np.random.Generator(np.random.Philox(code)).integers(
        0, 256, (5, form.bytes), dtype=np.uint8
    )
    scales = {14: [208], 3: [0, 2], 7: [0, 2]}.get(code, [0])
    for at in scales:  # scales of a usual size, so that no half is infinite
        data[:, at + 1] = (data[:, at + 1] & 0x83) | 0x30
    if code in (0, 30):
        data[:, -1] = 0x3F
    fast = widen(data.reshape(-1), code).reshape(5, form.numbers)
    for block, row in zip(data, fast, strict=True):
        slow = [SLOW[code](block.tobytes(), i) for i in range(form.numbers)]
        np.testing.assert_allclose(row, slow, rtol=1e-6)


def packed(value: Any) -> bytes:
    """One metadata value with its type."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    inner = [packed(one) for one in value]
    return (
        struct.pack("<I", 9)
        + inner[0][:4]
        + struct.pack("<Q", len(inner))
        + b"".join(one[4:] for one in inner)
    )


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def quantised(x: np.ndarray, code: int) -> bytes:
    """Rows as Q4_1, Q8_0 or float32; x must be a multiple of 32 wide for the first two."""
    if code == 0:
        return x.astype("<f4").tobytes()
    out = b""
    for block in x.reshape(-1, 32):
        if code == 3:
            low, step = np.float16(block.min()), np.float16((block.max() - block.min()) / 15)
            q = np.clip(np.round((block - low) / step), 0, 15).astype(np.uint8)
            out += step.tobytes() + low.tobytes() + (q[:16] | q[16:] << 4).tobytes()
        else:
            step = np.float16(np.abs(block).max() / 127)
            q = np.clip(np.round(block / np.float32(step)), -127, 127).astype(np.int8)
            out += step.tobytes() + q.tobytes()
    return out


def write_gguf(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, tuple[np.ndarray, int]]
) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for name, value in metadata.items():
        head += text(name) + packed(value)
    data = b""
    for name, (x, code) in tensors.items():
        data += b"\0" * (-len(data) % 32)
        head += text(name) + struct.pack("<I", x.ndim)
        head += b"".join(struct.pack("<Q", width) for width in reversed(x.shape))
        head += struct.pack("<IQ", code, len(data))
        data += quantised(x, code)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


TOKENS = ["<|end|>", "<|go|>", "a", "b", "c", "1", "2", "ab", "Ġ", "Ġa"]
METADATA = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 64,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 96,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 777.0,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3] + [1] * 8,
    "tokenizer.ggml.merges": ["a b", "Ġ a"],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 0,
}


def tiny_tensors() -> dict[str, tuple[np.ndarray, int]]:
    rng = np.random.Generator(np.random.Philox(9))
    widths = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
    widths |= {"ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96)}
    tensors = {"token_embd.weight": (rng.normal(size=(10, 64)), 8)}
    for layer in range(2):
        for norm in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{norm}.weight"] = (1 + 0.1 * rng.normal(size=64), 0)
        for name, shape in widths.items():
            tensors[f"blk.{layer}.{name}.weight"] = (0.2 * rng.normal(size=shape), 3)
    return tensors | {"output_norm.weight": (1 + 0.1 * rng.normal(size=64), 0)}


def side_by_side(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of rotated halves in the file's order, written out row by row."""
    width = len(x) // heads
    rows = [
        x[h * width + i + half * (width // 2)]
        for h in range(heads)
        for i in range(width // 2)
        for half in (0, 1)
    ]
    return torch.stack(rows)


def test_tiny_file_from_end_to_end(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    tensors = tiny_tensors()
    write_gguf(path, METADATA, tensors)
    source = GgufSource(path)
    assert source.config["rope_theta"] == 777.0
    assert source.config["rms_norm_eps"] == pytest.approx(1e-5, rel=1e-6)
    model = load_llama(source)
    assert model.config.tie_embeddings
    block = model.blocks[1].mixer
    for name, weight, heads in (("attn_q", block.q_proj, 4), ("attn_k", block.k_proj, 2)):
        stored = torch.from_numpy(source.file.read(f"blk.1.{name}.weight").copy())
        assert torch.equal(side_by_side(weight.weight.detach(), heads), stored)
        exact = torch.from_numpy(tensors[f"blk.1.{name}.weight"][0]).float()
        assert (stored - exact).abs().max() < 0.06
    folder = tmp_path / "folder"
    write_folder(source, folder, dtype=torch.float32)
    again = load_llama(FolderSource(folder))
    tokens = torch.randint(0, 10, (1, 12), generator=torch.Generator().manual_seed(0))
    assert again.config == model.config
    assert torch.equal(again(tokens), model(tokens))


def test_its_folder_is_read_by_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write_gguf(tmp_path / "tiny.gguf", METADATA, tiny_tensors())
    source = GgufSource(tmp_path / "tiny.gguf")
    write_folder(source, tmp_path / "folder", dtype=torch.float32)
    config = json.loads((tmp_path / "folder" / "config.json").read_text())
    theirs = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "folder", config=transformers.LlamaConfig(**config), dtype=torch.float32
    )
    tokens = torch.randint(0, 10, (1, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs(tokens).logits
        torch.testing.assert_close(load_llama(source)(tokens), expected, rtol=1e-4, atol=1e-4)


def test_its_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    from lt2theory.training.text.hf_tokenizer import open_hugging_face

    write_gguf(tmp_path / "tiny.gguf", METADATA, tiny_tensors())
    write_folder(GgufSource(tmp_path / "tiny.gguf"), tmp_path / "folder")
    tokenizer = open_hugging_face(str(tmp_path / "folder"))
    assert (tokenizer.begin, tokenizer.end, tokenizer.vocab_size) == (1, 0, 10)
    ids = tokenizer.encode(b"ab a12c")
    assert [TOKENS[i] for i in ids] == ["ab", "Ġa", "1", "2", "c"]
    assert tokenizer.decode(ids) == b"ab a12c"


def changed(metadata: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {**metadata, **{name.replace("__", "."): value for name, value in changes.items()}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general__architecture": "mamba"}, "general.architecture: 'mamba'"),
        ({"llama__rope__scaling__type": "yarn"}, "scaled rotary positions"),
    ],
)
def test_other_architectures_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_gguf(tmp_path / "x.gguf", changed(METADATA, **changes), tiny_tensors())
    with pytest.raises(ValueError, match=message):
        GgufSource(tmp_path / "x.gguf")


def test_unknown_splitting_is_refused(tmp_path: Path) -> None:
    other = changed(METADATA, tokenizer__ggml__pre="llama-bpe")
    write_gguf(tmp_path / "x.gguf", other, tiny_tensors())
    with pytest.raises(ValueError, match="'llama-bpe' is not allowed"):
        GgufSource(tmp_path / "x.gguf").tokenizer()


def test_unknown_tensors_and_formats_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    write_gguf(path, METADATA, {**tiny_tensors(), "blk.0.ssm.weight": (np.ones(32), 0)})
    with pytest.raises(ValueError, match=r"tensor 'blk\.0\.ssm\.weight'"):
        GgufSource(path)
    with pytest.raises(ValueError, match=r"type: 99 .* is not allowed"):
        widen(np.zeros(4, dtype=np.uint8), 99)


def test_cut_files_are_refused_wherever_they_end(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    write_gguf(path, METADATA, tiny_tensors())
    whole = path.read_bytes()
    for length in (0, 3, 10, 40, 300, 900, len(whole) - 40):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"x\.gguf"):
            load_llama(GgufSource(path))
    path.write_bytes(b"GGML" + whole[4:])
    with pytest.raises(ValueError, match="begins with b'GGML'"):
        GgufFile(path)
