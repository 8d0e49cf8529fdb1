"""docs/doctor.md shows what results/ holds: the same lines, and the numbers of its prose."""

import json
import re
from pathlib import Path

import pytest

from lt2theory.bench.doctor.choices import Served
from lt2theory.bench.doctor.kernels.measure import KernelOutcome
from lt2theory.bench.doctor.kernels.text import kernel_summary, refused_lines
from lt2theory.bench.doctor.measure import Outcome
from lt2theory.bench.doctor.text import (
    OutcomeTable,
    advice_lines,
    environment_lines,
    served_lines,
    summary_line,
)

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")


def results(device):
    return json.loads((ROOT / "results" / f"doctor-{device}.json").read_text(encoding="utf-8"))


def shown(device):
    """What the program prints of a file, of a CPU's without the table."""
    values = results(device)
    served = [Served.from_json(each) for each in values["served"]]
    outcomes = [Outcome.from_json(each) for each in values["outcomes"]]
    kernels = [KernelOutcome.from_json(each) for each in values.get("kernels", [])]
    table = OutcomeTable()
    rows = table.head(len(outcomes), full=values["full"])
    rows += [line for outcome in outcomes for line in table.rows(outcome)]
    return "\n".join(
        [
            *environment_lines(values["environment"]),
            "",
            *served_lines(served),
            "",
            *(rows if device != "cpu" else []),
            *(refused_lines(kernels) if kernels else []),
            summary_line(outcomes),
            *([kernel_summary(kernels)] if kernels else []),
            "",
            *advice_lines(values["advice"]),
        ]
    )


@pytest.mark.parametrize("device", ["cpu", "h200"])
def test_the_page_shows_the_lines_of_the_file(device):
    blocks = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
    assert shown(device) in blocks


@pytest.mark.parametrize("device", ["cpu", "h200"])
def test_the_prose_says_when_and_how_much(device):
    values = results(device)
    (said,) = re.findall(
        rf"\n{values['date']}, `lt2 doctor`[^\n]*(?:\n[^\n]+)*",
        PAGE.split({"cpu": "## On a CPU", "h200": "## Measured on an H200"}[device])[1].split(
            "\n## "
        )[0],
    )
    words = " ".join(said.split())
    assert f"{values['seconds']} s" in words
    assert f"revision {values['environment']['source']}" in words


def test_the_prose_says_how_far_plain_torch_is_off_to_one_digit():
    worst = {}
    for each in results("cpu")["outcomes"]:
        if each["verdict"] == "right":
            errors = [each["value_error"], each["gradient_error"]]
            kind = (each["dtype"], each["dtype"] != "bfloat16" and each["mixer"] == "mlstm")
            worst[kind] = max(worst.get(kind, 0.0), *(error for error in errors if error))
    said = {kind: f"{value:.0e}".replace("e-0", "e-") for kind, value in worst.items()}
    wanted = (
        f"{said['float32', False]} in float32 and {said['float64', False]} in float64 at most, "
        f"but {said['float32', True]} and {said['float64', True]} for the mLSTM, whose division by "
        f"a small |n^T q| magnifies rounding; {said['bfloat16', False]} in bfloat16"
    )
    assert wanted in " ".join(PAGE.split())
