import pytest
import torch

from lt2theory.bench.ops import (
    PAPER_SIZE,
    TARGETS,
    Size,
    bench_ops,
    chunk_sizes,
)

SMALL = Size(2, 9, 2, 4)


def test_table_has_a_row_a_method_with_gains():
    table = bench_ops(sizes=(SMALL,), repeats=1, threads=1)
    assert len(table) == 6 * 3 + 2
    assert set(table.method) == {"token_loop", "tight_loop", "chunked", "chunked_bounded"}
    assert (table.milliseconds > 0).all()
    assert (table.milliseconds <= table.median_ms).all()
    assert (table.gain[table.method == "token_loop"] == 1).all()
    assert (table.tight_gain[table.method == "tight_loop"] == 1).all()
    assert table.target.isna().all()
    assert torch.get_num_threads() >= 1


def test_chunk_sizes_leave_out_what_is_longer_than_the_sequence():
    table = chunk_sizes(sizes=(SMALL,), chunks=(2, 8, 16), repeats=1, threads=1)
    assert sorted(set(table.chunk)) == [2, 8]
    assert len(table) == 12


@pytest.mark.slow
def test_promised_gains():
    """Half of what is promised, because tests share the machine with each other."""
    table = bench_ops(sizes=(PAPER_SIZE,), repeats=5, threads=torch.get_num_threads())
    chunked = table[table.method == "chunked"]
    assert chunked.target.tolist() == [TARGETS[decay] for decay in chunked.decay]
    assert (chunked.gain > chunked.target / 2).all()
