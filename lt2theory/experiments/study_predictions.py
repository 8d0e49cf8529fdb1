"""What was predicted of the study before it ran, and how its table judges it.

Nothing here has seen a result of the study.
"""

import pandas as pd

from lt2theory.experiments.judgement import verdict
from lt2theory.experiments.study_prediction import Judged, Prediction
from lt2theory.experiments.study_predictions_recall import recall_predictions
from lt2theory.experiments.study_predictions_words import word_predictions
from lt2theory.report import PredictionRow

UNRUN = "Not run yet."


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
    return (*recall_predictions(), *word_predictions())
