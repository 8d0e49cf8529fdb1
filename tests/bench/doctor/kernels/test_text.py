"""What the doctor prints of our kernels: 100 columns, every failure with its reason."""

from lt2theory.bench.doctor.kernels.measure import KernelOutcome
from lt2theory.bench.doctor.kernels.text import (
    kernel_head,
    kernel_rows,
    kernel_summary,
    refused_lines,
)

RIGHT = KernelOutcome("delta rule, reflect", "bfloat16", "right", "", 1e-3, 2e-3, "log_decay", 2e-2,
                      same_bits=True)  # fmt: skip
WRONG = KernelOutcome("delta step", "float32", "wrong", "because " * 40, None, 0.0, "", 2e-5, False)
CRASHED = KernelOutcome("place token", "float32", "crashed", "RuntimeError: no")
REFUSED = KernelOutcome("SwiGLU", "float32", "refused", "no GPU")


def test_rows_stand_under_their_columns() -> None:
    *title, names = kernel_head(7)
    assert "7 checks of 2 random problems each" in " ".join(title)
    (row,) = kernel_rows(RIGHT)
    for name, value in {"values": "1.0e-03", "allowed": "2e-02", "verdict": "right"}.items():
        place = names.index(name)
        end = place + (len(value) if name == "verdict" else len(name))
        assert row[:end].endswith(value)
    assert row[names.index("same bits") :].startswith("yes ")
    lines = [*title, names, row, *kernel_rows(WRONG), *kernel_rows(CRASHED)]
    assert max(map(len, lines)) <= 100
    assert " inf " in kernel_rows(WRONG)[0]
    assert kernel_rows(CRASHED)[1] == "    crashed: RuntimeError: no"


def test_refusals_are_said_once() -> None:
    assert refused_lines([RIGHT]) == []
    (line,) = refused_lines([REFUSED, REFUSED])
    assert line == "our own Triton kernels, not checked: no GPU: SwiGLU"
    said = kernel_summary([RIGHT, RIGHT, REFUSED])
    assert said == "3 checks of kernels: 2 right, 1 refused"
