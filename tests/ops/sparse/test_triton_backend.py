"""Sparse attentions through the Triton kernel, against their dense definitions in float64.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lt2theory.ops.sparse.dsa import explain_indexed_attention
from lt2theory.ops.sparse.dsa_reference import IndexedProblem, reference_indexed_attention
from lt2theory.ops.sparse.nsa import explain_block_attention
from lt2theory.ops.sparse.nsa_reference import BlockSparseProblem, reference_block_sparse

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
GIVEN = ("q", "k", "v")


def tensors(*, length: int, keys: int, groups: int, device: str) -> tuple[Any, torch.Generator]:
    rng = torch.Generator().manual_seed(length + groups)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=rng).to(device)

    shapes = {"q": (2, length, 4, 8), "k": (2, keys, groups, 8), "v": (2, keys, groups, 6)}
    given: dict[str, Any] = {name: draw(*shape) for name, shape in shapes.items()}
    given |= {"window": None, "scale": 0.4, "query_segments": None, "key_segments": None}
    return given, rng


def with_segments(problem: Any, *, device: str) -> Any:
    """The first row is padded on the left, the second packs two documents."""
    keys, length = problem.k.shape[1], problem.q.shape[1]
    segments = torch.zeros(2, keys, dtype=torch.int64)
    segments[0, :3] = -1
    segments[1, keys // 2 :] = 1
    segments = segments.to(device)
    return replace(
        problem, key_segments=segments, query_segments=segments[:, keys - length :].clone()
    )


def compare(problem: Any, explain: Any, reference: Any, attend: Any) -> None:
    run = attend(explain(problem, backend="triton").backend.load())
    both = []
    for dtype in (torch.float32, torch.float64):
        leaves = {
            name: getattr(problem, name).detach().to(dtype).requires_grad_() for name in GIVEN
        }
        rest = {
            field.name: value.to(dtype)
            for field in fields(problem)
            if isinstance(value := getattr(problem, field.name), Tensor)
            and value.is_floating_point()
            and field.name not in GIVEN
        }
        runner = run if dtype == torch.float32 else reference
        output = runner(replace(problem, **leaves, **rest))
        weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
        (output * weight.to(output)).sum().backward()
        both.append([output, *(leaf.grad for leaf in leaves.values())])
    for found, wanted in zip(*both, strict=True):
        assert (found.double() - wanted).norm() <= 2e-5 * wanted.norm()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("length", "keys"), [(13, 13), (5, 21)])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("segmented", [False, True])
def test_deepseek(device: str, length: int, keys: int, groups: int, segmented: bool) -> None:
    given, rng = tensors(length=length, keys=keys, groups=groups, device=device)
    for name, shape in {"index_q": (2, length, 3, 4), "index_k": (2, keys, 4)}.items():
        given[name] = torch.randn(*shape, generator=rng).to(device)
    given["index_weight"] = torch.randn(2, length, 3, generator=rng).to(device)
    problem = IndexedProblem(**given, top_k=4)
    problem = with_segments(problem, device=device) if segmented else problem
    compare(
        problem, explain_indexed_attention, reference_indexed_attention, lambda load: load.attend
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("length", "keys"), [(13, 13), (5, 21)])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("segmented", [False, True])
def test_native(device: str, length: int, keys: int, groups: int, segmented: bool) -> None:
    given, rng = tensors(length=length, keys=keys, groups=groups, device=device)
    given["window"] = 4
    gates = torch.rand(2, length, 4, 3, generator=rng).to(device)
    problem = BlockSparseProblem(**given, gates=gates, block_size=3, num_blocks=2)
    problem = with_segments(problem, device=device) if segmented else problem
    compare(problem, explain_block_attention, reference_block_sparse, lambda load: load)
