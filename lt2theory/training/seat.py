"""What a run is lent by whoever carries out several runs at once."""

from dataclasses import dataclass, field

from lt2theory.training.config import CurriculumConfig
from lt2theory.training.draws import training_batch
from lt2theory.training.feeder import Feeder
from lt2theory.training.signals import StopRequest
from tasks import Batch, Task


@dataclass
class Seat:
    """The place of a run among others.

    Attributes:
        stop: Asked after every step.
        feeder: Makes batches ahead; without it every batch is made when it is wanted.
        taken: Training steps that have begun here, whichever run took them.
    """

    stop: StopRequest = field(default_factory=StopRequest)
    feeder: Feeder | None = None
    taken: int = 0

    def batch(self, task: Task, config: CurriculumConfig, stage: int, step: int) -> Batch:
        """Examples of the next training step; the same with and without a feeder.

        Args:
            task: The task.
            config: A resolved configuration.
            stage: The stage that is trained.
            step: Steps done, over all stages.

        Returns:
            A batch of the train split.
        """
        self.taken += 1
        if self.feeder is None:
            return training_batch(task, config, stage, step)
        return self.feeder.batch(config, stage, step)
