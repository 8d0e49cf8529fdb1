"""Configs of students, and students in which some layers are the teacher's again."""

from collections.abc import Iterable

import torch

from lt2theory.linearize.views import mixer_of
from lt2theory.models import LoopedConfig, LoopedModel

_OF_LINEAR_LAYERS = (
    "linear_rotation",
    "linear_head_dim",
    "linear_value_dim",
    "decay_grain",
    "decay_groups",
    "loop_state",
)
"""Fields that a config without linear layers refuses to have changed."""


def student_config(teacher: LoopedConfig, pattern: str, **changes: object) -> LoopedConfig:
    """The teacher's config with other mixers.

    Args:
        teacher: Config of the teacher.
        pattern: Mixers of the student, as in `LoopedConfig.pattern`.
        **changes: Further fields, such as `linear_rotation` (rotary positions in linear layers, an
            axis of its own), `conv_width`, `decay_grain` or `loop_state`.

    Returns:
        The config.

    Raises:
        ValueError: The fields do not fit each other.
    """
    return LoopedConfig.model_validate({**teacher.model_dump(), "pattern": pattern, **changes})


def restored_pattern(student: LoopedConfig, teacher: LoopedConfig, layers: Iterable[int]) -> str:
    """The student's pattern with some layers as in the teacher, in every loop.

    Args:
        student: Config of the student.
        teacher: Config of the teacher.
        layers: Layers to restore.

    Returns:
        The pattern, layer by layer.

    Raises:
        ValueError: A layer does not exist.
    """
    kept = set(layers)
    wrong = sorted(kept - set(range(student.num_layers)))
    if wrong:
        raise ValueError(f"layers: {wrong[0]} must be >= 0 and < {student.num_layers}")
    loops = []
    for own, theirs in zip(student.loops, teacher.loops, strict=True):
        specs = [theirs[i] if i in kept else spec for i, spec in enumerate(own)]
        loops.append(",".join(spec.written for spec in specs))
    return loops[0] if len(set(loops)) == 1 else "->".join(loops)


def restored_config(
    student: LoopedConfig, teacher: LoopedConfig, layers: Iterable[int]
) -> LoopedConfig:
    """The student's config with the mixers of some layers as in the teacher.

    Args:
        student: Config of the student.
        teacher: Config of the teacher.
        layers: Layers to restore, in all loops.

    Returns:
        The config; the student's own where no layer is named.

    Raises:
        ValueError: A layer does not exist.
    """
    kept = set(layers)
    if not kept:
        return student
    pattern = restored_pattern(student, teacher, kept)
    changes = {}
    if len(kept) == student.num_layers:  # where no linear layer is left
        changes = {name: getattr(teacher, name) for name in _OF_LINEAR_LAYERS}
    return student_config(student, pattern, **changes)


@torch.no_grad()
def restored(student: LoopedModel, teacher: LoopedModel, layers: Iterable[int]) -> LoopedModel:
    """A student with the mixers of some layers taken from the teacher.

    Args:
        student: The student, left as it is.
        teacher: Its teacher.
        layers: Layers to restore, in all loops.

    Returns:
        A model of its own; all but those mixers is the student's.

    Raises:
        ValueError: A layer does not exist.
    """
    kept = set(layers)
    with torch.device("meta"):
        model = LoopedModel(restored_config(student.config, teacher.config, kept))
    own, theirs = dict(student.named_parameters()), dict(teacher.named_parameters())
    state = {}
    for name, _ in model.named_parameters():
        place = mixer_of(name)
        source = theirs if place is not None and place[0] in kept else own
        state[name] = torch.nn.Parameter(source[name].to(student.dtype, copy=True))
    model.load_state_dict(state, assign=True)
    return model.train(student.training)
