"""LT2's stages (arXiv 2605.20670, section 3.6) beside the study's, under the study's setting.

The paper reports single runs and does not say supervision, layout, optimiser or the range of beta;
so a contradiction is one under the headline setting, and no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from lt2theory.experiments.study_cells import SEEDS
from lt2theory.experiments.study_views import reached_by

PaperVerdict = Literal["agrees here", "differs here", "undecided"]


@dataclass(frozen=True)
class PaperLine:
    """What the paper says of one arm.

    Attributes:
        says: In words.
        label: The study's arm.
        stage: The largest stage that it reports, in swaps.
    """

    says: str
    label: str
    stage: int


LINES = (
    PaperLine("looped softmax stops at 64, whatever T", "recall-softmax-t4", 64),
    PaperLine("looped Full+Window stops at 64, whatever T", "recall-full-window-t4", 64),
    PaperLine("looped NSA reaches 128 (T not said)", "recall-nsa-t4", 128),
    PaperLine("looped GDN+Window is at 32 up to T = 4", "recall-gdn-window-t4", 32),
    PaperLine("looped GDN+Window reaches 128 at T = 8", "recall-gdn-window-t8", 128),
    PaperLine("looped GDN+NSA reaches 128 (T not said)", "recall-gdn-nsa-t4", 128),
    PaperLine("looped Full+GDN reaches 128 (T not said)", "recall-full-gdn-t4", 128),
)


def compared(line: PaperLine, table: pd.DataFrame) -> tuple[PaperVerdict, list[int]]:
    """Hold a line against the study's table.

    Args:
        line: The line.
        table: The table.

    Returns:
        `agrees here` if every seed of at least three reached just this stage, `differs here` if
        every one of at least three reached another, else `undecided`; and the stages reached.
    """
    reached = reached_by(table, line.label)
    return _verdict(line.stage, reached), reached


def _verdict(stage: int, reached: Sequence[int]) -> PaperVerdict:
    if len(reached) < SEEDS:
        return "undecided"
    alike = [found == stage for found in reached]
    return "agrees here" if all(alike) else "undecided" if any(alike) else "differs here"
