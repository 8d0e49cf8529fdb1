"""What a curriculum run is told; the fields and their texts are also its command-line options."""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, model_serializer, model_validator

from lt2theory.fields import Frozen, check_one_line
from lt2theory.models import LoopedConfig
from lt2theory.ops import KERNELS
from lt2theory.training.config_parts import OptimiserConfig, TaskConfig
from lt2theory.training.exact_start import check_fits

Device = Literal["cpu", "cuda"]
Dtype = Literal["float32", "bfloat16"]


LARGEST_BATCH = 2**20
"""A larger number of instances at once is a slip: it would fill the memory, or never end."""


class CurriculumConfig(Frozen):
    """A curriculum run: train on the stages in turn, each until it is solved, then test once."""

    task: TaskConfig = Field(description="What is learnt.")
    model: LoopedConfig = Field(
        default_factory=LoopedConfig,
        description="The model; vocab_size follows the task, whatever is given. So does "
        "max_length, but learned positions are refused without one: give any.",
    )
    optimiser: OptimiserConfig = Field(
        default_factory=OptimiserConfig, description="How it is optimised."
    )
    stages: tuple[int, ...] = Field(
        (), description="Stages to train, easiest first; none means all that the task lists."
    )
    test_stages: tuple[int, ...] = Field(
        (), description="Further stages, such as longer ones, that are only tested at the end."
    )
    batch_size: int = Field(64, ge=1, le=LARGEST_BATCH, description="Training examples a step.")
    step_budget: int = Field(
        2000, ge=1, description="Most steps on one stage; if it is not solved then, the run ends."
    )
    min_steps: int = Field(0, ge=0, description="Least steps on a stage before it may be solved.")
    evaluate_every: int = Field(100, ge=1, description="Steps between two evaluations.")
    pass_mark: float = Field(
        0.90, gt=0, le=1, description="Scored accuracy at which a stage counts as solved."
    )
    evaluation_size: int = Field(
        1024,
        ge=64,
        le=LARGEST_BATCH,
        description="Instances of an evaluation; claims need at least 1024.",
    )
    confirmation_size: int = Field(
        4096,
        ge=64,
        le=LARGEST_BATCH,
        description="Other instances, on which a passed evaluation is confirmed: the lower end of "
        "the 95 % Wilson interval must reach pass_mark - 0.01. Claims need 4096.",
    )
    test_size: int = Field(
        4096, ge=64, le=LARGEST_BATCH, description="Instances of the test of every stage."
    )
    test: bool = Field(
        True,
        description="Read the test split at the end; a search for a recipe must leave it unread.",
    )
    seed: int = Field(
        0, ge=0, lt=2**63, description="Seed of the weights and of the training batches."
    )
    start: Literal["drawn", "s3_rescan"] = Field(
        "drawn",
        description="Weights at the start: drawn, or an exact solution of the word problem of S3 "
        "by two loops that rescan (theory L6), to see whether training keeps it.",
    )
    learning_rates: tuple[float, ...] = Field(
        (),
        description="Candidates, tried for selection_steps on the first stage with seeds of their "
        "own and compared on the evaluation split; none uses the optimiser's learning_rate.",
    )
    selection_steps: int = Field(300, ge=1, description="Steps given to every candidate.")
    selection_seeds: int = Field(1, ge=1, description="Seeds with which a candidate is tried.")
    checkpoint_every: int = Field(200, ge=1, description="Steps between two checkpoints.")
    device: Device = Field("cpu", description="Where to compute.")
    dtype: Dtype = Field(
        "float32", description="bfloat16 multiplies under autocast; weights stay float32."
    )
    deterministic: bool = Field(
        False,
        description="Use torch's deterministic algorithms alone: the same bits again on the same "
        "machine. On 'cuda' it needs CUBLAS_WORKSPACE_CONFIG=:4096:8 in the environment.",
    )
    compile: bool = Field(
        False,
        description="Fuse the parts of the blocks around the recurrences by torch.compile in "
        "training steps: the same numbers up to rounding, after seconds to half a minute of "
        "compiling at the first step of the first two stages (kept on disk by torch). It pays in "
        "long runs, needs a C++ compiler, and leaves evaluation as it is.",
    )
    cuda_graph: bool = Field(
        False,
        description="Replay every stage's training step as one CUDA graph, which takes the host "
        "out of the way; for 'cuda' only. Losses are read some steps later: a divergence is found "
        "late, but ends the run at the same step with the same weights.",
    )
    threads: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="Threads a tensor operation may use; none leaves torch's choice.",
    )
    label: str = Field(
        "run", min_length=1, description="Name of the experiment's arm, for tables and figures."
    )

    @model_validator(mode="after")
    def _check(self) -> "CurriculumConfig":
        if self.min_steps > self.step_budget:
            raise ValueError(
                f"min_steps: got {self.min_steps}, allowed 0..{self.step_budget} (step_budget)"
            )
        check_one_line("label", self.label)
        if self.deterministic and self.model.backend in KERNELS:
            raise ValueError(
                f"deterministic: got True with model.backend={self.model.backend!r}, whose kernels "
                "choose their block sizes by measuring; allowed backends: auto, chunked, reference"
            )
        if self.model.loop_loss != "last":
            raise ValueError(
                f"model.loop_loss: got {self.model.loop_loss!r}, allowed is 'last': a curriculum "
                "scores the last loop"
            )
        if self.cuda_graph and self.device != "cuda":
            raise ValueError(
                f"cuda_graph: got True with device={self.device!r}; allowed with device='cuda' only"
            )
        if self.test_stages and not self.test:
            raise ValueError(
                f"test_stages: got {self.test_stages}, allowed are none without test (an empty "
                "--test-stages drops those of a recipe)"
            )
        for name in ("stages", "test_stages", "learning_rates"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name}: got {values}, allowed are distinct values")
        if any(rate <= 0 for rate in self.learning_rates):
            raise ValueError(f"learning_rates: got {self.learning_rates}, allowed are numbers > 0")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """`start` is left out at its default, so that runs from before it keep their hash."""
        values = handler(self)
        if values.get("start") == type(self).model_fields["start"].default:
            del values["start"]
        return values

    def identity(self) -> dict[str, Any]:
        """What names the run in tables.

        Returns:
            `label`, `seed` and the task's name.
        """
        return {"label": self.label, "seed": self.seed, "task": self.task.name}

    def to_json(self) -> dict[str, Any]:
        """The configuration as a run folder stores it.

        Returns:
            Plain JSON values, from which `model_validate` makes an equal configuration.
        """
        return self.model_dump(mode="json")


def resolve(config: CurriculumConfig) -> CurriculumConfig:
    """Fill in what follows from the task, and check the stages against it.

    Args:
        config: The configuration as given.

    Returns:
        The same with all stages named, and with the model's vocabulary (and, for learned positions,
        its longest sequence) taken from the task. Resolving twice changes nothing.

    Raises:
        ValueError: No such task, knob or stage, a stage too small to have all three splits, or a
            start that does not fit the model.
    """
    task = config.task.create()
    stages = config.stages or task.stages
    every = (*stages, *config.test_stages)
    longest = max(task.sequence_length(stage) for stage in every)
    for stage in every:
        for split in ("train", "eval", "test"):
            if task.split_count(stage, split) == 0:
                raise ValueError(
                    f"stages: stage {stage} of {task.name} has only {task.instance_count(stage)} "
                    f"instances, none of them in its {split} split; choose a larger stage"
                )
    model = config.model.model_dump() | {"vocab_size": task.vocab_size}
    if config.model.positions == "learned":
        model["max_length"] = longest
    changes = {"stages": stages, "model": model}
    resolved = CurriculumConfig.model_validate(config.model_dump() | changes)
    if resolved.start == "s3_rescan":
        check_fits(resolved.model)
    return resolved
