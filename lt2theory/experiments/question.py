"""A question of the demo: runs, predictions registered before them, and an answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lt2theory.report import PredictionRow, Section
from lt2theory.report.content import Verdict
from lt2theory.report.style import ArmStyle, arm_styles
from lt2theory.report.tables import format_interval
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

    def arm(self, label: str) -> dict[int, Path]:
        """Folders of one arm.

        Args:
            label: The arm.

        Returns:
            Folder by seed.
        """
        return {seed: path for (name, seed), path in self.folders.items() if name == label}


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


def solved_by_arm(outcomes: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Count the seeds that solved every stage.

    Args:
        outcomes: As `lt2theory.report.views.outcomes` makes it.

    Returns:
        Arm -> (seeds that solved, seeds).
    """
    groups = outcomes.groupby("label", sort=False)["solved"]
    return {str(label): (int(solved.sum()), len(solved)) for label, solved in groups}


def verdict(*, agrees: bool, decided: bool = True) -> Verdict:
    """Name the outcome of a prediction.

    Args:
        agrees: What was measured is what was predicted.
        decided: The interval or test excludes the alternative.

    Returns:
        The verdict of the report.
    """
    if not decided:
        return "inconclusive"
    return "as predicted" if agrees else "not as predicted"


def cell(means: pd.DataFrame, label: str, stage: int) -> dict[str, float]:
    """One arm's accuracy at one stage.

    Args:
        means: As `lt2theory.report.seed_summary` makes it, by `label` and `stage`.
        label: The arm.
        stage: The stage.

    Returns:
        `value`, `low` and `high`.
    """
    rows = means[(means["label"] == label) & (means["stage"] == stage)]
    return {name: float(rows[name].iloc[0]) for name in ("value", "low", "high")}


def said(means: pd.DataFrame, label: str, stage: int) -> str:
    """The same in words.

    Args:
        means: As for `cell`.
        label: The arm.
        stage: The stage.

    Returns:
        For instance `0.498 [0.483, 0.513]`.
    """
    found = cell(means, label, stage)
    return format_interval(found["value"], found["low"], found["high"])
