"""What was predicted of the study before it ran, and how its table judges it.

`implied by` an id of the ledger: the claim says so of the solutions named under `provided`; a model
that learns another kind of solution may still do otherwise. `expected, not implied`: no claim says
so, though one may say that a solution exists. Nothing here has seen a result of the study.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from lt2theory.experiments.judgement import verdict
from lt2theory.report import PredictionRow

EXPECTED = "expected, not implied"
UNRUN = "Not run yet."


@dataclass(frozen=True)
class Judged:
    """What a table says of a prediction.

    Attributes:
        findings: Its statements, each held, broken or open.
        said: The numbers.
    """

    findings: tuple[bool | None, ...]
    said: str


@dataclass(frozen=True)
class Prediction:
    """One prediction.

    Attributes:
        name: Short name.
        claim: What is predicted.
        basis: `implied by <claim id>` or `expected, not implied`.
        rule: What decides, in words; `judge` carries it out.
        judge: From a study's table to findings.
        provided: What the claim behind it assumes of the solutions; "" where nothing is implied.
    """

    name: str
    claim: str
    basis: str
    rule: str
    judge: Callable[[pd.DataFrame], Judged]
    provided: str = ""

    def __post_init__(self) -> None:
        """Check that what is implied says of which solutions.

        Raises:
            ValueError: The basis is of another form, or `provided` does not go with it.
        """
        implied = self.basis.startswith("implied by ")
        if not implied and self.basis != EXPECTED:
            raise ValueError(
                f"basis: got {self.basis!r}, allowed are 'implied by <claim id>' and {EXPECTED!r}"
            )
        if implied != bool(self.provided):
            raise ValueError(f"provided: got {self.provided!r} with basis {self.basis!r}")


def judged(prediction: Prediction, table: pd.DataFrame) -> PredictionRow:
    """Hold a prediction against a study's table.

    Args:
        prediction: The prediction.
        table: The table; it may be empty.

    Returns:
        The prediction with what happened; inconclusive while a statement is open.
    """
    found = prediction.judge(table) if len(table) else Judged((None,), UNRUN)
    basis = prediction.basis + (f", for {prediction.provided}" if prediction.provided else "")
    return PredictionRow(prediction.claim, basis, found.said, verdict(*found.findings))


def predictions() -> tuple[Prediction, ...]:
    """All predictions, in the order of the blocks.

    Returns:
        Those of state-based recall, of word problems and parity, and of ranks.
    """
    from lt2theory.experiments.study_predictions_recall import recall_predictions
    from lt2theory.experiments.study_predictions_words import word_predictions

    return (*recall_predictions(), *word_predictions())
