"""The public DeepSeek sparse attention: what it means."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lt2theory.ops import (
    INDEXED_ATTENTIONS,
    IndexedInputs,
    explain_indexed_attention,
    indexed_attention,
    indexer_loss,
    run_attention,
    softmax_attention,
)
from lt2theory.ops.sparse.dsa import indexed_problem

BACKENDS = ["reference", "chunked", "auto"]


def tensors(
    length: int = 5,
    num_keys: int = 5,
    dtype: torch.dtype = torch.float64,
    index_heads: int = 3,
) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "q": (2, length, 4, 6),
        "k": (2, num_keys, 2, 6),
        "v": (2, num_keys, 2, 3),
        "index_q": (2, length, index_heads, 4),
        "index_k": (2, num_keys, 4),
        "index_weight": (2, length, index_heads),
    }
    return {
        name: torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        for name, shape in shapes.items()
    }


@pytest.mark.conforms("values", mixer="dsa")
@pytest.mark.parametrize("backend", BACKENDS)
def test_written_out_query_by_query(backend: str) -> None:
    """The report's equations in loops over rows, queries, heads and keys."""
    x = tensors(9, 11)
    found = indexed_attention(**x, top_k=3, backend=backend)
    for b in range(2):
        for t in range(9):
            scores = []
            for s in range(t + 3):
                similar = [
                    (x["index_q"][b, t, n] @ x["index_k"][b, s]).clamp(min=0) for n in (0, 1, 2)
                ]
                scores.append(
                    float(sum(x["index_weight"][b, t, n] * similar[n] for n in (0, 1, 2)))
                )
            chosen = sorted(range(t + 3), key=lambda s: (-scores[s], s))[:3]
            for h in range(4):
                keys, values = x["k"][b, chosen, h // 2], x["v"][b, chosen, h // 2]
                weights = (keys @ x["q"][b, t, h] / 6**0.5).softmax(0)
                torch.testing.assert_close(found[b, t, h], weights @ values, atol=1e-12, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("top_k", [100, 500])
def test_selecting_every_key_is_softmax_attention_bit_for_bit(backend: str, top_k: int) -> None:
    x = tensors(97, 100)
    full = softmax_attention(x["q"], x["k"], x["v"], backend=backend)
    assert torch.equal(indexed_attention(**x, top_k=top_k, backend=backend), full)


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_equal_scores_the_earlier_keys_are_taken(backend: str) -> None:
    x = tensors(130, 130)
    x["index_q"] = torch.zeros_like(x["index_q"])
    found = indexed_attention(**x, top_k=4, backend=backend)
    for t in (0, 3, 4, 70, 129):
        first = slice(0, min(t + 1, 4))
        alone = softmax_attention(
            x["q"][:, t : t + 1], x["k"][:, first], x["v"][:, first], backend="reference"
        )
        torch.testing.assert_close(found[:, t : t + 1], alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["k", "v", "index_k"])
def test_a_later_key_changes_nothing_earlier(backend: str, name: str) -> None:
    """Not even where it would score highest."""
    x = tensors(100, 100)
    before = indexed_attention(**x, top_k=7, backend=backend)
    for position in (1, 63, 64, 99):
        changed = x[name].clone()
        changed[:, position] = 50 * x["index_q"][:, position, 0] if name == "index_k" else 9.0
        after = indexed_attention(**{**x, name: changed}, top_k=7, backend=backend)
        assert torch.equal(before[:, :position], after[:, :position])
        assert not torch.equal(before[:, position:], after[:, position:]) or position < 7


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_of_other_segments_are_not_scored(backend: str) -> None:
    """Packed documents behind padding equal each document alone."""
    x = tensors(90, 90)
    ids = torch.tensor([[-1] * 20 + [0] * 30 + [1] * 40, [3] * 75 + [4] * 15])
    packed = indexed_attention(**x, top_k=5, query_segments=ids, key_segments=ids, backend=backend)
    assert (packed[0, :20] == 0).all()
    for row, start, stop in ((0, 20, 50), (0, 50, 90), (1, 0, 75), (1, 75, 90)):
        part = {name: value[row : row + 1, start:stop] for name, value in x.items()}
        alone = indexed_attention(**part, top_k=5, backend=backend)
        torch.testing.assert_close(packed[row : row + 1, start:stop], alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_keys", [0, 3])
def test_no_queries(backend: str, num_keys: int) -> None:
    x = tensors(0, num_keys)
    assert indexed_attention(**x, top_k=2, backend=backend).shape == (2, 0, 4, 3)
    for kind in ("dense", "sparse"):
        assert indexer_loss(IndexedInputs(**x, top_k=2), kind=kind, backend=backend) == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_selected_and_summed_in_float32(backend: str, dtype: torch.dtype) -> None:
    x = tensors(150, 150, dtype)
    wide = {name: value.float() for name, value in x.items()}
    found = indexed_attention(**x, top_k=9, backend=backend)
    assert found.dtype == dtype
    assert torch.equal(found, indexed_attention(**wide, top_k=9, backend=backend).to(dtype))


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_changes_nothing(backend: str) -> None:
    x = tensors(40, 40, torch.float32)
    o = indexed_attention(**x, top_k=9, backend=backend)
    loss = indexer_loss(IndexedInputs(**x, top_k=9), backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(o, indexed_attention(**x, top_k=9, backend=backend))
        assert torch.equal(loss, indexer_loss(IndexedInputs(**x, top_k=9), backend=backend))


def test_run_attention_knows_the_inputs() -> None:
    x = tensors(40, 44)
    expected = indexed_attention(**x, top_k=3, window=20, scale=0.3)
    inputs = IndexedInputs(**x, top_k=3, window=20, scale=0.3)
    assert torch.equal(run_attention(inputs), expected)
    assert not torch.allclose(expected, indexed_attention(**x, top_k=3, scale=0.3))


def test_choice_of_the_backend() -> None:
    assert INDEXED_ATTENTIONS.names == ("auto", "chunked", "reference", "triton")
    choice = explain_indexed_attention(indexed_problem(IndexedInputs(**tensors(), top_k=2)))
    assert str(choice).startswith("chunked: scores by chunks of queries")


_FLAS = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
from fla.ops.dsa.naive import naive_dsa
x = torch.load(sys.argv[1], weights_only=True)
names = ("q", "k", "v", "index_q", "index_k", "index_weight")
whole = naive_dsa(*(x[name] for name in names), topk=7)
one = [x[name][:1] for name in names]
packed = naive_dsa(*one, topk=7, cu_seqlens=torch.tensor([0, 20, 21, 70]))
torch.save({"whole": whole, "packed": packed}, sys.argv[2])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="FLA is a Linux dependency")
def test_flas_naive_reference_agrees(tmp_path: Path) -> None:
    """It scales the index scores, which changes no choice, and computes in float32.

    Of equal scores it takes any. There are enough heads here that none is zero in all of them.
    """
    x = tensors(70, 70, torch.float32, index_heads=32)
    torch.save(x, tmp_path / "inputs")
    command = [sys.executable, "-c", _FLAS, str(tmp_path / "inputs"), str(tmp_path / "outputs")]
    subprocess.run(command, check=True, capture_output=True)
    theirs = torch.load(tmp_path / "outputs", weights_only=True)
    ids = torch.tensor([[0] * 20 + [1] + [2] * 49])
    segments = {"query_segments": ids, "key_segments": ids}
    one = {name: value[:1] for name, value in x.items()}
    for backend in BACKENDS:
        whole = indexed_attention(**x, top_k=7, backend=backend)
        torch.testing.assert_close(whole, theirs["whole"], atol=1e-5, rtol=0)
        packed = indexed_attention(**one, **segments, top_k=7, backend=backend)
        torch.testing.assert_close(packed, theirs["packed"], atol=1e-5, rtol=0)


def test_a_loss_of_another_kind_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"kind: 'full' is not allowed \(choose from dense, sparse\)"
    ):
        indexer_loss(IndexedInputs(**tensors(), top_k=2), kind="full")
