"""Students: a teacher's weights in a model with other mixers, before any training."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.cards import card, listing
from lt2theory.linearize.copying import copy_around_mixers, copy_mixer
from lt2theory.linearize.gates import set_gate
from lt2theory.linearize.hybrids import restored
from lt2theory.linearize.outputs import Alignment, alignment, fit_output
from lt2theory.linearize.selectors import attention_distance
from lt2theory.linearize.starts import Start, set_half_lives, set_identities, spread_half_lives
from lt2theory.linearize.views import (
    View,
    block_at,
    mixer_at,
    open_state,
    out_projection,
    run_mixer,
    teacher_views,
)
from lt2theory.mixers import LinearMixer
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.parameters import parameter_count
from lt2theory.ops.factors import AttentionInputs


@dataclass(frozen=True)
class Student:
    """A student before its training.

    Attributes:
        model: The model, in at least float32: bfloat16 weights would swallow AdamW's updates.
        left_out: What of the teacher's mixers has no place in it, by layer.
        alignments: How near its fitted mixers are to the teacher's on the calibration text; empty
            without one.
    """

    model: LoopedModel
    left_out: dict[int, tuple[str, ...]]
    alignments: tuple[Alignment, ...]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        left = {f"left out in layer {layer}": ", ".join(it) for layer, it in self.left_out.items()}
        facts = {"parameters": parameter_count(self.model.config)} | left
        fits = listing(
            "Mixers beside the teacher's, on the calibration text",
            ("layer", "cosine", "error", "gate fit"),
            [
                (one.layer, one.cosine, one.error, "" if one.gate_fit is None else one.gate_fit)
                for one in self.alignments
            ],
        )
        return card("Student before training", facts) + fits + self.model.config._repr_html_()


def build_student(
    teacher: LoopedModel,
    config: LoopedConfig,
    start: Start | None = None,
    *,
    calibration: Int[Tensor, "b t"] | None = None,
    generator: torch.Generator | None = None,
) -> Student:
    """Make a student of a teacher.

    Everything but mixers is copied. A mixer of the teacher's kind is copied too; a linear one gets
    the softmax layer's projections, heads expanded, and `start` for the rest. What `start` fits is
    fitted layer by layer, all loops together, to what the teacher's mixer gives for the same input.

    Args:
        teacher: The teacher.
        config: Of the student, from `lt2theory.linearize.hybrids.student_config`.
        start: How its linear mixers start; None for `Start()`.
        calibration: Token ids for what is fitted.
        generator: Source of what is drawn.

    Returns:
        The student.

    Raises:
        ValueError: The teacher's mixers cannot become the student's, `start` needs a calibration
            text and there is none, or it closes gates that a norm behind the mixer opens again.
    """
    start = Start() if start is None else start
    if start.needs_calibration and calibration is None:
        raise ValueError("calibration: None is not allowed with this start (it is fitted to text)")
    if start.gate == "zero" and config.sandwich_norm:
        raise ValueError(
            "gate: 'zero' is not allowed with sandwich_norm (the norm behind the mixer divides a "
            "small output by its size, and gradients with it; allowed: 'fitted', 'open', 'own')"
        )
    model = LoopedModel(config, generator=generator)
    model = model.to(torch.promote_types(teacher.dtype, torch.float32))
    model.to(teacher.embedding.weight.device)
    copy_around_mixers(model, teacher)
    left_out = {layer: _begin(model, teacher, layer, start) for layer in range(config.num_layers)}
    alignments: list[Alignment] = []
    if calibration is not None and start.needs_calibration:
        for layer, views in _views(model, teacher, calibration, start):
            alignments += _calibrate(model, layer, views, start)
    return Student(model, {k: v for k, v in left_out.items() if v}, tuple(alignments))


def _views(
    model: LoopedModel, teacher: LoopedModel, tokens: Tensor, start: Start
) -> Iterator[tuple[int, list[View]]]:
    """The teacher's mixers layer by layer, in all loops, on the stream that `start` asks for."""
    layers = range(model.config.num_layers)
    if start.inputs == "teacher":
        by_layer: dict[int, list[View]] = defaultdict(list)
        for view in teacher_views(teacher, tokens):
            by_layer[view.layer].append(view)
        yield from by_layer.items()
        return
    for layer in layers:
        # Layers before this one are the student's by now; this one and those behind it are not.
        stream = restored(model, teacher, layers[layer:])
        yield layer, teacher_views(stream, tokens, layers=(layer,))


def _begin(model: LoopedModel, teacher: LoopedModel, layer: int, start: Start) -> tuple[str, ...]:
    """Copy the mixers of a layer, each from the loop that first uses it; set what needs no text."""
    left_out: list[str] = []
    numbers = [model.config.mixer_number(layer, loop) for loop in range(model.config.num_loops)]
    for number, mixer in enumerate(block_at(model, layer).mixers):
        source = mixer_at(teacher, layer, numbers.index(number))
        left_out += copy_mixer(mixer, source, start)
        if not isinstance(mixer, LinearMixer) or type(mixer) is type(source):
            continue
        set_identities(mixer, start)
        if start.decay == "spread":
            set_half_lives(mixer, spread_half_lives(start, mixer.options.num_heads))
    return tuple(dict.fromkeys(left_out))


@torch.no_grad()
def _calibrate(model: LoopedModel, layer: int, views: list[View], start: Start) -> list[Alignment]:
    """Set what follows from the teacher's text, for every mixer of one layer."""
    found = []
    for number, mixer in enumerate(block_at(model, layer).mixers):
        here = [v for v in views if model.config.mixer_number(layer, v.loop) == number]
        if not isinstance(mixer, LinearMixer) or not isinstance(here[0].prepared, AttentionInputs):
            continue
        if start.decay == "attention":
            set_half_lives(mixer, _distances(here, start))
        shape = (mixer.options.num_heads, -1)
        teacher_heads = _rows([view.heads for view in here]).unflatten(-1, shape)
        gate_fit = set_gate(mixer, start, _rows([view.x for view in here]), teacher_heads)
        target = _rows([view.mixed for view in here])
        heads = _heads(model, mixer, here)
        out = out_projection(mixer)
        fit_output(out, start, heads.unflatten(-1, shape), teacher_heads, target)
        found.append(alignment(layer, out(heads.to(out.weight.dtype)), target, gate_fit))
    return found


def _heads(model: LoopedModel, mixer: LinearMixer, views: list[View]) -> Float[Tensor, "n c"]:
    """What a mixer's heads give at the places of one layer, loops in order."""
    state = open_state(model, views[0].x.shape[:2])
    parts = (
        run_mixer(state, mixer, view.x.to(model.dtype), view.layer, view.loop)[0] for view in views
    )
    return _rows(parts)


def _distances(views: list[View], start: Start) -> Float[Tensor, " h"]:
    """Mean distance that each head attends to, within the bounds."""
    inputs = [view.prepared for view in views if isinstance(view.prepared, AttentionInputs)]
    mean = torch.stack([attention_distance(one) for one in inputs]).mean(0)
    return mean.clamp(*start.half_lives)


def _rows(parts: Iterable[Tensor]) -> Float[Tensor, "n c"]:
    return torch.cat([part.flatten(0, 1) for part in parts])
