"""The cells of a study: runs with what names them in tables, and what they cost, as data."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

from lt2theory.models.flops import step_flops
from lt2theory.models.parameters import parameter_count
from lt2theory.runs import StudyRun, study_run
from lt2theory.training import CurriculumConfig, resolve
from lt2theory.training.config import Device

BLOCKS = (1, 2, 3, 4)
"""The parts of a study, in the order in which they are carried out."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.=+-]*")
_ONE_DECAY = frozenset({"deltanet", "gdn", "mamba2", "retnet"})
"""Mixers whose own decays are at most one a head, as our kernels of the recurrence want them."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run of a study.

    Attributes:
        name: What a command line calls it, such as `recall-gdn-window-t4-s0`; no two cells of a
            study share it.
        block: The part of the study that it belongs to, one of `BLOCKS`.
        config: The run. Its step cap is `config.step_budget`, for every stage. `on` puts it on a
            device.
        priority: Order within its block, lower first; cells of one priority keep the study's order.
        exploratory: One seed and no claim: shown apart from the rest.
        expected_steps: Steps that a stage is expected to take, the mean over the stages, for the
            time beforehand; None expects the cap, and a recipe's `min_steps` are the least.
        shares: How the expected steps lie on the stages, one number > 0 a stage, in any unit; None
            expects equally many on each.
    """

    name: str
    block: int
    config: CurriculumConfig
    priority: int = 0
    exploratory: bool = False
    expected_steps: int | None = None
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            ValueError: A field is not allowed.
        """
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name: got {self.name!r}, allowed are letters, digits and any of .=+- after them"
            )
        if self.block not in BLOCKS:
            raise ValueError(f"block: got {self.block}, allowed are {BLOCKS}")
        cap = self.config.step_budget
        if self.expected_steps is not None and not 1 <= self.expected_steps <= cap:
            raise ValueError(
                f"expected_steps: got {self.expected_steps}, allowed 1..{cap} (step_budget)"
            )
        if self.shares is not None:
            stages = len(self.resolved.stages)
            if len(self.shares) != stages or not all(share > 0 for share in self.shares):
                raise ValueError(f"shares: got {self.shares}, allowed are {stages} numbers > 0")

    @cached_property
    def resolved(self) -> CurriculumConfig:
        """The run with its stages and vocabulary filled in."""
        return resolve(self.config)

    def on(self, device: Device) -> "Cell":
        """The same cell on a device; a GPU replays every stage's step as one CUDA graph.

        In float32 `auto` keeps to exact products, one small operation after the other. Where our
        kernels can, a GPU takes them by name: they cut what is read to TensorFloat-32, not the
        state, so that a reflection stays one.

        Args:
            device: "cpu" or "cuda".

        Returns:
            The cell. Its configuration, and so its hash, is that of another run.
        """
        changes: dict[str, Any] = {"device": device, "cuda_graph": device == "cuda"}
        if device == "cuda" and self.config.dtype == "float32" and self._has_kernels:
            changes["model"] = self.config.model.model_dump() | {"backend": "triton"}
        config = CurriculumConfig.model_validate(self.config.model_dump() | changes)
        return Cell(**{**_fields(self), "config": config})

    @property
    def _has_kernels(self) -> bool:
        model = self.config.model
        mixers = {layer.mixer for loop in model.loops for layer in loop}
        return model.decay_grain == "own" and mixers <= _ONE_DECAY

    def run(self) -> StudyRun:
        """The run in a study's manifest.

        Returns:
            Its folder, hash, identity and configuration.
        """
        return study_run(self.resolved.to_json(), self.resolved.identity())

    def columns(self) -> dict[str, Any]:
        """What names the cell in a tidy table, beside the columns of `lt2theory.runs.tables`.

        Returns:
            Plain values; null where a task or model has no such thing.
        """
        config, knobs = self.resolved, self.resolved.task.knobs
        model = config.model
        return {
            "cell": self.name,
            "block": self.block,
            "exploratory": self.exploratory,
            "pattern": model.pattern,
            "loops": model.num_loops,
            "loop_state": model.loop_state,
            "negative_eigenvalues": model.negative_eigenvalues,
            "layers": model.num_layers,
            "width": model.width,
            "parameters": parameter_count(model),
            "group": knobs.get("group"),
            "supervision": knobs.get("supervision"),
            "layout": knobs.get("layout"),
            "knobs": json.dumps(knobs, sort_keys=True),
            "stages_asked": len(config.stages),
            "step_cap": config.step_budget,
            "batch_size": config.batch_size,
            "learning_rate": config.optimiser.learning_rate,
            "pass_mark": config.pass_mark,
        }

    def step_flops(self, stage: int) -> float:
        """Multiplications and additions of a training step.

        Args:
            stage: A stage of the run.

        Returns:
            `lt2theory.models.flops.step_flops` at the stage's length.
        """
        config = self.resolved
        length = config.task.create().sequence_length(stage)
        return step_flops(config.model, config.batch_size, length)

    def steps_by_stage(self, *, cap: bool = False) -> dict[int, int]:
        """Training steps on every stage.

        Args:
            cap: The most that each may take, rather than what is expected.

        Returns:
            Stage -> steps, in the order of the stages.
        """
        stages = self.resolved.stages
        if cap:
            return dict.fromkeys(stages, self.config.step_budget)
        shares = self.shares or (1.0,) * len(stages)
        scale = self.steps_a_stage * len(stages) / sum(shares)
        ends = [0, *(round(scale * sum(shares[: n + 1])) for n in range(len(stages)))]
        least, most = self.config.min_steps, self.config.step_budget
        numbers = [min(max(end - begin, least), most) for begin, end in pairwise(ends)]
        return dict(zip(stages, numbers, strict=True))

    def steps(self, *, cap: bool = False) -> int:
        """Training steps over all stages.

        Args:
            cap: The most that it may take, rather than what is expected.

        Returns:
            The number; a run that fails a stage takes fewer.
        """
        return sum(self.steps_by_stage(cap=cap).values())

    @property
    def steps_a_stage(self) -> int:
        """Steps that a stage is expected to take, the mean over the stages."""
        return max(self.expected_steps or self.config.step_budget, self.config.min_steps)

    def flops(self, *, cap: bool = False) -> float:
        """Multiplications and additions of the training steps of `steps_by_stage`.

        Args:
            cap: Of the most steps, rather than those expected.

        Returns:
            The number; evaluations are left out.
        """
        steps = self.steps_by_stage(cap=cap)
        return sum(number * self.step_flops(stage) for stage, number in steps.items())


def _fields(cell: Cell) -> dict[str, Any]:
    return {name: getattr(cell, name) for name in Cell.__dataclass_fields__}


Cells = tuple[Cell, ...]


@runtime_checkable
class Listed(Protocol):
    """What a list of cells needs of one."""

    @property
    def name(self) -> str:
        """What a command line calls it."""

    @property
    def block(self) -> int:
        """The part of the study that it belongs to."""

    @property
    def priority(self) -> int:
        """Order within its block, lower first."""


AnyCell = TypeVar("AnyCell", bound=Listed)


def in_order(cells: tuple[AnyCell, ...]) -> tuple[AnyCell, ...]:
    """Put cells into the order in which they are carried out.

    Args:
        cells: The cells.

    Returns:
        The same by block and priority, else as they were.

    Raises:
        ValueError: Two share a name.
    """
    names = [cell.name for cell in cells]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"name: the cell {twice!r} appears twice; names must differ")
    return tuple(sorted(cells, key=lambda cell: (cell.block, cell.priority)))
