"""Optimisers and starts of the study's recipes, as searches chose them for families and loops."""

from typing import Any

from lt2theory.training import OptimiserConfig

Chosen = tuple[OptimiserConfig, dict[str, Any]]
"""An optimiser, and fields of the model."""

RECALL = OptimiserConfig(
    learning_rate=5e-4, weight_decay=0.01, warmup_steps=100, schedule="constant"
)
_HYBRID = (
    RECALL.model_copy(update={"learning_rate": 2.7e-4, "weight_decay": 0.0, "betas": (0.9, 0.999)}),
    {"init_std": 0.02, "embedding_std": 1.0},
)
RECALL_BY_FAMILY: dict[str, Chosen] = {
    "softmax": (
        RECALL.model_copy(
            update={"learning_rate": 9e-4, "weight_decay": 0.0, "betas": (0.9, 0.999)}
        ),
        {"init_std": 0.06, "embedding_std": 0.1},
    ),
    "gdn": _HYBRID,
    "gdn-window": _HYBRID,
    "gdn-nsa": _HYBRID,
    "full-gdn": (
        RECALL.model_copy(
            update={"learning_rate": 3.2e-4, "weight_decay": 0.01, "betas": (0.9, 0.95)}
        ),
        {"init_std": 0.02, "embedding_std": 0.1},
    ),
}
"""Optimiser and model fields that the search chose for a family (results/study-tuning.csv); others
take `RECALL`."""

RECALL_NEXT: dict[str, tuple[Chosen, Chosen]] = {
    "softmax": (
        (
            RECALL.model_copy(
                update={"learning_rate": 5.3e-4, "weight_decay": 0.1, "betas": (0.9, 0.999)}
            ),
            {"init_std": 0.06, "embedding_std": 1.0},
        ),
        (
            RECALL.model_copy(update={"learning_rate": 3.2e-4, "betas": (0.9, 0.95)}),
            {"init_std": 0.02, "embedding_std": 0.1},
        ),
    ),
    "full-gdn": (
        (
            RECALL.model_copy(update={"learning_rate": 5.6e-4, "betas": (0.9, 0.95)}),
            {"init_std": 0.02, "embedding_std": 0.1},
        ),
        (
            RECALL.model_copy(
                update={"learning_rate": 9e-4, "weight_decay": 0.0, "betas": (0.9, 0.999)}
            ),
            {"init_std": 0.06, "embedding_std": 0.1},
        ),
    ),
}
"""The second and third of the same search, of families that the first did not take to the end."""

WORDS = OptimiserConfig(
    learning_rate=2e-3, betas=(0.9, 0.999), warmup_steps=100, schedule="constant"
)
WORDS_BY_LOOPS: dict[str, Chosen] = {}
"""The same for `one loop`, `rescan` and `accumulate`; others take `WORDS`."""
