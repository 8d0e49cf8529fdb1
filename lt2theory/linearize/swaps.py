"""What single layers are worth: one replaced in the teacher, or one restored in the student."""

from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.linearize.divergence import recovery
from lt2theory.linearize.hybrids import restored
from lt2theory.models import LoopedModel


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
