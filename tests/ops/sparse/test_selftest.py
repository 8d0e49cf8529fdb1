"""The self-tests of the sparse attentions, with backends made up for the purpose, on a CPU."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lt2theory.ops.selftest import run_self_test
from lt2theory.ops.sparse import nsa_reference
from lt2theory.ops.sparse.dsa_chunked import chunked_indexed_attention
from lt2theory.ops.sparse.dsa_reference import IndexedProblem, reference_indexed_attention
from lt2theory.ops.sparse.dsa_triton import listed_indexed_attention, masked_indexed_attention
from lt2theory.ops.sparse.nsa_chunked import chunked_block_sparse
from lt2theory.ops.sparse.nsa_reference import BlockSparseProblem, reference_block_sparse
from lt2theory.ops.sparse.selftest import BlockSparseClass, IndexedClass
from lt2theory.ops.sparse.triton_backend import triton_block_sparse

HEADS = ("kernel", "cpu", "a device", torch.float32, 4, 2, 8, 6)
NATIVE = BlockSparseClass(*HEADS, segmented=False, block_size=4, num_blocks=4)
INDEXED = IndexedClass(*HEADS, segmented=False, top_k=13, index_heads=3, index_width=8)
EXACT = 1e-5


class _Scaled(torch.autograd.Function):
    """The identity, with a gradient that is wrong by a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


def scaled(problem: Any, name: str) -> Any:
    return replace(problem, **{name: _Scaled.apply(getattr(problem, name), 1.04)})


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1, 1), (1, 12), (4, 5), (16, 2), (64, 16), (4096, 3)], ids=lambda sizes: str(sizes)
)
def test_rounding_does_not_change_the_choice_of_blocks(
    sizes: tuple[int, int], segmented: bool
) -> None:
    """In float32 against float64: a block that changed would leave a thousand times the error."""
    size, blocks = sizes
    shape = replace(NATIVE, segmented=segmented, block_size=size, num_blocks=blocks)
    verdict = run_self_test(shape, chunked_block_sparse)
    assert verdict.passed
    assert verdict.error is not None
    assert verdict.error < EXACT


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("name", ["q", "k", "v", "gates"])
def test_a_wrong_gradient_of_blocks_is_seen(name: str, segmented: bool) -> None:
    verdict = run_self_test(
        replace(NATIVE, segmented=segmented), lambda x: reference_block_sparse(scaled(x, name))
    )
    assert (verdict.passed, verdict.worst) == (False, f"gradient of {name}")
    assert verdict.error == pytest.approx(0.04, rel=0.01)


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize(
    "changes",
    [{"num_blocks": 3}, {"block_size": 5}, {"window": 49}, {"scale": 0.36}],
    ids=str,
)
def test_other_sizes_are_seen(changes: dict[str, Any], segmented: bool) -> None:
    def run(problem: BlockSparseProblem) -> Tensor:
        return reference_block_sparse(replace(problem, **changes))

    assert not run_self_test(replace(NATIVE, segmented=segmented), run).passed


@pytest.mark.parametrize("segmented", [False, True])
def test_the_least_important_blocks_are_seen(
    segmented: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    selected = nsa_reference._selected

    def run(problem: BlockSparseProblem) -> Tensor:
        with monkeypatch.context() as patch:
            patch.setattr(nsa_reference, "_selected", lambda p, weights: selected(p, -weights + 2))
            return reference_block_sparse(problem)

    assert not run_self_test(replace(NATIVE, segmented=segmented), run).passed


@pytest.mark.parametrize("segmented", [False, True])
def test_rounding_does_not_change_the_choice_of_keys(segmented: bool) -> None:
    shape = replace(INDEXED, segmented=segmented)
    verdict = run_self_test(shape, chunked_indexed_attention)
    assert verdict.passed
    assert verdict.error is not None
    assert verdict.error < EXACT


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_wrong_gradient_of_the_indexers_keys_is_seen(name: str, segmented: bool) -> None:
    verdict = run_self_test(
        replace(INDEXED, segmented=segmented),
        lambda x: reference_indexed_attention(scaled(x, name)),
    )
    assert (verdict.passed, verdict.worst) == (False, f"gradient of {name}")


@pytest.mark.parametrize("more", [-1, 1])
def test_a_key_too_few_or_too_many_is_seen(more: int) -> None:
    def run(problem: IndexedProblem) -> Tensor:
        return reference_indexed_attention(replace(problem, top_k=problem.top_k + more))

    assert not run_self_test(INDEXED, run).passed


@pytest.mark.interpreter
@pytest.mark.parametrize("segmented", [False, True])
def test_the_kernels_of_blocks_pass_in_the_interpreter(segmented: bool) -> None:
    """In half precision, where means of keys come in two numbers."""
    how = {"segmented": segmented, "dtype": torch.float16, "num_heads": 2, "key_heads": 1}
    shape = replace(NATIVE, block_size=32, num_blocks=3, **how)
    assert run_self_test(shape, triton_block_sparse).passed


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("segmented", [False, True])
def test_the_kernels_pass_on_a_gpu(segmented: bool, dtype: torch.dtype) -> None:
    how = {"device": "cuda", "segmented": segmented, "dtype": dtype}
    native = replace(NATIVE, block_size=64, num_blocks=16, key_width=96, value_width=192, **how)
    found = [run_self_test(native, triton_block_sparse)]
    indexed = replace(INDEXED, key_width=96, value_width=192, top_k=300, index_width=64, **how)
    found += [
        run_self_test(indexed, run) for run in (masked_indexed_attention, listed_indexed_attention)
    ]
    assert all(verdict.passed for verdict in found), found
