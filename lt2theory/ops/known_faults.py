"""Public faults of FLA's kernels: where they are wrong or hang, and what is done about it.

A row is a fact with a source, not an opinion: it names a kernel, the GPUs and the versions that are
concerned, and the public report. `fla_recurrence` never runs a kernel where a row of this table
says that it is wrong, unless the row allows a self-test of its gradients to decide
(`lt2theory.ops.selftest`).
"""

import importlib.metadata
import re
from dataclasses import dataclass
from functools import cache

_FLA_ISSUES = "https://github.com/fla-org/flash-linear-attention/issues/"


@dataclass(frozen=True)
class VersionRange:
    """Versions from `first` on and before `end`; an empty string leaves a side open."""

    first: str = ""
    end: str = ""

    def __contains__(self, version: object) -> bool:
        numbers = parse_version(str(version))
        after = not self.first or numbers >= parse_version(self.first)
        return after and (not self.end or numbers < parse_version(self.end))

    def __str__(self) -> str:
        sides = [f">= {self.first}"] * bool(self.first) + [f"< {self.end}"] * bool(self.end)
        return ", ".join(sides) or "every version"


@dataclass(frozen=True)
class KnownFault:
    """One fault.

    Attributes:
        kernels: Names of FLA's functions.
        architectures: GPU families concerned; none means all.
        what: What is wrong.
        source: Where it is reported.
        remedy: What to do.
        triton: Versions of Triton concerned.
        fla: Versions of FLA concerned.
        self_test: Whether a gradient self-test may decide that a shape class is right, where the
            backend is asked for by name; `auto` avoids it all the same. Not where the fault hangs
            or corrupts memory: a test would meet just that.
    """

    kernels: tuple[str, ...]
    architectures: tuple[str, ...]
    what: str
    source: str
    remedy: str
    triton: VersionRange = VersionRange()
    fla: VersionRange = VersionRange()
    self_test: bool = False


KNOWN_FAULTS: tuple[KnownFault, ...] = (
    KnownFault(
        kernels=("chunk_simple_gla", "chunk_gated_delta_rule", "chunk_gated_delta_product"),
        architectures=("hopper",),
        triton=VersionRange("3.4.0", "3.7.1"),
        what="wrong gradients of keys, beta and decay: Triton miscompiles the gated backward",
        source=_FLA_ISSUES + "640",
        remedy="Triton 3.7.1; before it, our kernels, or by the name 'fla' those shape classes "
        "whose gradients pass a self-test",
        self_test=True,
    ),
    KnownFault(
        kernels=("chunk_delta_rule", "chunk_gated_delta_product"),
        architectures=("hopper",),
        triton=VersionRange("3.4.0"),
        fla=VersionRange(end="0.6.0"),
        what="wrong gradients of keys and beta at chunks of 64, or an illegal memory access",
        source=_FLA_ISSUES + "984",
        remedy="FLA 0.6.0",
    ),
    KnownFault(
        kernels=("chunk_linear_attn", "chunk_simple_gla", "chunk_gla"),
        architectures=("hopper",),
        fla=VersionRange(end="0.6.0"),
        what="wrong gradients at a scale of exactly 1, which the compiler specialises for",
        source="https://github.com/fla-org/flash-linear-attention/pull/1262",
        remedy="FLA 0.6.0",
    ),
    KnownFault(
        kernels=("chunk_kda",),
        architectures=(),
        triton=VersionRange("3.7.0", "3.8.0"),
        what="training is reported to hang (by one project)",
        source="https://github.com/Sisyphbaous-DT-Project/open-qingyi",
        remedy="Triton 3.6.0, or the backend `chunked`",
    ),
    KnownFault(
        kernels=("chunk_gated_delta_rule", "chunk_gated_delta_product"),
        architectures=("blackwell",),
        what="silent NaN gradients, and reads out of bounds in fused_recurrent_gated_delta_rule",
        source=_FLA_ISSUES + "913",
        remedy="chunk_kda with the decay of a head in every channel",
    ),
    KnownFault(
        kernels=("chunk_gated_delta_rule", "chunk_gated_delta_product"),
        architectures=("blackwell",),
        fla=VersionRange(end="0.6.0"),
        what="the backward can hang while it is autotuned",
        source=_FLA_ISSUES + "999",
        remedy="FLA 0.6.0",
    ),
    KnownFault(
        kernels=("fused_recurrent_kda",),
        architectures=(),
        what="returns a tensor without a gradient, and says nothing",
        source="https://github.com/fla-org/flash-linear-attention/blob/main/"
        "fla/ops/kda/fused_recurrent.py",
        remedy="chunk_kda wherever a gradient is needed",
    ),
    KnownFault(
        kernels=("fused_recurrent_gated_delta_rule",),
        architectures=(),
        what="has no backward (NotImplementedError)",
        source="https://github.com/fla-org/flash-linear-attention/blob/main/"
        "fla/ops/gated_delta_rule/fused_recurrent.py",
        remedy="chunk_gated_delta_rule wherever a gradient is needed",
    ),
    KnownFault(
        kernels=("naive_chunk_kda",),
        architectures=(),
        what="NaN gradients already at decays of e^-5: exponentials before the causal mask",
        source="https://github.com/huggingface/transformers/pull/48455",
        remedy="naive_recurrent_kda, or the backend `reference`",
    ),
)
"""The table. `auto` avoids what it names; docs and the doctor print it."""


def find_faults(
    kernel: str, architecture: str, *, triton: str | None = None, fla: str | None = None
) -> tuple[KnownFault, ...]:
    """The faults that a kernel is known to have on a machine.

    Args:
        kernel: Name of FLA's function.
        architecture: GPU family, or "" on a CPU.
        triton: Version of Triton, or None for the one installed.
        fla: Version of FLA, or None for the one installed.

    Returns:
        The rows that apply; a version that is not installed is in no range.
    """
    triton = installed_version("triton") if triton is None else triton
    fla = installed_version("fla-core") if fla is None else fla
    return tuple(
        fault
        for fault in KNOWN_FAULTS
        if kernel in fault.kernels
        and (not fault.architectures or architecture in fault.architectures)
        and triton in fault.triton
        and fla in fault.fla
    )


@cache
def installed_version(package: str) -> str:
    """Version of an installed package.

    Args:
        package: Name of the distribution.

    Returns:
        Its version, or "" where it is not installed.
    """
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def parse_version(version: str) -> tuple[int, ...]:
    """The release numbers of a version: `3.7.1+cu130` is (3, 7, 1).

    Args:
        version: A version; what follows its release is ignored, so `3.7.1rc1` counts as 3.7.1.

    Returns:
        Three numbers at least, zero where there are none.
    """
    release = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in release.group().split(".")] if release else []
    return tuple(numbers + [0] * (3 - len(numbers)))
