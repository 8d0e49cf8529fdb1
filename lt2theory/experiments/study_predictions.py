"""What was predicted of the study before it ran.

Nothing here has seen a result of the study.
"""

from lt2theory.experiments.study_prediction import Prediction
from lt2theory.experiments.study_predictions_recall import recall_predictions
from lt2theory.experiments.study_predictions_words import word_predictions


def predictions() -> tuple[Prediction, ...]:
    """All predictions, in the order of the blocks.

    Returns:
        Those of state-based recall, of word problems and parity, and of ranks.
    """
    return (*recall_predictions(), *word_predictions())
