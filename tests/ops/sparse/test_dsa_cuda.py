"""DeepSeek sparse attention on a CUDA device against the float64 reference on the CPU."""

import pytest
import torch
from torch import Tensor

from lt2theory.ops import IndexedInputs, indexed_attention, indexer_loss

pytestmark = pytest.mark.gpu


def problem(length: int, num_keys: int) -> dict[str, Tensor]:
    """Index tensors of small whole numbers: their scores are exact, so the choices are equal."""
    generator = torch.Generator().manual_seed(length)
    shapes = {
        "q": (2, length, 4, 16),
        "k": (2, num_keys, 2, 16),
        "v": (2, num_keys, 2, 8),
        "index_q": (2, length, 3, 8),
        "index_k": (2, num_keys, 8),
        "index_weight": (2, length, 3),
    }
    drawn = {
        name: torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }
    whole = {name: x.round().clamp(-1, 1) for name, x in drawn.items() if "index" in name}
    return drawn | whole


def run(x: dict[str, Tensor], backend: str, top_k: int, ids: Tensor | None) -> list[Tensor]:
    """Output, losses, and gradients of their sum."""
    leaves = {name: value.clone().requires_grad_() for name, value in x.items()}
    segments = {}
    if ids is not None:
        segments = {
            "query_segments": ids[:, ids.shape[1] - x["q"].shape[1] :],
            "key_segments": ids,
        }
    o = indexed_attention(**leaves, top_k=top_k, backend=backend, **segments)
    inputs = IndexedInputs(**leaves, top_k=top_k)
    losses = [
        indexer_loss(inputs, kind=k, backend=backend, **segments) for k in ("dense", "sparse")
    ]
    (o.square().sum() + losses[0] + losses[1]).backward()
    return [o.detach(), *(x.detach() for x in losses), *(x.grad for x in leaves.values())]


@pytest.mark.parametrize(("length", "num_keys"), [(1, 300), (65, 65), (200, 233)])
@pytest.mark.parametrize("top_k", [1, 9, 64, 400])
@pytest.mark.parametrize("documents", [False, True])
def test_values_and_gradients(length: int, num_keys: int, top_k: int, documents: bool) -> None:
    exact = problem(length, num_keys)
    ids = torch.arange(num_keys).repeat(2, 1) // 70 - 1 if documents else None
    want = run(exact, "reference", top_k, ids)
    for backend in ("chunked", "reference"):
        moved = {name: x.float().cuda() for name, x in exact.items()}
        got = run(moved, backend, top_k, None if ids is None else ids.cuda())
        for a, b in zip(got, want, strict=True):
            # float32 sums of a few hundred terms, against float64
            assert (a.double().cpu() - b).norm() <= 1e-4 * max(b.norm().item(), 1e-3)
