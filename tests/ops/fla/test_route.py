"""Which kernel of FLA a workload would take on a GPU; nothing is run."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from lt2theory.ops import RECURRENCES, Factors, explain_recurrence, linear_recurrence
from lt2theory.ops import known_faults as faults
from lt2theory.ops.fla import route as module
from lt2theory.ops.selftest_verdicts import Verdict
from lt2theory.ops.triton_delta import route as triton_route
from lt2theory.ops.workload import RecurrenceWorkload

WORKLOAD = RecurrenceWorkload(
    device="cuda",
    dtype=torch.float32,
    length=128,
    num_factors=1,
    num_heads=4,
    key_width=64,
    value_width=64,
    decay="scalar",
    erases=True,
    order="decay_first",
    gradients=True,
    tf32=True,
    architecture="ampere",
)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """FLA 0.6.0 and a chosen Triton, 3.6.0 at first; our own kernels, which come first, away."""
    monkeypatch.setattr(module, "is_installed", lambda: True)
    monkeypatch.setattr(triton_route, "is_installed", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)

    def choose(triton: str) -> None:
        versions = {"triton": triton, "fla-core": "0.6.0"}
        monkeypatch.setattr(faults, "installed_version", lambda package: versions[package])

    choose("3.6.0")
    return choose


@pytest.fixture
def verdict(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[str]]:
    """Decide self-tests without a GPU; returns the kernels that were asked about."""

    def decide(passed: bool) -> list[str]:
        asked: list[str] = []

        def find(shape: object, run: object) -> Verdict:
            asked.append(shape)
            return Verdict(passed, "gradient of k", 1e-3 if passed else 0.5, 5e-3)

        monkeypatch.setattr(module, "find_verdict", find)
        monkeypatch.setattr(
            module.RecurrenceClass, "of", classmethod(lambda cls, kernel, workload: kernel)
        )
        return asked

    return decide


def route(**changes: object) -> str:
    found = module.find_route(replace(WORKLOAD, **changes))
    assert not isinstance(found, str), found
    return found.kernel.name


@pytest.mark.parametrize(
    ("decay", "erases", "dtype", "kernel"),
    [
        ("none", False, torch.float32, "chunk_linear_attn"),
        ("scalar", False, torch.float32, "chunk_simple_gla"),
        ("vector", False, torch.float32, "chunk_gla"),
        ("none", True, torch.float32, "chunk_gated_delta_rule"),
        ("none", True, torch.bfloat16, "chunk_delta_rule"),
        ("scalar", True, torch.bfloat16, "chunk_gated_delta_rule"),
        ("vector", True, torch.float32, "chunk_kda"),
    ],
)
def test_routes(decay: str, erases: bool, dtype: torch.dtype, kernel: str) -> None:
    assert route(decay=decay, erases=erases, dtype=dtype) == kernel


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": "cpu"}, "run on CUDA tensors, not on cpu; move the model or ask for 'chunked'"),
        ({"dtype": torch.float64}, "float32 at most, not torch.float64; ask for 'chunked'"),
        ({"key_width": 257}, "key width 257 exceeds 256; take more, narrower heads"),
        ({"own_write": True}, "with the erase strength beta alone; ask for 'chunked'"),
        ({"decay": "vector", "order": "erase_first"}, "decays before it erases; ask for 'chunked'"),
        ({"transformed": True}, "cannot be transformed by torch.func"),
    ],
)
def test_refusals_say_what_to_do(changes: dict[str, object], reason: str) -> None:
    workload = replace(WORKLOAD, **changes)
    assert reason in str(module.refuses(workload))
    with pytest.raises(ValueError, match="backend 'fla' cannot run this linear_recurrence"):
        RECURRENCES.choose(workload, "fla")
    assert RECURRENCES.choose(workload).backend.name == "chunked"
    assert module.describe(workload) is None


def test_what_commutes_is_not_refused() -> None:
    assert route(order="erase_first") == "chunk_gated_delta_rule"
    assert route(order="erase_first", decay="vector", erases=False) == "chunk_gla"
    assert route(own_write=True, erases=False) == "chunk_simple_gla"


def test_without_fla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_installed", lambda: False)
    assert "are not installed" in str(module.refuses(WORKLOAD))


def test_auto_takes_it_on_a_gpu_and_names_the_kernel() -> None:
    choice = RECURRENCES.choose(WORKLOAD)
    assert str(choice).startswith(
        "fla: FLA's Triton kernels, first derivatives only: chunk_gated_delta_rule; not triton"
    )


def test_auto_does_not_round_float32_unasked() -> None:
    choice = RECURRENCES.choose(replace(WORKLOAD, tf32=False))
    assert choice.backend.name == "chunked"
    assert "would be rounded to TensorFloat-32" in str(choice)
    assert RECURRENCES.choose(replace(WORKLOAD, tf32=False), "fla").backend.name == "fla"
    half = replace(WORKLOAD, tf32=False, dtype=torch.bfloat16)
    assert RECURRENCES.choose(half).backend.name == "fla"


def test_auto_is_reproducible_where_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert "not fla: its autotuner" in str(RECURRENCES.choose(WORKLOAD))


def test_hopper_with_a_failed_self_test(verdict: Callable[[bool], list[str]]) -> None:
    asked = verdict(False)
    hopper = {"architecture": "hopper"}
    found = module.find_route(replace(WORKLOAD, **hopper))
    assert not isinstance(found, str)
    assert (found.kernel.name, found.lifts_guard) == ("chunk_kda", False)
    assert "issues/640" in str(found)
    assert "gradient self-test failed: gradient of k has a relative error 5.0e-01" in str(found)
    assert route(**hopper, erases=False) == "chunk_gla"
    assert asked == ["chunk_gated_delta_rule", "chunk_simple_gla"]


def test_hopper_with_a_passed_self_test(verdict: Callable[[bool], list[str]]) -> None:
    verdict(True)
    found = module.find_route(replace(WORKLOAD, architecture="hopper"))
    assert not isinstance(found, str)
    assert (found.kernel.name, found.lifts_guard) == ("chunk_gated_delta_rule", True)
    assert "gradient self-test passed" in str(
        RECURRENCES.choose(replace(WORKLOAD, architecture="hopper"), "fla")
    )


@pytest.mark.parametrize("erases", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_auto_lifts_no_guard_and_measures_nothing_for_it(
    erases: bool, gradients: bool, verdict: Callable[[bool], list[str]]
) -> None:
    asked = verdict(True)
    choice = RECURRENCES.choose(
        replace(WORKLOAD, architecture="hopper", erases=erases, gradients=gradients)
    )
    assert choice.backend.name == "chunked"
    assert "issues/640): FLA's own guard would have to be lifted" in str(choice)
    assert "the name 'fla' takes it behind a self-test" in str(choice)
    assert asked == []


def test_auto_measures_nothing_where_the_other_kernel_may_hang(
    machine: Callable[[str], None], verdict: Callable[[bool], list[str]]
) -> None:
    machine("3.7.0")
    asked = verdict(False)
    workload = replace(WORKLOAD, architecture="hopper")
    assert RECURRENCES.choose(workload).backend.name == "chunked"
    assert asked == []
    with pytest.raises(ValueError, match="every kernel has a known fault here"):
        RECURRENCES.choose(workload, "fla")
    assert asked == ["chunk_gated_delta_rule"]


def test_a_few_steps_run_no_faulty_backward(verdict: Callable[[bool], list[str]]) -> None:
    asked = verdict(False)
    step = replace(WORKLOAD, architecture="hopper", length=1, gradients=False)
    for erases in (False, True):
        choice = RECURRENCES.choose(replace(step, erases=erases))
        assert choice.backend.name == "fla"
        assert "fused_recurrent_" in str(choice)
    recorded = replace(step, gradients=True)
    assert RECURRENCES.choose(recorded).backend.name != "fla"
    assert RECURRENCES.choose(replace(recorded, erases=False)).backend.name == "fla"
    assert asked == []


@pytest.mark.parametrize("widths", [(8, 8), (16, 64), (64, 16)])
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
def test_auto_takes_no_narrow_heads(widths: tuple[int, int], decay: str) -> None:
    workload = replace(WORKLOAD, key_width=widths[0], value_width=widths[1], decay=decay)
    for erases in (False, True):
        choice = RECURRENCES.choose(replace(workload, erases=erases))
        assert choice.backend.name == "chunked"
        assert "heads of 16 keys or values at most: chunk_gla stopped" in str(choice)
        assert RECURRENCES.choose(replace(workload, erases=erases), "fla").backend.name == "fla"
    wider = replace(workload, key_width=17, value_width=17)
    assert RECURRENCES.choose(wider).backend.name == "fla"


def test_ungated_kernels_need_no_self_test(verdict: Callable[[bool], list[str]]) -> None:
    asked = verdict(False)
    assert route(architecture="hopper", decay="vector") == "chunk_kda"
    assert route(architecture="hopper", decay="none", erases=False) == "chunk_linear_attn"
    assert route(architecture="hopper", decay="none", dtype=torch.float16) == "chunk_delta_rule"
    assert asked == []


def test_no_kernel_is_left(machine: Callable[[str], None]) -> None:
    machine("3.7.1")
    workload = replace(WORKLOAD, decay="vector")
    assert "every kernel has a known fault here; ask for 'chunked'" in str(module.refuses(workload))
    assert RECURRENCES.choose(workload).backend.name == "chunked"
    assert route(architecture="hopper") == "chunk_gated_delta_rule"


@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
def test_few_steps(decay: str) -> None:
    for erases in (False, True):
        step = replace(WORKLOAD, length=1, decay=decay, erases=erases, gradients=False)
        assert "fused_recurrent_" in str(module.describe(step))
        recorded = str(module.describe(replace(step, gradients=True)))
        assert recorded.startswith("chunk_" if erases else "fused_recurrent_")
    assert str(module.describe(replace(step, num_factors=17))).startswith("chunk_")


def test_workloads_of_factors(make_factors: Callable[..., Factors]) -> None:
    factors = make_factors(length=5, decay="vector", beta=0.5, write=True, dtype=torch.float32)
    workload = RecurrenceWorkload.of(factors)
    assert (workload.decay, workload.own_write, workload.gradients) == ("vector", True, False)
    assert (workload.num_heads, workload.architecture, workload.tf32) == (2, "", False)
    recorded = replace(factors, k=factors.k.clone().requires_grad_())
    assert RecurrenceWorkload.of(recorded).gradients
    with torch.no_grad():
        assert not RecurrenceWorkload.of(recorded).gradients
    with torch.autocast("cpu", torch.bfloat16):
        assert RecurrenceWorkload.of(factors).tf32
    seen = []
    torch.func.vmap(lambda q: (seen.append(RecurrenceWorkload.of(factors).transformed), q)[1])(
        factors.q
    )
    assert seen == [True]
    assert not workload.transformed


def test_on_a_cpu_it_says_what_to_do() -> None:
    x = torch.zeros(1, 3, 1, 4)
    with pytest.raises(ValueError, match="run on CUDA tensors, not on cpu"):
        linear_recurrence(x, x, x, backend="fla")


def test_explanation_names_it(make_factors: Callable[..., Factors]) -> None:
    assert "not fla: its Triton kernels run on CUDA" in str(
        explain_recurrence(make_factors(length=64))
    )
