"""What a curriculum run keeps between two steps."""

from collections.abc import Mapping

from pydantic import Field

from lt2theory.fields import KnownFields
from lt2theory.training.evaluation import Evaluation
from lt2theory.training.records import StageRecord, Status


class TrainState(KnownFields):
    """Where a run is between two steps: with the weights and moments, all that the rest depends on.

    Attributes:
        step: Steps done, over all stages.
        stage_step: Steps done on the present stage.
        finished: The stages before it.
        evaluation: The present stage's last evaluation.
        confirmation: Its last confirmation.
        confirmations: How many confirmations it has had.
        confirmed_on_others: Whether the last shared no instance with its evaluation.
        loss_sum: Sum of the losses since the last record of training metrics.
        norm_sum: Sum of the gradient norms since then.
        auxiliary_sums: Sums of the auxiliary losses since then, by name.
        summed: Steps since then.
        outcome: How training ended, or None.
        diverged_at: The step that diverged.
        divergence: What was not finite.
        metrics_size: Bytes of metrics.jsonl.
        seconds: Wall-clock seconds so far.
        training_seconds: Those spent in training steps.
    """

    step: int = 0
    stage_step: int = 0
    finished: list[StageRecord] = Field(default_factory=list)
    evaluation: Evaluation | None = None
    confirmation: Evaluation | None = None
    confirmations: int = 0
    confirmed_on_others: bool | None = None
    loss_sum: float = 0.0
    norm_sum: float = 0.0
    auxiliary_sums: dict[str, float] = Field(default_factory=dict)
    summed: int = 0
    outcome: Status | None = None
    diverged_at: int | None = None
    divergence: str | None = None
    metrics_size: int = 0
    seconds: float = 0.0
    training_seconds: float = 0.0

    def add_step(self, loss: float, gradient_norm: float, auxiliary: Mapping[str, float]) -> None:
        """Count a step.

        Args:
            loss: Its loss.
            gradient_norm: Its gradient norm.
            auxiliary: Its auxiliary losses.
        """
        for name, value in auxiliary.items():
            self.auxiliary_sums[name] = self.auxiliary_sums.get(name, 0.0) + value
        self.step += 1
        self.stage_step += 1
        self.loss_sum += loss
        self.norm_sum += gradient_norm
        self.summed += 1

    def reset_means(self) -> None:
        """Begin new means of losses and gradient norm."""
        self.auxiliary_sums = {}
        self.loss_sum = self.norm_sum = 0.0
        self.summed = 0

    def close_stage(self, stage: int, *, solved: bool) -> StageRecord:
        """End the present stage and begin the next.

        Args:
            stage: The present stage.
            solved: Whether it was solved.

        Returns:
            Its record, which is now the last of `finished`.
        """
        record = StageRecord(
            stage=stage,
            steps=self.stage_step,
            solved=solved,
            evaluation=self.evaluation,
            confirmation=self.confirmation,
            confirmations=self.confirmations,
            confirmed_on_others=self.confirmed_on_others,
        )
        self.finished.append(record)
        self.stage_step = self.confirmations = 0
        self.evaluation = self.confirmation = self.confirmed_on_others = None
        return record
