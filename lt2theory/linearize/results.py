"""What a linearization keeps beside the runs of its stages: its summary, and its student."""

from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save

from lt2theory.cards import card, listing
from lt2theory.fields import KnownFields
from lt2theory.linearize.divergence import Recovery
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.runs import RunFolder, write_bytes
from lt2theory.runs.contents import write_contents
from lt2theory.runs.prepare import make_folder
from lt2theory.training.checkpoint import MODEL, load_weights, model_tensors
from lt2theory.training.lm import LmSummary, load_lm
from lt2theory.training.lm.session import STAGE_KIND

KIND = "linearize"
STAGES = "stages"
START = "start"


class StageResult(KnownFields, frozen=True):
    """A stage that has ended.

    Attributes:
        name: Its name.
        folder: Its run's folder, below that of the linearization.
        run: What its run says.
        recovery: How near the student is to the teacher after it; None if that is not measured.
    """

    name: str
    folder: str
    run: LmSummary
    recovery: Recovery | None


class LinearizeSummary(KnownFields, frozen=True):
    """What an ended linearization says; the contents of summary.json.

    Attributes:
        status: `finished`, or `diverged`: a stage did, or left a student whose loss is no number,
            and those after it were not begun.
        label: Name of the recipe.
        seed: Its seed.
        config_hash: Hash of recipe, teacher and texts.
        teacher: Name of the teacher.
        pattern: Mixers of the student at the end.
        parameters: Its numbers, trained or not.
        tokens: Read in all stages.
        start: How near the student was before the first stage; None if that is not measured.
        stages: Its stages.
    """

    status: Literal["finished", "diverged"]
    label: str
    seed: int
    config_hash: str
    teacher: str
    pattern: str
    parameters: int
    tokens: int
    start: Recovery | None
    stages: tuple[StageResult, ...]

    def _repr_html_(self) -> str:
        """What a notebook shows: the outcome, and the way to the teacher stage by stage."""
        names = ("status", "teacher", "pattern", "tokens", "parameters", "seed")
        facts = {name: getattr(self, name) for name in names}
        rows = [("before", "", "", *_told(self.start))]
        for stage in self.stages:
            loss = "" if stage.run.loss is None else stage.run.loss
            rows.append((stage.name, stage.run.steps, loss, *_told(stage.recovery)))
        columns = ("stage", "steps", "own loss", "from teacher (nats)", "student (nats)",
                   "teacher (nats)", "agreement")  # fmt: skip
        return card(f"Linearization {self.label}", facts) + listing("Stages", columns, rows)


def _told(found: Recovery | None) -> tuple[object, ...]:
    """The numbers of a comparison; blanks where there was none."""
    if found is None:
        return ("",) * 4
    return found.kl, found.loss, found.teacher_loss, found.agreement


def stage_folder(folder: Path, number: int, name: str) -> Path:
    """Where the run of a stage lies.

    Args:
        folder: Folder of the linearization.
        number: The stage, counted from 1.
        name: Its name.

    Returns:
        The folder.
    """
    return folder / STAGES / f"{number:02d}-{name}"


def save_start(folder: Path, student: LoopedModel) -> None:
    """Keep a student before its first stage, complete or not at all.

    Args:
        folder: Folder of the linearization.
        student: The student.
    """
    make_folder(folder / START)
    tensors = {name: x.contiguous().cpu() for name, x in model_tensors(student).items()}
    write_bytes(folder / START / MODEL, save(tensors))
    write_contents(folder / START)


def has_start(folder: Path) -> bool:
    """Whether the student of a linearization was made before.

    Args:
        folder: Folder of the linearization.

    Returns:
        Whether it was.
    """
    return (folder / START / MODEL).is_file()


def load_start(
    folder: Path,
    config: LoopedConfig,
    dtype: torch.dtype,
    *,
    device: torch.device | str = "cpu",
) -> LoopedModel:
    """Read a student before its first stage.

    Args:
        folder: Folder of the linearization.
        config: Config of the student.
        dtype: Of its weights.
        device: Where it goes. On a CPU, kernels of a GPU that `config` names are left to 'auto'.

    Returns:
        The student.

    Raises:
        ValueError: The file cannot be read, or is of another model.
    """
    model = LoopedModel(config.on(device)).to(device, dtype)
    load_weights(folder / START, model)
    return model


def load_student(folder: Path, *, device: torch.device | str = "cpu") -> LoopedModel:
    """Read the student of a linearization, as far as it was trained.

    Args:
        folder: Folder of a linearization, or of one of its stages.
        device: Where it goes. On a CPU, kernels of a GPU that it names are left to 'auto'.

    Returns:
        The student with the weights of the newest checkpoint.

    Raises:
        ValueError: The folder is neither, or no stage has a checkpoint yet.
    """
    kind = RunFolder.open(folder).kind
    if kind == STAGE_KIND:
        return load_lm(folder, device=device)[0]
    if kind != KIND:
        raise ValueError(f"{folder} holds a {kind} run; expected a {KIND} run or a stage of one")
    for stage in sorted((folder / STAGES).glob("*-*"), reverse=True):
        if RunFolder.open(stage).checkpoints():
            return load_lm(stage, device=device)[0]
    raise ValueError(f"{folder} has no checkpoint yet")
