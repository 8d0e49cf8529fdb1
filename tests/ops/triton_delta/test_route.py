"""What our kernels of the recurrence refuse, and when `auto` takes them; nothing is run."""

from dataclasses import replace

import pytest
import torch

from lt2theory.ops import RECURRENCES, selftest
from lt2theory.ops import known_faults as faults
from lt2theory.ops.fla import route as fla_route
from lt2theory.ops.selftest_verdicts import Verdict
from lt2theory.ops.triton_delta import route as module
from lt2theory.ops.workload import RecurrenceWorkload

WORKLOAD = RecurrenceWorkload(
    device="cuda",
    dtype=torch.float32,
    length=128,
    num_factors=1,
    num_heads=4,
    key_width=32,
    value_width=32,
    decay="scalar",
    erases=True,
    order="decay_first",
    gradients=True,
    tf32=True,
    architecture="hopper",
)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No FLA, and a self-test that passes; returns the kernels that it was asked about."""
    asked: list[str] = []

    def find(shape: str, run: object) -> Verdict:
        asked.append(shape)
        return Verdict(True, "gradient of k", 1e-3, 5e-3)

    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(module, "is_installed", lambda: True)
    monkeypatch.setattr(fla_route, "is_installed", lambda: False)
    monkeypatch.setattr(module, "find_verdict", find)
    monkeypatch.setattr(module.RecurrenceClass, "of", classmethod(lambda cls, name, workload: name))
    return asked


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("decay", ["none", "scalar"])
@pytest.mark.parametrize("order", ["decay_first", "erase_first"])
def test_auto_takes_them(dtype: torch.dtype, decay: str, order: str, machine: list[str]) -> None:
    choice = RECURRENCES.choose(replace(WORKLOAD, dtype=dtype, decay=decay, order=order))
    assert str(choice).startswith("triton: our Triton kernels for one decay a head")
    assert len(machine) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"device": "cpu"}, "run on CUDA tensors, not on cpu; move the model or ask for 'chunked'"),
        ({"dtype": torch.float64}, "float32 at most, not torch.float64; ask for 'chunked'"),
        ({"decay": "vector"}, "one decay a head, not one a channel; ask for 'fla' or 'chunked'"),
        ({"key_width": 129}, "key width 129 exceeds 128; take more, narrower heads"),
        ({"value_width": 257}, "value width 257 exceeds 256; take more, narrower heads"),
        ({"transformed": True}, "cannot be transformed by torch.func"),
    ],
)
def test_refusals_say_what_to_do(changes: dict[str, object], reason: str) -> None:
    workload = replace(WORKLOAD, **changes)
    assert reason in str(module.refuses(workload))
    with pytest.raises(ValueError, match="backend 'triton' cannot run this linear_recurrence"):
        RECURRENCES.choose(workload, "triton")
    assert RECURRENCES.choose(workload).backend.name == "chunked"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tf32": False}, "float32 products would be rounded to TensorFloat-32"),
        ({"length": 4, "num_factors": 4}, "16 factor steps are fewer than a chunk is worth"),
        ({"erases": False}, "erase and write with one strength"),
        ({"own_write": True}, "erase and write with one strength"),
    ],
)
def test_auto_passes_them_over_and_a_name_does_not(
    changes: dict[str, object], reason: str, machine: list[str]
) -> None:
    workload = replace(WORKLOAD, **changes)
    assert reason in str(RECURRENCES.choose(workload))
    assert RECURRENCES.choose(workload).backend.name != "triton"
    assert RECURRENCES.choose(workload, "triton").backend.name == "triton"
    assert not machine, "nothing is tested that is not asked for"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """FLA 0.6.0 beside Triton 3.6.0, whose self-test is never run."""
    asked: list[str] = []
    versions = {"triton": "3.6.0", "fla-core": "0.6.0"}
    monkeypatch.setattr(fla_route, "is_installed", lambda: True)
    monkeypatch.setattr(fla_route, "find_verdict", lambda shape, run: asked.append(shape))
    monkeypatch.setattr(faults, "installed_version", lambda package: versions[package])
    return asked


@pytest.mark.parametrize("own_write", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_auto_takes_them_without_erasure_where_a_kernel_of_fla_has_a_known_fault(
    own_write: bool, dtype: torch.dtype, installed: list[str], machine: list[str]
) -> None:
    """RetNet and Mamba-2: a decay a head."""
    workload = replace(WORKLOAD, erases=False, own_write=own_write, dtype=dtype)
    assert RECURRENCES.choose(workload).backend.name == "triton"
    assert len(machine) == 1
    elsewhere = RECURRENCES.choose(replace(workload, architecture="ampere"))
    assert elsewhere.backend.name == "fla"
    assert "not triton: it was made for factors that erase" in str(elsewhere)
    assert RECURRENCES.choose(replace(workload, decay="none")).backend.name == "fla"
    assert (len(installed), len(machine)) == (0, 1)


def test_auto_takes_them_for_narrow_heads(installed: list[str]) -> None:
    narrow = replace(WORKLOAD, erases=False, decay="none", key_width=8, value_width=8)
    assert RECURRENCES.choose(narrow).backend.name == "triton"
    gla = RECURRENCES.choose(replace(narrow, decay="vector"))
    assert gla.backend.name == "chunked"
    assert "chunk_gla stopped for heads of 8, filled up to 16" in str(gla)
    assert not installed


def test_the_verdict_is_told_once_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = Verdict(True, "gradient of k", 1e-3, 5e-3)
    assert "self-test" not in str(RECURRENCES.choose(WORKLOAD))
    monkeypatch.setattr(selftest, "_VERDICTS", {"delta_rule 3": passed})
    assert str(RECURRENCES.choose(WORKLOAD)).endswith(f" values a program; {passed}")


def test_a_failed_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = Verdict(False, "gradient of k", 0.5, 5e-3)
    monkeypatch.setattr(module, "find_verdict", lambda shape, run: verdict)
    choice = RECURRENCES.choose(WORKLOAD)
    assert choice.backend.name == "chunked"
    assert "not triton: gradient self-test failed: gradient of k" in str(choice)


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_installed", lambda: False)
    assert "triton is not installed" in str(module.refuses(WORKLOAD))
