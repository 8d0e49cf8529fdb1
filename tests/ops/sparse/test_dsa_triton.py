"""DeepSeek sparse attention through the Triton kernels, tiles and lists, against float64.

In Triton's interpreter on any machine, and on a GPU where there is one. Index tensors of small
whole numbers make every score exact and most of them ties, so the choices must be equal.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.ops.sparse import dsa_triton, index_launch
from lt2theory.ops.sparse.dsa_reference import (
    IndexedProblem,
    reference_indexed_attention,
    selected_keys,
)
from lt2theory.ops.sparse.dsa_triton import (
    listed_indexed_attention,
    masked_indexed_attention,
    prefers_lists,
)
from lt2theory.ops.sparse.workloads import IndexedWorkload

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
WAYS = {"tiles": masked_indexed_attention, "lists": listed_indexed_attention}
Attend = Callable[[IndexedProblem], Tensor]


def make(
    length: int,
    keys: int,
    *,
    top_k: int,
    groups: int = 2,
    device: str = "cpu",
    segments: bool = False,
) -> IndexedProblem:
    """A problem in float32; segments begin with padding and change twice."""
    rng = torch.Generator().manual_seed(length + top_k)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=rng)

    whole = [
        draw(*size).round().clamp(-1, 1)
        for size in ((2, length, 3, 5), (2, keys, 5), (2, length, 3))
    ]
    ids = None
    if segments:
        ids = torch.stack([torch.arange(keys) // 30 - 1, torch.arange(keys) // 41]).to(device)
    return IndexedProblem(
        *(x.to(device) for x in (draw(2, length, 4, 8), draw(2, keys, groups, 8))),
        draw(2, keys, groups, 6).to(device),
        window=None,
        scale=0.4,
        query_segments=None if ids is None else ids[:, keys - length :],
        key_segments=ids,
        index_q=whole[0].to(device),
        index_k=whole[1].to(device),
        index_weight=whole[2].to(device),
        top_k=top_k,
    )


def cast(problem: IndexedProblem, dtype: torch.dtype) -> IndexedProblem:
    names = ("q", "k", "v", "index_q", "index_k", "index_weight")
    return replace(problem, **{name: getattr(problem, name).to(dtype) for name in names})


def with_gradients(attend: Attend, problem: IndexedProblem) -> list[Tensor]:
    """Output, and gradients of a random projection of it."""
    leaves = {name: getattr(problem, name).clone().requires_grad_() for name in ("q", "k", "v")}
    output = attend(replace(problem, **leaves))
    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    (output * weight.to(output)).sum().backward()
    found = [output.detach(), *(leaf.grad for leaf in leaves.values())]
    return [x for x in found if x is not None]


def compare(attend: Attend, problem: IndexedProblem, bound: float = 2e-5) -> None:
    exact = with_gradients(reference_indexed_attention, cast(problem, torch.float64))
    for found, wanted in zip(with_gradients(attend, problem), exact, strict=True):
        assert found.dtype == problem.q.dtype
        assert (found.double() - wanted).norm() <= bound * max(wanted.norm().item(), 1.0)


@pytest.fixture
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """New memory holds NaN, or the largest whole number."""

    def fill(new: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def poisoned(*args: object, **options: object) -> Tensor:
            x = new(*args, **options)
            return x.fill_(torch.nan if x.is_floating_point() else torch.iinfo(x.dtype).max)

        return poisoned

    for name in ("empty", "empty_like"):
        monkeypatch.setattr(torch, name, fill(getattr(torch, name)))
    monkeypatch.setattr(Tensor, "new_empty", fill(Tensor.new_empty))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("length", "keys", "top_k", "groups"),
    [(1, 1, 1, 4), (1, 67, 9, 1), (17, 17, 1, 2), (67, 67, 5, 4), (31, 131, 40, 1)],
)
@pytest.mark.parametrize("segments", [False, True])
def test_values_and_gradients(
    device: str, way: str, length: int, keys: int, top_k: int, groups: int, segments: bool
) -> None:
    problem = make(length, keys, top_k=top_k, groups=groups, device=device, segments=segments)
    compare(WAYS[way], problem)


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("window", [1, 20])
def test_windows(device: str, way: str, window: int) -> None:
    compare(WAYS[way], replace(make(67, 90, top_k=6, device=device), window=window))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", WAYS)
def test_blocks_of_queries_that_fill_the_buffer(
    device: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two blocks of queries, and rows too long for registers."""
    monkeypatch.setattr(index_launch, "_BUFFER", 1)
    monkeypatch.setattr(index_launch, "_HELD", 64)
    compare(WAYS[way], make(150, 150, top_k=23, device=device, segments=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("held", [2**15, 1], ids=["held", "read again"])
def test_the_choice_is_the_references(
    device: str, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of both signs, zeros of both signs and ties."""
    monkeypatch.setattr(index_launch, "_HELD", held)
    problem = make(67, 67, top_k=7, device=device)
    problem = replace(problem, index_weight=problem.index_weight * 0.37)
    lists = index_launch.selected_keys_lists(index_launch.Indexer.of(problem))
    wanted = selected_keys(problem)
    for row, list_ in zip(wanted.flatten(0, 1), lists.flatten(0, 2), strict=True):
        assert list_[list_ >= 0].tolist() == row.nonzero()[:, 0].tolist()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("way", WAYS)
def test_later_tokens_change_nothing(device: str, way: str) -> None:
    problem = make(67, 67, top_k=5, device=device)
    changed = replace(
        problem,
        **{
            name: torch.cat([getattr(problem, name)[:, :40], getattr(problem, name)[:, 40:] + 3], 1)
            for name in ("q", "k", "v", "index_q", "index_k", "index_weight")
        },
    )
    before, after = WAYS[way](problem), WAYS[way](changed)
    assert torch.equal(before[:, :40], after[:, :40])
    assert not torch.equal(before[:, 40:], after[:, 40:])


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_tiles_are_the_same_to_the_last_bit(device: str) -> None:
    problem = make(67, 67, top_k=9, groups=1, device=device)
    first, second = (with_gradients(masked_indexed_attention, problem) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_lists_where_they_are_short() -> None:
    """Few new tokens, a long text, or many query heads a key head; tiles otherwise."""

    def sized(length: int, keys: int, groups: int, window: int | None = None) -> IndexedWorkload:
        sizes = {"length": length, "num_keys": keys, "num_heads": 16, "key_heads": groups}
        rest = {"key_width": 1, "value_width": 1, "window": window, "segmented": False}
        return IndexedWorkload("cuda", torch.bfloat16, **sizes, **rest, top_k=2048)

    assert prefers_lists(sized(1, 8192, 16))
    assert not prefers_lists(sized(16384, 16384, 16))
    assert prefers_lists(sized(16384, 16384, 1))
    assert prefers_lists(sized(2**20, 2**20, 16))
    assert not prefers_lists(sized(2**20, 2**20, 16, window=4096))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("widths", [(96, 192), (40, 24), (256, 256)], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_wide_heads_on_a_gpu(dtype: torch.dtype, widths: tuple[int, int], way: str) -> None:
    problem = make(321, 555, top_k=100, device="cuda", segments=True)
    rng = torch.Generator().manual_seed(3)
    sizes = {"q": (2, 321, 4, widths[0]), "k": (2, 555, 2, widths[0]), "v": (2, 555, 2, widths[1])}
    drawn = {name: torch.randn(size, generator=rng).cuda() for name, size in sizes.items()}
    problem = cast(replace(problem, **drawn, scale=0.1), dtype)
    compare(WAYS[way], problem, 5e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.gpu
def test_memory_is_linear_in_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_launch, "_BUFFER", 2**20)
    peaks = []
    for length in (4096, 16384):
        problem = make(length, length, top_k=64, device="cuda")
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with_gradients(dsa_triton.masked_indexed_attention, problem)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= 4.5 * peaks[0]
