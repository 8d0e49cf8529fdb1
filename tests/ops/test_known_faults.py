import pytest

from lt2theory.ops.fla.kernels import KERNELS
from lt2theory.ops.known_faults import (
    KNOWN_FAULTS,
    VersionRange,
    find_faults,
    installed_version,
    parse_version,
)


def sources(kernel: str, architecture: str, triton: str, fla: str = "0.6.0") -> list[str]:
    found = find_faults(kernel, architecture, triton=triton, fla=fla)
    return [fault.source.rpartition("/")[2] for fault in found]


@pytest.mark.parametrize("triton", ["3.4.0", "3.6.0", "3.7.0", "3.7.0+git"])
@pytest.mark.parametrize("kernel", ["chunk_simple_gla", "chunk_gated_delta_rule"])
def test_the_gated_backward_on_hopper(kernel: str, triton: str) -> None:
    assert sources(kernel, "hopper", triton) == ["640"]
    assert sources(kernel, "ampere", triton) == []


@pytest.mark.parametrize("triton", ["3.3.1", "3.7.1", "3.10.0", "4.0.0"])
def test_other_versions_of_triton_are_right(triton: str) -> None:
    assert sources("chunk_gated_delta_rule", "hopper", triton) == []


def test_other_rows() -> None:
    assert sources("chunk_delta_rule", "hopper", "3.6.0", "0.5.2") == ["984"]
    assert sources("chunk_delta_rule", "hopper", "3.6.0", "0.6.0") == []
    assert sources("chunk_gla", "hopper", "3.6.0", "0.5.2") == ["1262"]
    assert sources("chunk_kda", "", "3.7.1") == ["open-qingyi"]
    assert sources("chunk_kda", "hopper", "3.6.0") == []
    assert sources("chunk_gated_delta_rule", "blackwell", "3.7.1") == ["913"]


def test_only_faults_that_cannot_hang_are_tested() -> None:
    tested = [fault for fault in KNOWN_FAULTS if fault.self_test]
    assert [fault.source.rpartition("/")[2] for fault in tested] == ["640"]


def test_every_row_says_where_it_is_reported_and_what_to_do() -> None:
    for fault in KNOWN_FAULTS:
        assert fault.source.startswith("https://github.com/")
        assert fault.what
        assert fault.remedy
        assert fault.kernels


def test_step_kernels_without_a_gradient_are_in_the_table() -> None:
    # What FLA 0.6.0 does; tests/ops/fla/test_interpreter.py runs the others backwards.
    without = {kernel.step_name for kernel in KERNELS if find_faults(kernel.step_name, "")}
    assert without == {"fused_recurrent_kda", "fused_recurrent_gated_delta_rule"}


def test_versions() -> None:
    assert parse_version("3.7.1+cu130") == (3, 7, 1)
    assert parse_version("3.10") == (3, 10, 0)
    assert parse_version("") == (0, 0, 0)
    assert "3.10.0" in VersionRange("3.9.0", "3.11")
    assert "3.11.0" not in VersionRange("3.9.0", "3.11")
    assert str(VersionRange("3.4.0", "3.7.1")) == ">= 3.4.0, < 3.7.1"
    assert str(VersionRange()) == "every version"
    assert not installed_version("no-such-distribution")
    assert parse_version(installed_version("torch")) >= (2, 7, 0)
