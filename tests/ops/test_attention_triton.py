"""Attention inside a window through the Triton kernels against float64.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.ops import AttentionProblem
from lt2theory.ops.attention_reference import reference_attention
from lt2theory.ops.attention_triton import triton_attention

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
NAMES = ("q", "k", "v")


def make(
    length: int,
    keys: int,
    window: int,
    *,
    device: str = "cpu",
    heads: int = 2,
    groups: int = 1,
    widths: tuple[int, int] = (8, 6),
    segments: str = "none",
) -> AttentionProblem:
    """A problem in float32; `segments` are those of `ids_of`."""
    rng = torch.Generator().manual_seed(length + window)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng).to(device)

    ids = None if segments == "none" else ids_of(segments, keys).to(device)
    return AttentionProblem(
        draw(2, length, heads, widths[0]),
        draw(2, keys, groups, widths[0]),
        draw(2, keys, groups, widths[1]),
        window=window,
        scale=0.4,
        query_segments=None if ids is None else ids[:, keys - length :],
        key_segments=ids,
    )


def ids_of(kind: str, keys: int) -> Tensor:
    """Padding in front and documents behind; segments that come back; a row of padding alone."""
    index = torch.arange(keys)
    ids = torch.stack([index // 13 - (index < 5).long(), index // 3 % 2])
    if kind == "holes":
        ids[1, index % 4 == 1] = -1
        ids[0, index % 7 == 3] = -5
    if kind == "all padding":
        ids[1] = -1
    return ids


def cast(problem: AttentionProblem, dtype: torch.dtype) -> AttentionProblem:
    return replace(problem, **{name: getattr(problem, name).to(dtype) for name in NAMES})


def with_gradients(
    run: Callable[[AttentionProblem], Tensor], problem: AttentionProblem
) -> list[Tensor]:
    """Output, and gradients of a random projection of it."""
    leaves = {name: getattr(problem, name).clone().requires_grad_() for name in NAMES}
    output = run(replace(problem, **leaves))
    weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    (output * weight.to(output)).sum().backward()
    found = [output.detach(), *(leaf.grad for leaf in leaves.values())]
    return [x for x in found if x is not None]


def compare(problem: AttentionProblem, bound: float = 2e-5) -> list[Tensor]:
    exact = with_gradients(reference_attention, cast(problem, torch.float64))
    ours = with_gradients(triton_attention, problem)
    for name, found, wanted in zip(("o", *NAMES), ours, exact, strict=True):
        assert found.dtype == problem.q.dtype
        error = (found.double() - wanted).norm()
        assert error <= bound * max(wanted.norm().item(), 1.0), f"{name}: {error}"
    return ours


@pytest.fixture
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """New memory holds NaN, or the largest whole number."""

    def fill(new: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def poisoned(*args: object, **options: object) -> Tensor:
            x = new(*args, **options)
            return x.fill_(torch.nan if x.is_floating_point() else torch.iinfo(x.dtype).max)

        return poisoned

    monkeypatch.setattr(torch, "empty_like", fill(torch.empty_like))
    monkeypatch.setattr(Tensor, "new_empty", fill(Tensor.new_empty))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("length", "keys"), [(1, 91), (2, 2), (67, 67), (131, 131), (35, 150)])
@pytest.mark.parametrize("window", [1, 7, 64, 65, 500])
@pytest.mark.parametrize("segments", ["none", "documents"])
def test_values_and_gradients(
    device: str, length: int, keys: int, window: int, segments: str
) -> None:
    """Keys before the first query's window, tiles with a rest, a window wider than all keys."""
    compare(make(length, keys, window, device=device, segments=segments))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("segments", ["holes", "all padding"])
@pytest.mark.parametrize(("length", "keys"), [(70, 70), (33, 75)])
def test_padding_has_zeros(device: str, segments: str, length: int, keys: int) -> None:
    problem = make(length, keys, 20, device=device, segments=segments)
    output, of_queries, _, of_values = compare(problem)
    assert problem.query_segments is not None
    assert problem.key_segments is not None
    padding = problem.query_segments < 0
    assert padding.any()
    assert (output[padding] == 0).all()
    assert (of_queries[padding] == 0).all()
    assert (of_values[problem.key_segments < 0] == 0).all()


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (3, 1), (2, 2)])
def test_widths_and_groups(device: str, heads: int, groups: int) -> None:
    """Keys of 96 and values of 192 are cut in tiles of 128 and 256, with a rest."""
    compare(make(75, 75, 33, device=device, heads=heads, groups=groups, widths=(96, 192)))


@pytest.mark.usefixtures("_poisoned")
@pytest.mark.parametrize("device", DEVICES)
def test_heads_that_do_not_lie_one_after_the_other(device: str) -> None:
    """Views of one projection, and a gradient that is expanded."""
    problem = make(41, 41, 9, device=device, groups=2, widths=(8, 8))
    joined = torch.stack([problem.q, problem.k, problem.v], 3)
    views = {name: joined[:, :, :, i].detach().requires_grad_() for i, name in enumerate(NAMES)}
    apart = {name: x.detach().contiguous().requires_grad_() for name, x in views.items()}
    outputs = [triton_attention(replace(problem, **given)) for given in (views, apart)]
    assert torch.equal(*outputs)
    for output in outputs:
        output.sum().backward()
    assert all(torch.equal(views[name].grad, apart[name].grad) for name in NAMES)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_not_there_is_no_problem(device: str) -> None:
    problem = make(20, 20, 6, device=device)
    assert triton_attention(replace(problem, q=problem.q[:, :0])).shape == (2, 0, 2, 6)
    none = {name: getattr(problem, name)[:0] for name in NAMES}
    assert triton_attention(replace(problem, **none)).shape == (0, 20, 2, 6)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_the_same_to_the_last_bit(device: str) -> None:
    problem = make(70, 70, 40, device=device)
    first, second = (with_gradients(triton_attention, problem) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_no_second_derivatives(device: str) -> None:
    problem = make(20, 20, 6, device=device)
    q = problem.q.requires_grad_()
    (first,) = torch.autograd.grad(
        triton_attention(replace(problem, q=q)).square().sum(), q, create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("widths", [(64, 64), (96, 192), (40, 24), (128, 256), (256, 256)], ids=str)
@pytest.mark.parametrize("segments", ["none", "holes"])
def test_on_a_gpu(dtype: torch.dtype, widths: tuple[int, int], segments: str) -> None:
    problem = make(321, 555, 100, device="cuda", widths=widths, segments=segments)
    problem = cast(replace(problem, scale=0.1), dtype)
    compare(problem, 5e-5 if dtype == torch.float32 else 1e-2)


@pytest.mark.gpu
def test_memory_is_linear_in_the_length() -> None:
    peaks = []
    for length in (4096, 16384):
        problem = make(length, length, 512, device="cuda", widths=(32, 32))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with_gradients(triton_attention, problem)
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= 4.5 * peaks[0]
