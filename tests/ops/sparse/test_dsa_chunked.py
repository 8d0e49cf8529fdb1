"""Chunks against dense masks, in values and gradients, and what they keep in memory."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from lt2theory.ops import IndexedInputs, indexed_attention, indexer_loss

# float64: the same sums in another order.
FLOAT64 = 1e-12

SHAPES = [(1, 1), (1, 90), (7, 7), (64, 64), (65, 65), (130, 131), (97, 300)]
INDEXER = ("index_q", "index_k", "index_weight")


def problem(
    length: int,
    num_keys: int,
    key_heads: int = 2,
    *,
    ties: bool = False,
    dtype: torch.dtype = torch.float64,
) -> dict[str, Tensor]:
    """Random tensors; with ties the index scores are small whole numbers, and mostly equal."""
    generator = torch.Generator().manual_seed(length + num_keys)
    shapes = {
        "q": (2, length, 4, 6),
        "k": (2, num_keys, key_heads, 6),
        "v": (2, num_keys, key_heads, 3),
        "index_q": (2, length, 3, 5),
        "index_k": (2, num_keys, 5),
        "index_weight": (2, length, 3),
    }
    drawn = {
        name: torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        for name, shape in shapes.items()
    }
    if ties:
        drawn |= {name: drawn[name].round().clamp(-1, 1) for name in INDEXER}
    return {name: x.requires_grad_() for name, x in drawn.items()}


def segments(kind: str, length: int, num_keys: int) -> dict[str, Tensor]:
    if kind == "none":
        return {}
    ids = torch.arange(num_keys).repeat(2, 1) // (40 if kind == "documents" else num_keys)
    ids[0, : num_keys // 3] = -1
    if kind == "all padding":
        ids[1] = -1
    return {"query_segments": ids[:, num_keys - length :], "key_segments": ids}


def attended(x: dict[str, Tensor], backend: str, top_k: int, **settings: Any) -> list[Tensor]:
    """Output, and the gradient of a random projection of it to q, k and v."""
    o = indexed_attention(**x, top_k=top_k, backend=backend, **settings)
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o.dtype)
    return [o.detach(), *torch.autograd.grad((o * weights).sum(), [x["q"], x["k"], x["v"]])]


def learnt(
    x: dict[str, Tensor], backend: str, top_k: int, kind: str, **settings: Any
) -> list[Tensor]:
    """The indexer's loss and its gradients."""
    inputs = IndexedInputs(**x, top_k=top_k)
    loss = indexer_loss(inputs, kind=kind, backend=backend, **settings)
    return [loss.detach(), *torch.autograd.grad(loss, [x[name] for name in INDEXER])]


def compare(found: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=FLOAT64, rtol=FLOAT64)


@pytest.mark.parametrize(("length", "num_keys"), SHAPES)
@pytest.mark.parametrize("top_k", [1, 3, 10, 40, 299, 500])
@pytest.mark.parametrize("kind", ["none", "padding", "documents", "all padding"])
def test_attention_equals_reference(length: int, num_keys: int, top_k: int, kind: str) -> None:
    x = problem(length, num_keys)
    settings = segments(kind, length, num_keys)
    compare(attended(x, "chunked", top_k, **settings), attended(x, "reference", top_k, **settings))


@pytest.mark.parametrize(("length", "num_keys"), SHAPES)
@pytest.mark.parametrize("top_k", [1, 3, 10, 40, 500])
@pytest.mark.parametrize("segmented", ["none", "padding", "documents", "all padding"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_loss_equals_reference(
    length: int, num_keys: int, top_k: int, segmented: str, kind: str
) -> None:
    x = problem(length, num_keys)
    settings = segments(segmented, length, num_keys)
    expected = learnt(x, "reference", top_k, kind, **settings)
    compare(learnt(x, "chunked", top_k, kind, **settings), expected)
    # One key leaves nothing to be learnt.
    assert (expected[0] > 0) == (num_keys > 1 and (kind == "dense" or top_k > 1)) or segmented in (
        "padding",
        "all padding",
    )


@pytest.mark.parametrize("top_k", [1, 2, 7, 30])
@pytest.mark.parametrize("kind", ["none", "documents"])
def test_ties_are_broken_alike(top_k: int, kind: str) -> None:
    x = problem(200, 210, ties=True)
    settings = segments(kind, 200, 210)
    compare(attended(x, "chunked", top_k, **settings), attended(x, "reference", top_k, **settings))
    compare(
        learnt(x, "chunked", top_k, "sparse", **settings),
        learnt(x, "reference", top_k, "sparse", **settings),
    )


@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("top_k", [5, 30])
@pytest.mark.parametrize("window", [None, 20])
def test_grouped_heads_and_windows(key_heads: int, top_k: int, window: int | None) -> None:
    x = problem(150, 150, key_heads)
    compare(
        attended(x, "chunked", top_k, window=window),
        attended(x, "reference", top_k, window=window),
    )


@pytest.mark.parametrize("top_k", [5, 60])
def test_float32(top_k: int) -> None:
    x = problem(97, 300, ties=True, dtype=torch.float32)
    wide = {name: value.detach().double().requires_grad_() for name, value in x.items()}
    found, expected = attended(x, "chunked", top_k), attended(wide, "reference", top_k)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, atol=1e-5, rtol=1e-5)


def test_attention_has_second_derivatives_where_it_selects() -> None:
    x = problem(70, 70)
    grads = []
    for backend in ("chunked", "reference"):
        o = indexed_attention(**x, top_k=5, backend=backend)
        (first,) = torch.autograd.grad(o.square().sum(), x["k"], create_graph=True)
        grads.append(torch.autograd.grad(first.square().sum(), [x["q"], x["v"]]))
    compare(list(grads[0]), list(grads[1]))


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_gradients_are_separate(backend: str, kind: str) -> None:
    """The output has none in the indexer, and the loss none in the attention."""
    x = problem(97, 97)
    o = indexed_attention(**x, top_k=5, backend=backend)
    loss = indexer_loss(IndexedInputs(**x, top_k=5), kind=kind, backend=backend)
    of_output = torch.autograd.grad(o.sum(), list(x.values()), allow_unused=True)
    of_loss = torch.autograd.grad(loss, list(x.values()), allow_unused=True)
    for name, a, b in zip(x, of_output, of_loss, strict=True):
        assert (a is None) == (name in INDEXER), name
        assert (b is None) == (name not in INDEXER), name


class Largest(TorchDispatchMode):
    """Counts the numbers of the largest tensor made on the way."""

    numbers = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple) else (result,):
            if isinstance(x, Tensor):
                self.numbers = max(self.numbers, x.numel())
        return result


def attention(x: dict[str, Tensor]) -> Tensor:
    return indexed_attention(**x, top_k=16, backend="chunked").sum()


def dense_loss(x: dict[str, Tensor]) -> Tensor:
    return indexer_loss(IndexedInputs(**x, top_k=16), kind="dense", backend="chunked")


def sparse_loss(x: dict[str, Tensor]) -> Tensor:
    return indexer_loss(IndexedInputs(**x, top_k=16), kind="sparse", backend="chunked")


@pytest.mark.parametrize("run", [attention, dense_loss, sparse_loss])
def test_memory_grows_with_the_length_only(run: Callable[[dict[str, Tensor]], Tensor]) -> None:
    """The largest tensor of a forward and backward pass, and all that waits for the backward."""

    def measure(length: int) -> tuple[int, int]:
        x = problem(length, length)
        saved: dict[int, int] = {}

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage.nbytes()
            return tensor

        with Largest() as mode:
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                result = run(x)
            result.backward()
        return mode.numbers, sum(saved.values())

    shorter, longer = measure(1024), measure(2048)
    assert longer[0] <= 2 * shorter[0]
    assert longer[1] <= 2.2 * shorter[1]  # early queries see fewer keys
