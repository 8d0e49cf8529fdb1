"""FLA's softmax attention against a dense mask in float64.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

from dataclasses import replace

import pytest
import torch

from lt2theory.ops import ATTENTIONS
from lt2theory.ops.attention_reference import AttentionProblem, reference_attention
from lt2theory.ops.fla.attention import fla_attention
from lt2theory.ops.workload import AttentionWorkload


def problem(device: str, *, length: int, keys: int, groups: int, width: int) -> AttentionProblem:
    rng = torch.Generator().manual_seed(length + keys)
    q = torch.randn(2, length, 4, width, generator=rng)
    k, v = (
        torch.randn(2, keys, groups, width, generator=rng),
        torch.randn(2, keys, groups, 6, generator=rng),
    )
    q, k, v = (x.to(device) for x in (q, k, v))
    return AttentionProblem(q, k, v, None, 0.4, None, None)


def segmented(given: AttentionProblem) -> AttentionProblem:
    """A padded row, and one of two documents."""
    keys, length = given.k.shape[1], given.q.shape[1]
    segments = torch.zeros(2, keys, dtype=torch.int64, device=given.k.device)
    segments[0, :3] = -1
    segments[1, keys // 2 :] = 1
    return replace(given, key_segments=segments, query_segments=segments[:, keys - length :])


def compare(given: AttentionProblem, bound: float) -> None:
    names = ("q", "k", "v")
    ours = {n: getattr(given, n).detach().clone().requires_grad_() for n in names}
    exact = {n: getattr(given, n).detach().double().requires_grad_() for n in names}
    found, wanted = (
        fla_attention(replace(given, **ours)),
        reference_attention(replace(given, **exact)),
    )
    weight = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(1)).to(wanted)
    (found.double() * weight).sum().backward()
    (wanted * weight).sum().backward()
    assert (found.double() - wanted).norm() <= bound * wanted.norm()
    # With a window of one token the right gradient of queries and keys is exactly zero.
    largest = max(exact[name].grad.norm() for name in names)
    for name in names:
        gradient, right = ours[name].grad, exact[name].grad
        assert gradient is not None
        assert right is not None
        assert (gradient.double() - right).norm() <= bound * largest, name


def test_a_segment_that_comes_again_is_refused() -> None:
    """It would be cut in two; the definition joins what has one name."""
    given = problem("cpu", length=6, keys=6, groups=4, width=8)
    again = torch.tensor([[0, 0, 1, 1, 2, 2], [0, 1, 1, 0, 0, -1]])
    with pytest.raises(ValueError, match="segment 0 comes again in row 1 after another"):
        fla_attention(replace(given, key_segments=again, query_segments=again))
    other = torch.tensor([[0, 0, 1, 1, 2, 2], [-1, 1, 1, -1, 3, -1]])
    with pytest.raises(ValueError, match="allowed for backend 'fla' is the last part"):
        fla_attention(replace(given, key_segments=other, query_segments=other + 1))


SIZES = [(9, 9, 4, 8), (5, 21, 2, 16), (1, 13, 1, 20), (33, 33, 2, 32)]


@pytest.mark.interpreter
@pytest.mark.usefixtures("fla")
@pytest.mark.parametrize(("length", "keys", "groups", "width"), SIZES)
@pytest.mark.parametrize("window", [None, 1, 4])
@pytest.mark.parametrize("packed", [False, True])
def test_in_the_interpreter(
    length: int, keys: int, groups: int, width: int, window: int | None, packed: bool
) -> None:
    given = replace(
        problem("cpu", length=length, keys=keys, groups=groups, width=width), window=window
    )
    compare(segmented(given) if packed else given, 2e-6)


@pytest.mark.gpu
@pytest.mark.parametrize(("length", "keys", "groups", "width"), [*SIZES, (300, 513, 2, 64)])
@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("packed", [False, True])
def test_on_a_gpu(
    length: int, keys: int, groups: int, width: int, window: int | None, packed: bool
) -> None:
    given = replace(
        problem("cuda", length=length, keys=keys, groups=groups, width=width), window=window
    )
    compare(segmented(given) if packed else given, 5e-3)


def test_it_is_taken_by_name_alone() -> None:
    workload = AttentionWorkload.of(problem("cpu", length=4, keys=4, groups=2, width=16))
    on_gpu = replace(workload, device="cuda")
    assert ATTENTIONS.choose(on_gpu).backend.name == "chunked"
    assert ATTENTIONS.choose(on_gpu, "fla").backend.name == "fla"
    for changes, reason in (
        ({"device": "cpu"}, "need a CUDA device"),
        ({"dtype": torch.float64}, r"no torch\.float64"),
        ({"key_width": 257}, "wider than 256"),
    ):
        with pytest.raises(ValueError, match=reason):
            ATTENTIONS.choose(replace(on_gpu, **changes), "fla")
