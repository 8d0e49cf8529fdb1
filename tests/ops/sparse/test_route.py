"""What our kernels of the sparse attentions refuse, and when `auto` takes them; none is run."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from lt2theory.ops import BLOCK_ATTENTIONS, INDEXED_ATTENTIONS, selftest
from lt2theory.ops.selftest_verdicts import Verdict
from lt2theory.ops.sparse import route
from lt2theory.ops.sparse.dsa_triton import listed_indexed_attention, masked_indexed_attention
from lt2theory.ops.sparse.selftest import BlockSparseClass, IndexedClass
from lt2theory.ops.sparse.triton_backend import triton_block_sparse
from lt2theory.ops.sparse.workloads import BlockSparseWorkload, IndexedWorkload

SHARED = ("cuda", torch.bfloat16, 131, 131, 4, 64, 64, 20, True, 2)
NATIVE = BlockSparseWorkload(*SHARED, block_size=16, num_blocks=4)
INDEXED = IndexedWorkload(*SHARED, top_k=13, index_heads=3, index_width=16)
BOTH = [(BLOCK_ATTENTIONS, NATIVE), (INDEXED_ATTENTIONS, INDEXED)]
FAILED = Verdict(False, "gradient of k", 0.5, 2e-2)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """The classes and kernels that self-tests were asked for; they pass."""
    found: list[tuple[Any, Any]] = []

    def find(shape: object, run: object) -> Verdict:
        found.append((shape, run))
        return Verdict(True, "output", 1e-3, 2e-2)

    monkeypatch.setattr(route, "is_installed", lambda: True)
    monkeypatch.setattr(route, "find_verdict", find)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"a GPU {index}")
    return found


def test_auto_takes_the_kernels_that_have_passed(asked: list[tuple[Any, Any]]) -> None:
    assert BLOCK_ATTENTIONS.choose(NATIVE).backend.name == "triton"
    shape, run = asked.pop()
    assert run is triton_block_sparse
    assert (shape.kernel, shape.device, shape.device_name) == ("NSA 1", "cuda:0", "a GPU 0")
    sizes = (shape.num_heads, shape.key_heads, shape.key_width, shape.block_size, shape.num_blocks)
    assert sizes == (4, 2, 64, 16, 4)
    assert shape.segmented


def test_tiles_and_lists_have_verdicts_of_their_own(asked: list[tuple[Any, Any]]) -> None:
    for workload in (INDEXED, replace(INDEXED, num_keys=9000, window=None)):
        assert INDEXED_ATTENTIONS.choose(workload).backend.name == "triton"
    tiles, lists = asked
    assert tiles == (IndexedClass.of("DSA by tiles 1", INDEXED), masked_indexed_attention)
    assert lists == (IndexedClass.of("DSA by lists 1", INDEXED), listed_indexed_attention)
    assert INDEXED_ATTENTIONS.choose(replace(INDEXED, top_k=131)).backend.name == "triton"
    assert len(asked) == 2, "of all keys nothing is chosen, and no kernel runs"


@pytest.mark.parametrize(("registry", "workload"), BOTH, ids=["nsa", "dsa"])
@pytest.mark.usefixtures("asked")
def test_auto_does_not_take_what_fails(
    registry: Any, workload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "find_verdict", lambda shape, run: FAILED)
    choice = registry.choose(workload)
    assert choice.backend.name == "chunked"
    assert "not triton: gradient self-test failed: gradient of k has a relative" in str(choice)
    assert registry.choose(workload, "triton").backend.name == "triton"


@pytest.mark.parametrize(("registry", "workload"), BOTH, ids=["nsa", "dsa"])
@pytest.mark.usefixtures("asked")
def test_the_verdict_is_told_once_it_is_known(
    registry: Any, workload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `lt2 doctor` lists it; by its name a backend is taken without a test."""
    passed = Verdict(True, "output", 1e-3, 2e-2)
    monkeypatch.setattr(selftest, "_VERDICTS", {})
    assert "self-test" not in str(registry.choose(workload, "triton"))
    shape = BlockSparseClass if workload is NATIVE else IndexedClass
    kernel = "NSA 1" if workload is NATIVE else "DSA by tiles 1"
    selftest._VERDICTS[shape.of(kernel, workload)] = passed
    for name in ("auto", "triton"):
        assert str(registry.choose(workload, name)).endswith(f": {passed}")


@pytest.mark.parametrize(("registry", "workload"), BOTH, ids=["nsa", "dsa"])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": "cpu"}, "need a CUDA device, the tensors are on cpu"),
        ({"dtype": torch.float64}, r"no torch\.float64; ask for 'chunked'"),
        ({"key_width": 257}, "heads wider than 256 do not fit"),
        ({"transformed": True}, r"cannot be transformed by torch\.func"),
    ],
)
def test_refusals(
    registry: Any,
    workload: Any,
    changes: dict[str, Any],
    reason: str,
    asked: list[tuple[Any, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=reason):
        registry.choose(replace(workload, **changes), "triton")
    assert registry.choose(replace(workload, **changes)).backend.name == "chunked"
    assert not asked


@pytest.mark.parametrize(("registry", "workload"), BOTH, ids=["nsa", "dsa"])
def test_without_triton(
    registry: Any, workload: Any, asked: list[tuple[Any, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "is_installed", lambda: False)
    assert "not triton: triton is not installed" in str(registry.choose(workload))
    assert not asked
