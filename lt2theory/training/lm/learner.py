"""What a run trains, and by what objective."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lt2theory.models import LoopedModel
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.objective import LmObjective, StepObjective
from lt2theory.training.lm.placement import starting_model
from lt2theory.training.lm.ranks import Ranks


@dataclass(frozen=True)
class Learner:
    """What a run trains and by what objective, where it is no language model from its own draw.

    Attributes:
        model: The model at step 0, on this process's device, with the dtype of the masters and the
            same in every process. Parameters without `requires_grad` stay as they are.
        objective: Makes what is minimised of it.
        factors: Of the learning rate, by name of the parameter; 1 for those that are not named.
        whole: What of the objective needs whole weights in every process, in words; nothing if it
            does not.
    """

    model: LoopedModel
    objective: Callable[[LoopedModel], StepObjective]
    factors: Mapping[str, float] = field(default_factory=dict)
    whole: str = ""


def language_model(config: LmConfig, ranks: Ranks) -> Learner:
    """A language model from a draw of its own.

    Args:
        config: The run.
        ranks: The processes.

    Returns:
        What learns.
    """
    model = starting_model(config.model, config.seed, ranks, config.weight_dtype)
    return Learner(model, lambda own: LmObjective(own, config.optimiser.auxiliary_weight))
