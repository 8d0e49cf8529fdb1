"""Shards: a round trip, and damage found when they are opened."""

from pathlib import Path

import numpy as np
import pytest

from lt2theory.training.text.shards import read_shard, write_shard


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
@pytest.mark.parametrize("lengths", [[1], [2, 31, 3], [0, 5, 0], [64] * 7, [1000, 1, 1]])
def test_round_trip(
    dtype: type[np.unsignedinteger], lengths: list[int], tmp_path: Path, rng: np.random.Generator
) -> None:
    documents = [rng.integers(0, 60000, length).astype(dtype) for length in lengths]
    path = tmp_path / "a.tokens"
    data = write_shard(path, documents, lengths, vocab_size=60000)
    assert path.read_bytes() == data
    shard = read_shard(path)
    assert shard.tokens.dtype == dtype
    assert shard.sizes.tolist() == lengths
    bounds = shard.offsets.astype(int)
    for start, stop, document in zip(bounds[:-1], bounds[1:], documents, strict=True):
        assert np.array_equal(shard.tokens[start:stop], document)


def test_mapped_arrays_cannot_be_written(tmp_path: Path) -> None:
    write_shard(tmp_path / "a.tokens", [np.zeros(3, dtype=np.uint16)], [3], vocab_size=4)
    with pytest.raises(ValueError, match="read-only"):
        read_shard(tmp_path / "a.tokens").tokens[0] = 1


def test_damage_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.tokens"
    data = write_shard(path, [np.zeros(100, dtype=np.uint16)], [3], vocab_size=4)
    for wrong, message in (
        (data[:-1], "is damaged: "),
        (data + b"\0" * 64, "is damaged: "),
        (b"x" + data[1:], "is no token shard"),
        (b"", "is no token shard"),
        (data.replace(b'"version": 1', b'"version": 7'), "is of version 7 and dtype <u2; "),
        (data.replace(b'"version"', b'"version'), "its header is no JSON"),
        (data.replace(b'"version"', b'"\xffersion"'), "its header is no JSON"),
        (data.replace(b'"tokens"', b'"tokenz"'), "damaged: tokens in its header is None"),
        (data.replace(b'"documents": 1', b'"documents":-1'), "documents in its header is -1"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=message):
            read_shard(path)
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_shard(tmp_path / "b.tokens")
