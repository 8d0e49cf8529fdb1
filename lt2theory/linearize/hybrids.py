"""Students in which some layers are the teacher's again, and what that brings without training."""

from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.linearize.construct import student_config
from lt2theory.linearize.divergence import recovery
from lt2theory.models import LayerSpec, LoopedConfig, LoopedModel


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
        loops.append(",".join(_written(spec) for spec in specs))
    return loops[0] if len(set(loops)) == 1 else "->".join(loops)


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
    pattern = restored_pattern(student.config, teacher.config, kept)
    with torch.device("meta"):
        model = LoopedModel(student_config(student.config, pattern))
    sources = {False: dict(student.named_parameters()), True: dict(teacher.named_parameters())}
    state = {
        name: torch.nn.Parameter(
            sources[_layer_of_mixer(name) in kept][name].to(student.dtype, copy=True)
        )
        for name, _ in model.named_parameters()
    }
    model.load_state_dict(state, assign=True)
    return model.train(student.training)


def replacement_scores(
    teacher: LoopedModel, student: LoopedModel, tokens: Int[Tensor, "b t"]
) -> Float[Tensor, " layers"]:
    """What it costs to replace one layer of the teacher by the student's, in all its loops.

    Args:
        teacher: The teacher.
        student: A student, trained or not.
        tokens: Text to measure on.

    Returns:
        Divergence a token from the teacher, a layer: the higher, the more the layer is needed.
    """
    everything = set(range(teacher.config.num_layers))
    return _divergences(teacher, student, tokens, [everything - {i} for i in sorted(everything)])


def restoration_scores(
    teacher: LoopedModel, student: LoopedModel, tokens: Int[Tensor, "b t"]
) -> Float[Tensor, " layers"]:
    """What it brings to restore one layer of the student, in all its loops.

    Args:
        teacher: The teacher.
        student: A student, trained or not.
        tokens: Text to measure on.

    Returns:
        By how much the divergence from the teacher falls, a layer.
    """
    layers = range(teacher.config.num_layers)
    sets: list[set[int]] = [set(), *({layer} for layer in layers)]
    found = _divergences(teacher, student, tokens, sets)
    return found[0] - found[1:]


def _divergences(
    teacher: LoopedModel, student: LoopedModel, tokens: Tensor, kept: Iterable[set[int]]
) -> Float[Tensor, " n"]:
    models = (restored(student, teacher, layers).eval() for layers in kept)
    return torch.tensor(
        [recovery(teacher, model, tokens).kl for model in models], dtype=torch.float64
    )


def _written(spec: LayerSpec) -> str:
    return spec.mixer if spec.window is None else f"{spec.mixer}({spec.window})"


def _layer_of_mixer(name: str) -> int | None:
    """Layer whose mixer a parameter belongs to."""
    parts = name.split(".")
    if parts[0] != "blocks" or parts[2] not in ("mixer", "other_mixers"):
        return None
    return int(parts[1])
