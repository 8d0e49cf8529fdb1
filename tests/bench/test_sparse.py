"""The work of the sparse attentions by hand, and what is measured on a GPU."""

import pytest
import torch

from lt2theory.bench import sparse
from lt2theory.bench.sparse import Setting, bench_sparse, work_of
from lt2theory.cli import main


def test_work_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "TOP_K", 2)
    monkeypatch.setattr(sparse, "BLOCK_SIZE", 2)
    monkeypatch.setattr(sparse, "NUM_BLOCKS", 1)
    monkeypatch.setattr(sparse, "WINDOW", 1)
    # Five queries: 1, 2, 2, 2 and 2 keys of at most two; 15 pairs to score.
    flops, size = work_of(Setting("dsa", 5))
    assert flops == 2 * (16 * (96 + 192) * 9 + 8 * 64 * 15)
    assert size == 2 * 5 * (16 * (2 * 96 + 2 * 192) + 8 * 64 + 64 + 8)
    # Complete blocks 0, 1, 1, 2 and 2; then the selected keys as above, and the window.
    flops, size = work_of(Setting("nsa", 5, "float32"), both=True)
    assert flops == 2 * 16 * (4 * 96 + 3 * 192) * (6 + 9 + 5)
    assert size == 4 * 5 * (2 * 16 * (2 * 96 + 2 * 192) + 48)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_cpu_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="needs a CUDA device"):
        bench_sparse([Setting("dsa", 16)])
    assert main(["bench", "sparse"]) == 2
    assert "lt2 bench sparse needs a CUDA device" in capsys.readouterr().err


def test_lengths_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sparse", "--lengths", "64", "0"]) == 2
    assert "--lengths: (64, 0) is not allowed (numbers >= 1)" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.parametrize("op", ["dsa", "nsa"])
def test_every_column_on_a_gpu(op: sparse.Op, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "TOP_K", 64)
    table = bench_sparse([Setting(op, 300)], backends=("triton", "chunked", "reference"), repeats=1)
    measured = ["forward_ms", "both_ms", "peak_mib", "forward_gain", "both_gain"]
    assert (table[measured] > 0).all(axis=None)
    assert (table["forward_floor_ms"] < table["both_floor_ms"]).all()
    assert table["score_ms"].notna().tolist() == [op == "dsa", False, False]
