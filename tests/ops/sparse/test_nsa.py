import subprocess
import sys

import pytest
import torch

from lt2theory.ops import (
    BLOCK_ATTENTIONS,
    BlockSparseProblem,
    explain_block_attention,
    native_sparse_attention,
)
from lt2theory.ops.sparse.nsa_reference import selected_keys

BACKENDS = ["reference", "chunked", "auto"]
SIZES = {"block_size": 4, "num_blocks": 2, "window": 3}


def tensors(length=5, num_keys=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, length, 4, 6), (2, num_keys, 2, 6), (2, num_keys, 2, 3), (2, length, 4, 3))
    return [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes]


def test_names():
    assert BLOCK_ATTENTIONS.names == ("auto", "chunked", "reference", "triton")
    q, k, v, gates = tensors()
    problem = BlockSparseProblem(q, k, v, 3, 1.0, None, None, gates, 4, 2)
    assert str(explain_block_attention(problem)).startswith("chunked: gathers the selected blocks")
    assert explain_block_attention(problem, backend="reference").reason == "asked for by name"


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_future_token_is_seen(backend):
    q, k, v, gates = tensors(37, 37)
    before = native_sparse_attention(q, k, v, gates, backend=backend, **SIZES)
    for position in (0, 3, 4, 20, 36):
        other_k, other_v = k.clone(), v.clone()
        other_k[:, position] += 1
        other_v[:, position] -= 1
        after = native_sparse_attention(q, other_k, other_v, gates, backend=backend, **SIZES)
        assert torch.equal(before[:, :position], after[:, :position])
        # The compressed branch reads all complete blocks, so every later query sees the change.
        assert (before[:, position] != after[:, position]).flatten(1).any(-1).all()
        seen = (before != after).flatten(2).any(-1).all(0)
        assert seen[(position // 4 + 1) * 4 - 1 :].all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("segmented", [False, True])
def test_cached_keys_give_the_same_as_the_whole(backend, segmented):
    q, k, v, gates = tensors(50, 50)
    ids = torch.zeros(2, 50, dtype=torch.int64)
    ids[0, 13:], ids[1, :5], ids[1, 41:] = 1, -1, 2

    def run(start, stop):
        extra = {}
        if segmented:
            extra = {"query_segments": ids[:, start:stop], "key_segments": ids[:, :stop]}
        inputs = (q[:, start:stop], k[:, :stop], v[:, :stop], gates[:, start:stop])
        return native_sparse_attention(*inputs, backend=backend, **SIZES, **extra)

    whole = run(0, 50)
    for start, stop in ((0, 1), (0, 20), (20, 21), (21, 21), (21, 50)):
        torch.testing.assert_close(run(start, stop), whole[:, start:stop], atol=1e-12, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_id_that_comes_back_is_another_segment(backend):
    q, k, v, gates = tensors(12, 12)
    outputs = []
    for last in (0, 7):
        ids = torch.tensor([[0] * 5 + [1] * 2 + [last] * 5]).expand(2, 12).contiguous()
        extra = {"query_segments": ids, "key_segments": ids}
        outputs.append(native_sparse_attention(q, k, v, gates, backend=backend, **SIZES, **extra))
    assert torch.equal(*outputs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_keys", [0, 9])
def test_no_queries(backend, num_keys):
    output = native_sparse_attention(*tensors(0, num_keys), backend=backend, **SIZES)
    assert output.shape == (2, 0, 4, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_changes_nothing(backend):
    q, k, v, gates = tensors(21, 21, torch.float32)
    leaf = k.clone().requires_grad_()
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            output = native_sparse_attention(q, leaf, v, gates, backend=backend, **SIZES)
        found.append((output, *torch.autograd.grad(output.square().sum(), leaf)))
    for plain, cast in zip(*found, strict=True):
        assert torch.equal(plain, cast)


def test_selected_keys():
    """Blocks of 4: the own block up to the query, and as many whole earlier ones as there are."""
    q, k, v, gates = tensors(19, 19)
    problem = BlockSparseProblem(q, k, v, 3, 1.0, None, None, gates, 4, 3)
    selected = selected_keys(problem)
    assert selected.shape == (2, 2, 19, 19)
    for query in range(19):
        own = query // 4
        chosen = selected[:, :, query]
        assert chosen[..., 4 * own : query + 1].all()
        assert not chosen[..., query + 1 :].any()
        earlier = chosen[..., : 4 * own].unflatten(-1, (own, 4))
        assert (earlier.all(-1) == earlier.any(-1)).all()
        assert (earlier.all(-1).sum(-1) == min(2, own)).all()


IDS = torch.zeros(2, 5, dtype=torch.int64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.ones(2, 5, 4)}, "q must have 4 axes"),
        ({"k": torch.ones(2, 5, 2, 6)}, "k must be of q's floating dtype torch.float64"),
        ({"gates": torch.ones(2, 5, 4, 2)}, r"gates must have shape \(2, 5, 4, 3\) to match q"),
        ({"gates": torch.ones(2, 5, 4, 3)}, "gates must be torch.float64, got torch.float32"),
        ({"block_size": 0}, "block_size must be at least 1, got 0"),
        ({"num_blocks": 0}, "num_blocks must be at least 1, got 0"),
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"query_segments": IDS}, "key_segments must be given"),
        (
            {"query_segments": IDS, "key_segments": IDS.int()},
            "key_segments must be torch.int64, got torch.int32",
        ),
        (
            {"backend": "flash"},
            "backend of native_sparse_attention: 'flash' is not allowed.*choose from auto",
        ),
    ],
)
def test_wrong_arguments_are_named(change, message):
    given = dict(zip(("q", "k", "v", "gates"), tensors(), strict=True))
    with pytest.raises(ValueError, match=message):
        native_sparse_attention(**{**given, **SIZES, **change})


_FLA = """
import sys, torch, warnings
warnings.simplefilter("ignore")
from fla.ops.nsa.naive import naive_nsa_compression, naive_nsa_selection, naive_nsa_topk
given = torch.load(sys.argv[1], weights_only=True)
q, k, v, size, count = (given[name] for name in ("q", "k", "v", "block_size", "num_blocks"))
# Their pooling is a kernel; a block that is not complete takes part in theirs and is never seen.
pooled_k, pooled_v = (torch.stack([b.mean(1) for b in x.split(size, 1)], 1) for x in (k, v))
compressed, _ = naive_nsa_compression(q, pooled_k, pooled_v, size, 0.5)
blocks = naive_nsa_topk(q, pooled_k, count, size, 0.5)
selected = naive_nsa_selection(q, k, v, given["blocks"], size, 0.5)
torch.save({"compressed": compressed, "blocks": blocks, "selected": selected}, sys.argv[2])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="FLA is a Linux dependency")
@pytest.mark.parametrize("length", [60, 61])
def test_equals_fla(length, tmp_path):
    """In a process of its own, and in float32, to which FLA's definitions cast."""
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(4, length, heads, 8, generator=generator) for heads in (4, 2, 2))
    size, count = 4, 6
    gates = torch.zeros(4, length, 4, 3)
    problem = BlockSparseProblem(q, k, v, 1, 0.5, None, None, gates, size, count)
    read = selected_keys(problem).transpose(1, 2)
    complete = -(-length // size)
    blocks = torch.nn.functional.pad(read, (0, size * complete - length))
    blocks = blocks.unflatten(-1, (complete, size)).any(-1)
    number = torch.arange(complete)
    listed = torch.where(blocks, number, -1).sort(-1, descending=True).values[..., :count]
    given = {"q": q, "k": k, "v": v, "block_size": size, "num_blocks": count, "blocks": listed}
    torch.save(given, tmp_path / "given")
    command = [sys.executable, "-c", _FLA, str(tmp_path / "given"), str(tmp_path / "found")]
    subprocess.run(command, check=True, capture_output=True)
    theirs = torch.load(tmp_path / "found", weights_only=True)
    for branch, name in enumerate(("compressed", "selected")):
        gates[:] = 0
        gates[..., branch] = 1
        for backend in BACKENDS:
            ours = native_sparse_attention(
                q, k, v, gates, block_size=size, num_blocks=count, scale=0.5, backend=backend
            )
            torch.testing.assert_close(ours, theirs[name], atol=1e-5, rtol=1e-5)
    # They force the first block and the one before the query's own as well. Where ours ranks both
    # among the best without that, the choice is the same.
    chosen = (theirs["blocks"][..., None] == number).any(-2)
    own = torch.arange(length)[:, None] // size
    forced = ((number == 0) | (number == own - 1))[:, None]
    alike = (blocks | ~forced).all(-1)
    assert torch.equal(blocks[alike], chosen[alike])
    # Counted only where there was something to choose: more earlier blocks than are selected.
    assert (alike & (own >= count)).sum() > 50
    assert not alike.all()
