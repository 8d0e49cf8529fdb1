"""The cells of the study: language models of bytes that read equally many tokens, as data."""

import re
from dataclasses import dataclass
from typing import Any

from lt2theory.linearize.evaluation import EvaluationConfig
from lt2theory.models.flops import step_flops
from lt2theory.models.parameters import parameter_count
from lt2theory.runs import StudyRun, study_run
from lt2theory.training.lm import LmConfig

KIND = "language-cell"
MODEL = "model"
"""Of what the rows of a cell are said."""
LENGTH = 1024
"""Bytes of a window, in training and of what is read at once on held-out text."""
LONG = 16_384
"""Bytes before those that are timed, at which caches count."""
MEASURED = EvaluationConfig(
    parts=("speed",),
    documents=None,
    length=LENGTH,
    speed_lengths=(LENGTH, LONG),
    speed_batch=8,
    speed_steps=32,
)
"""What is measured after training: all held-out documents, and decoding of eight rows."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.=+-]*")


@dataclass(frozen=True, kw_only=True)
class LanguageCell:
    """One model with one seed.

    Attributes:
        arm: The arm; cells of one arm differ in the seed alone.
        study: The question that it was made for.
        block: Place of that question among all, from 1.
        config: The run, without its corpus.
        evaluation: What is measured; of `parts` it carries out `speed`, beside held-out text.
        priority: Order within the block.
        exploratory: One seed and no claim.
    """

    arm: str
    study: str
    block: int
    config: LmConfig
    evaluation: EvaluationConfig = MEASURED
    priority: int = 0
    exploratory: bool = False

    def __post_init__(self) -> None:
        """Check what a command line must be able to name.

        Raises:
            ValueError: The arm's name is not allowed.
        """
        if not _NAME.fullmatch(self.arm):
            raise ValueError(
                f"arm: got {self.arm!r}, allowed are letters, digits and any of .=+- after them"
            )

    @property
    def name(self) -> str:
        """What a command line calls it, such as `ratio-1to4-s0`."""
        return f"{self.arm}-s{self.config.seed}"

    @property
    def tokens(self) -> int:
        """Tokens that it learns from."""
        return self.config.total_steps * self.config.tokens_per_step

    def to_json(self) -> dict[str, Any]:
        """All that decides the cell's numbers but for the text.

        Returns:
            Plain JSON values.
        """
        evaluation = self.evaluation.model_dump(mode="json")
        return {"work": self.config.to_json(), "evaluation": evaluation}

    def run(self) -> StudyRun:
        """The cell in the study's manifest.

        Returns:
            Its folder, hash, identity and configuration.
        """
        return study_run(self.to_json(), self.config.identity())

    def columns(self) -> dict[str, Any]:
        """What names the cell in the table.

        Returns:
            Plain values.
        """
        config, model = self.config, self.config.model
        softmax = sum(spec.mixer == "full" for loop in model.loops for spec in loop)
        return {
            "study": self.study,
            "cell": self.name,
            "block": self.block,
            "arm": self.arm,
            "seed": config.seed,
            "exploratory": self.exploratory,
            "tokens": self.tokens,
            "pattern": model.pattern,
            "layers": model.num_layers,
            "loops": model.num_loops,
            "loop_state": model.loop_state,
            "softmax_visits": softmax,
            "learning_rate": config.optimiser.learning_rate,
            "parameters": parameter_count(model),
            "flops_a_token": step_flops(model, 1, config.sequence_length) / config.sequence_length,
        }


LanguageCells = tuple[LanguageCell, ...]
