"""What a step minimises: an objective a run, and the next-token loss of a language model."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from lt2theory.models import LoopedModel
from lt2theory.models.loop_loss import loop_loss


@dataclass(frozen=True)
class Place:
    """Where in a run some windows stand; with the run's seed it says which they are.

    Attributes:
        step: Steps done before.
        steps: Steps of the run.
        first_row: The first of the windows, among all of the step's, over all processes.
    """

    step: int
    steps: int
    first_row: int


class StepObjective(nn.Module, ABC):
    """What a step minimises, as a module: sharding hooks into its call.

    Whatever it holds as a submodule is trained and sharded, so a frozen teacher must not be one.

    Args:
        model: The model that is trained.

    Attributes:
        place: Where the windows of the next call stand; set before every call.
        repeats: Whether every call launches the same work, whatever the place and the windows, and
            never waits for the device: then a CUDA graph can replay it. What depends on the step
            is then read from tensors that `begin_step` writes.
    """

    repeats = False

    def __init__(self, model: LoopedModel) -> None:
        super().__init__()
        self.model = model
        self.place = Place(0, 1, 0)

    def check_graph(self) -> None:
        """Refuse a CUDA graph of steps that do not repeat.

        Raises:
            ValueError: They do not.
        """
        if not self.repeats:
            name = type(self).__name__
            raise ValueError(f"cuda_graph: True is not possible with {name}; allowed: False")

    def begin_step(self, step: int, steps: int) -> None:
        """Called before each step that replays a CUDA graph; by default nothing is to be done.

        Args:
            step: Steps done before.
            steps: Steps of the run.
        """

    @abstractmethod
    def forward(
        self,
        inputs: Int[Tensor, "b t"],
        targets: Int[Tensor, "b t"],
        documents: Int[Tensor, "b t"] | None,
        *,
        label_share: float | Tensor,
        row_share: float,
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Contribution of some windows to the loss of a step.

        Args:
            inputs: Ids.
            targets: The id after each; -100 where there is none, or none that is learnt.
            documents: Documents of the inputs; None where each row is one unbroken stream.
            label_share: Their share of the step's labels, by which means over labels are weighted.
            row_share: Their share of its windows, likewise for means over all tokens.

        Returns:
            The contribution, with a gradient, and by name those to the numbers that are reported,
            without: `loss`, and others of the objective's own. Contributions are summed over the
            parts of a step and over processes.
        """


class LmObjective(StepObjective):
    """The next-token loss of a language model, over all loops as its config says.

    Args:
        model: The model.
        auxiliary_weight: Weight of the losses that parts of it have of their own.
    """

    repeats = True

    def __init__(self, model: LoopedModel, auxiliary_weight: float) -> None:
        super().__init__(model)
        self.auxiliary_weight = auxiliary_weight

    def forward(
        self,
        inputs: Int[Tensor, "b t"],
        targets: Int[Tensor, "b t"],
        documents: Int[Tensor, "b t"] | None,
        *,
        label_share: float | Tensor,
        row_share: float,
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """As in `StepObjective`.

        Args:
            inputs: Ids.
            targets: The id after each; -100 where there is none.
            documents: Documents of the inputs, or None.
            label_share: Their share of the step's labels.
            row_share: Their share of its windows.

        Returns:
            The contribution, and `loss`, `loop_<n>_loss`, `exit_<n>` and `<name>_loss`.
        """
        own: dict[str, Tensor] = {}
        wanted = own if self.auxiliary_weight else None
        found = loop_loss(self.model, inputs, targets, documents=documents, losses=wanted)
        total = found.total * label_share
        seen = {"loss": total.detach()}
        if len(found.by_loop) > 1:
            for loop, value in enumerate(found.by_loop, start=1):
                seen[f"loop_{loop}_loss"] = value * label_share
        for loop, value in enumerate(() if found.exits is None else found.exits, start=1):
            seen[f"exit_{loop}"] = value * label_share
        for name, value in own.items():
            total = total + self.auxiliary_weight * row_share * value
            seen[f"{name}_loss"] = value.detach() * row_share
        return total, seen
