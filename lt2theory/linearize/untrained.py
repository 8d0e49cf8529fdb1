"""What a student is worth before any training, for each way of starting it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from jaxtyping import Int
from torch import Tensor

from lt2theory.linearize.construct import build_student
from lt2theory.linearize.divergence import recovery
from lt2theory.linearize.hybrids import student_config
from lt2theory.linearize.starts import STUDENT_MIXERS, Start
from lt2theory.models import LoopedModel


@dataclass(frozen=True)
class Case:
    """One way of making a student.

    Attributes:
        pattern: Its mixers.
        start: How they start.
        changes: Fields of its config that differ from the teacher's, such as `linear_rotation`.
    """

    pattern: str
    start: Start = field(default_factory=Start)
    changes: dict[str, Any] = field(default_factory=dict)


def axis_cases(
    patterns: Iterable[str] = STUDENT_MIXERS, start: Start | None = None
) -> tuple[Case, ...]:
    """Every mixer from one start, and from that start with one choice changed at a time.

    Args:
        patterns: Mixers.
        start: The start that the others are compared with; None for `Start()`.

    Returns:
        For each mixer the start itself, then each change: nothing set, rotation on and off, decays
        drawn and from the attention, gates open and drawn, outputs as copied and scaled, fits on
        the student's own stream, small values, convolutions drawn and left out.
    """
    base = Start() if start is None else start
    nothing: dict[str, Any] = {
        "conv": "own",
        "feature_map": "own",
        "decay": "own",
        "beta": "own",
        "gate": "own",
        "output": "copied",
    }
    changes: list[dict[str, Any]] = [{}, {**nothing, "copied": False}, nothing]
    changes += [{"decay": how} for how in ("own", "attention")]
    changes += [{"gate": how} for how in ("open", "own")]
    changes += [{"output": how} for how in ("copied", "scaled")]
    changes += [{"inputs": "student"}, {"value_scale": 0.1}, {"conv": "own"}]
    starts = [Start.model_validate({**base.model_dump(), **change}) for change in changes]
    cases = []
    for pattern in patterns:
        cases += [Case(pattern, one) for one in starts]
        cases += [Case(pattern, base, {"linear_rotation": how}) for how in ("on", "off")]
        cases.append(Case(pattern, base, {"conv_width": 0}))
    return tuple(cases)


def untrained_table(
    teacher: LoopedModel,
    cases: Iterable[Case],
    *,
    calibration: Int[Tensor, "c n"],
    tokens: Int[Tensor, "b t"],
) -> pd.DataFrame:
    """Make every student and measure it.

    Args:
        teacher: The teacher.
        cases: The students.
        calibration: Text for what is fitted.
        tokens: Other text, to measure on.

    Returns:
        A row a case: its pattern, the fields of its start, the changes of its config
        (`linear_rotation`, `conv_width`), then `kl`, `loss`, `teacher_loss`, `agreement`
        (`lt2theory.linearize.divergence.Recovery`), and the means over layers of `cosine`,
        `error` and `gate_fit` on the calibration text (`Alignment`; NaN where nothing is fitted).

    Raises:
        ValueError: As `build_student` and `recovery`.
    """
    rows = []
    for case in cases:
        config = student_config(teacher.config, case.pattern, **case.changes)
        student = build_student(teacher, config, case.start, calibration=calibration)
        found = pd.DataFrame(
            [vars(one) for one in student.alignments], columns=["cosine", "error", "gate_fit"]
        ).astype(float)
        row: dict[str, Any] = {"pattern": case.pattern, **_told(case.start)}
        row |= {"linear_rotation": config.linear_rotation, "conv_width": config.conv_width}
        row |= recovery(teacher, student.model.eval(), tokens).model_dump()
        for name in found:
            row[str(name)] = float(found[name].mean())
        rows.append(row)
    return pd.DataFrame(rows)


def _told(start: Start) -> dict[str, Any]:
    """Fields of a start, one number or word each."""
    told = start.model_dump()
    shortest, longest = told.pop("half_lives")
    return {**told, "shortest_half_life": shortest, "longest_half_life": longest}
