"""When the Triton kernels for windows are taken, and their self-test."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lt2theory.ops import (
    ATTENTIONS,
    AttentionProblem,
    attention_triton,
    selftest,
    softmax_attention,
)
from lt2theory.ops.attention_reference import reference_attention
from lt2theory.ops.attention_triton import triton_attention
from lt2theory.ops.selftest import find_verdict, run_self_test
from lt2theory.ops.selftest_attention import AttentionClass
from lt2theory.ops.selftest_verdicts import Verdict
from lt2theory.ops.workload import AttentionWorkload

SHAPE = AttentionClass("kernel", "cpu", "a device", torch.float32, 4, 2, 8, 6, segmented=False)


def make(length: int, window: int, *, dtype: torch.dtype, device: str = "cpu") -> AttentionProblem:
    rng = torch.Generator().manual_seed(0)
    shapes = {"q": (2, length, 4, 64), "k": (2, length, 2, 64), "v": (2, length, 2, 64)}
    drawn = {name: torch.randn(*shape, generator=rng) for name, shape in shapes.items()}
    moved = {name: x.to(device, dtype) for name, x in drawn.items()}
    return AttentionProblem(
        **moved, window=window, scale=0.4, query_segments=None, key_segments=None
    )


@pytest.fixture
def workload() -> AttentionWorkload:
    """As on a GPU."""
    on_cpu = AttentionWorkload.of(make(65, 64, dtype=torch.bfloat16))
    return replace(on_cpu, device="cuda")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the self-test was asked for; it passes."""
    found: list[object] = []

    def find(shape: object, run: object) -> Verdict:
        found.append(shape)
        return Verdict(True, "output", 1e-3, 2e-2)

    monkeypatch.setattr(attention_triton, "find_verdict", find)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"a GPU {index}")
    return found


def test_auto_takes_it_for_more_queries_than_the_window(
    workload: AttentionWorkload, asked: list[object]
) -> None:
    assert ATTENTIONS.choose(workload).backend.name == "triton"
    assert asked == [AttentionClass.of("window 2", workload)]
    short = ATTENTIONS.choose(replace(workload, length=64))
    assert short.backend.name == "chunked"
    assert "not triton: 64 queries are no more than the window's 64 keys" in str(short)
    assert len(asked) == 1


@pytest.mark.usefixtures("asked")
def test_the_verdict_is_told_once_it_is_known(
    workload: AttentionWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = Verdict(True, "output", 1e-3, 2e-2)
    monkeypatch.setattr(selftest, "_VERDICTS", {AttentionClass.of("window 2", workload): passed})
    assert str(ATTENTIONS.choose(workload)).endswith(f"first derivatives only: {passed}")


def test_auto_does_not_take_what_fails_the_self_test(
    workload: AttentionWorkload, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Verdict(False, "gradient of k", 0.5, 2e-2)
    monkeypatch.setattr(attention_triton, "find_verdict", lambda shape, run: failed)
    choice = ATTENTIONS.choose(workload)
    assert choice.backend.name == "chunked"
    assert "not triton: gradient self-test failed: gradient of k" in str(choice)
    assert ATTENTIONS.choose(workload, "triton").backend.name == "triton"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dtype": torch.float64}, r"no torch\.float64"),
        ({"value_width": 257}, "wider than 256"),
        ({"transformed": True}, r"torch\.func"),
    ],
)
def test_refusals(workload: AttentionWorkload, changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ATTENTIONS.choose(replace(workload, **changes), "triton")
    assert ATTENTIONS.choose(replace(workload, **changes)).backend.name == "chunked"


def test_without_a_window_its_name_is_answered_as_auto_is(workload: AttentionWorkload) -> None:
    choice = ATTENTIONS.choose(replace(workload, window=None), "triton")
    assert choice.backend.name == "chunked"
    assert "not triton: its kernels are for windows alone" in str(choice)


class _Scaled(torch.autograd.Function):
    """The identity, with a gradient that is wrong by a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_the_self_test_sees_a_wrong_gradient(name: str, segmented: bool) -> None:
    shape = replace(SHAPE, segmented=segmented)

    def planted(problem: AttentionProblem) -> Tensor:
        wrong = _Scaled.apply(getattr(problem, name), 1.04)
        return reference_attention(replace(problem, **{name: wrong}))

    verdict = run_self_test(shape, planted)
    assert (verdict.passed, verdict.worst) == (False, f"gradient of {name}")
    assert verdict.error == pytest.approx(0.04, rel=0.01)
    assert run_self_test(shape, reference_attention).passed


def test_the_self_test_sees_a_window_too_wide_and_segments_as_runs() -> None:
    wide = run_self_test(
        SHAPE, lambda x: reference_attention(replace(x, window=(x.window or 0) + 1))
    )
    assert not wide.passed

    def by_runs(problem: AttentionProblem) -> Tensor:
        assert problem.key_segments is not None
        changes = problem.key_segments.diff(dim=1, prepend=problem.key_segments[:, :1]) != 0
        runs = torch.where(problem.key_segments < 0, -1, changes.cumsum(1))
        return reference_attention(replace(problem, query_segments=runs, key_segments=runs))

    assert not run_self_test(replace(SHAPE, segmented=True), by_runs).passed


def test_a_verdict_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LT2_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(selftest, "_VERDICTS", {})
    runs: list[int] = []

    def counted(problem: AttentionProblem) -> Tensor:
        runs.append(1)
        return reference_attention(problem)

    first = find_verdict(SHAPE, counted)
    selftest._VERDICTS.clear()
    assert find_verdict(replace(SHAPE, device="cpu:1"), counted) == first
    assert len(runs) == 1
    for changes in ({"key_heads": 4}, {"segmented": True}, {"kernel": "another"}):
        find_verdict(replace(SHAPE, **changes), counted)
    assert len(runs) == 4


@pytest.mark.interpreter
@pytest.mark.parametrize("segmented", [False, True])
def test_the_kernels_pass_in_the_interpreter(segmented: bool) -> None:
    assert run_self_test(replace(SHAPE, segmented=segmented), triton_attention).passed


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_auto_takes_it_on_a_gpu(
    dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The self-test passes here, and `auto` gives the very bits of the kernels."""
    monkeypatch.setenv("LT2_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(selftest, "_VERDICTS", {})
    problem = make(526, 64, dtype=dtype, device="cuda")
    choice = ATTENTIONS.choose(AttentionWorkload.of(problem))
    assert choice.backend.name == "triton", str(choice)
    output = softmax_attention(problem.q, problem.k, problem.v, window=64, scale=0.4)
    assert torch.equal(output, triton_attention(problem))
