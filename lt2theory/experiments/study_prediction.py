"""A prediction of a study, registered before it ran: what it says, rests on, and comes to.

`implied by` a claim of the ledger, by its id and title: it says so of the solutions named under
`provided`; a model that learns another kind of solution may still do otherwise. `expected, not
implied`: no claim says so, though one may say that a solution exists.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from lt2theory.experiments.judgement import verdict
from lt2theory.report import PredictionRow
from lt2theory.report.content import Verdict

EXPECTED = "expected, not implied"
UNRUN = "Not run yet."
VERDICTS: dict[Verdict, str] = {
    "as predicted": "kept",
    "not as predicted": "**broken**",
    "inconclusive": "undecided",
}
"""As pages of studies word them."""


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
        basis: `implied by <claim id> (<its title>)`, as an id has several claims, or `expected, not
            implied`.
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
        implied = re.fullmatch(r"implied by [A-Z]\d+ \(.+\)", self.basis) is not None
        if not implied and self.basis != EXPECTED:
            raise ValueError(
                f"basis: got {self.basis!r}, allowed are 'implied by <claim id> (<its title>)' and "
                f"{EXPECTED!r}"
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
