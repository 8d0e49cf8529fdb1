"""A question of the demo: runs, predictions registered before them, and an answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lt2theory.report import PredictionRow, Section
from lt2theory.report.style import ArmStyle, arm_styles
from lt2theory.report.views import outcomes
from lt2theory.training import CurriculumConfig


@dataclass(frozen=True)
class Evidence:
    """What the runs of one question left behind.

    Attributes:
        table: Tidy table of its runs (`lt2theory.runs.tables`).
        folders: Folder of every run, by arm and seed.
        card: The task's card.
    """

    table: pd.DataFrame
    folders: Mapping[tuple[str, int], Path]
    card: Mapping[str, object]

    @property
    def looks(self) -> dict[str, ArmStyle]:
        """Look of every arm."""
        return arm_styles(self.table["label"])

    def trained(self, label: str) -> dict[int, Path]:
        """Folders of one arm's models; those of runs that diverged hold nothing to measure.

        Args:
            label: The arm.

        Returns:
            Folder by seed.
        """
        ends = outcomes(self.table)
        kept = ends[(ends["label"] == label) & ~ends["diverged"]]["seed"]
        return {int(seed): self.folders[label, int(seed)] for seed in sorted(kept)}


@dataclass(frozen=True)
class Answer:
    """What came out of a question.

    Attributes:
        sections: Sections of the report.
        predictions: The registered predictions, each with what happened.
    """

    sections: tuple[Section, ...]
    predictions: tuple[PredictionRow, ...]


@dataclass(frozen=True)
class Question:
    """Runs that belong together, and how to read them.

    Attributes:
        name: Short name, also of the folder of its runs.
        configs: The runs.
        answer: Reads the evidence; it may load the trained models, never train.
    """

    name: str
    configs: tuple[CurriculumConfig, ...]
    answer: Callable[[Evidence], Answer]
