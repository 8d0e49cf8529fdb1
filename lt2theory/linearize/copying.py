"""What a student takes over from its teacher as it is, and what of a softmax layer fits nowhere."""

import torch
from torch import nn

from lt2theory.linearize.alike import check_alike
from lt2theory.linearize.expand import expand_heads
from lt2theory.linearize.starts import Start
from lt2theory.linearize.views import mixer_of, out_projection
from lt2theory.mixers import LinearMixer, SoftmaxAttention
from lt2theory.models import LoopedModel
from lt2theory.models.block import AnyMixer

_INPUTS = ("q", "k", "v")
_ALIKE = (
    "vocab_size",
    "width",
    "num_layers",
    "num_loops",
    "sandwich_norm",
    "norm_between_loops",
    "tie_embeddings",
)
"""What a student shares with its teacher; weights of other sizes would be left out silently."""
_FFN_ROWS = ("ffn.w1.weight", "ffn.w3.weight")
_FFN_COLUMNS = "ffn.w2.weight"


@torch.no_grad()
def copy_around_mixers(student: LoopedModel, teacher: LoopedModel) -> None:
    """Copy embeddings, norms, FFNs, gates of the loop and the head.

    An FFN of the student may be wider: what it has more begins with a zero output, so that the two
    give the same (Net2Net, arXiv 1511.05641, for a SwiGLU).

    Args:
        student: Changed in place.
        teacher: What is copied, into the student's dtype.

    Raises:
        ValueError: The two differ in a part that is no mixer.
    """
    check_alike(student.config, teacher.config, *_ALIKE)
    theirs = dict(teacher.named_parameters())
    for name, parameter in student.named_parameters():
        if mixer_of(name) is not None:
            continue
        source = theirs.get(name)
        if source is not None and source.shape == parameter.shape:
            parameter.copy_(source.to(parameter))
        elif source is None or not _widen(name, parameter, source):
            raise ValueError(f"student: {name} is not in the teacher, or has another shape there")


@torch.no_grad()
def copy_mixer(student: AnyMixer, teacher: AnyMixer, start: Start) -> tuple[str, ...]:
    """Copy one mixer, or of a softmax layer what a linear mixer has a place for.

    A norm of queries and keys (Qwen3) is kept by its weights, folded into the projections, but not
    by its division, which unit keys do anyway. Biases have no place.

    Args:
        student: Changed in place.
        teacher: A mixer of the same kind, or one of the softmax family.
        start: `copied` and `value_scale`.

    Returns:
        What was left out, in words.

    Raises:
        ValueError: Neither kind can be made from the other, or widths of heads differ.
    """
    if type(student) is type(teacher) and student.options == teacher.options:
        for own, theirs in zip(student.parameters(), teacher.parameters(), strict=True):
            own.copy_(theirs.to(own))
        return ()
    if isinstance(student, SoftmaxAttention) and isinstance(teacher, SoftmaxAttention):
        return _copy_softmax(student, teacher)
    if not isinstance(student, LinearMixer) or not isinstance(teacher, SoftmaxAttention):
        raise ValueError(
            f"teacher: a {type(teacher).__name__} cannot become a {type(student).__name__} "
            "(only a softmax layer can become another mixer)"
        )
    return _copy_projections(student, teacher, start) if start.copied else ()


def _copy_softmax(student: SoftmaxAttention, teacher: SoftmaxAttention) -> tuple[str, ...]:
    """Between full and window attention, or into a sparse one, which has parameters of its own."""
    theirs = dict(teacher.named_parameters())
    own = dict(student.named_parameters())
    for name, parameter in own.items():
        if name in theirs and theirs[name].shape == parameter.shape:
            parameter.copy_(theirs[name].to(parameter))
    new = sorted(own.keys() - theirs.keys())
    return (f"{type(student).__name__} starts with its own {', '.join(new)}",) if new else ()


def _copy_projections(
    student: LinearMixer, teacher: SoftmaxAttention, start: Start
) -> tuple[str, ...]:
    own, theirs = student.options, teacher.options
    why = ", for its projections to be copied"
    check_alike(own, theirs, "num_heads", "head_dim", "value_dim", why=why)
    left_out = []
    for letter in _INPUTS:
        source = teacher.get_submodule(f"{letter}_proj")
        assert isinstance(source, nn.Linear)
        kv_heads = theirs.num_heads if letter == "q" else theirs.num_kv_heads
        weight = expand_heads(
            source.weight,
            num_kv_heads=kv_heads,
            num_heads=theirs.num_heads,
            tiled=start.expansion == "tiled",
        )
        if letter != "v" and theirs.qk_norm:
            gains = teacher.get_parameter(f"{letter}_norm.weight").to(weight)
            weight = weight * gains.repeat(theirs.num_heads)[:, None]
        if letter == "v":
            weight = weight * start.value_scale
        target = input_projection(student, letter)
        if target.weight.shape != weight.shape:
            raise ValueError(
                f"student: {type(student).__name__} has no {letter} projection of shape "
                f"{tuple(weight.shape)}"
            )
        target.weight.copy_(weight.to(target.weight))
        if source.bias is not None and bool(source.bias.any()):
            left_out.append(f"bias of {letter}")
    out = out_projection(student)
    out.weight.copy_(teacher.o_proj.weight.to(out.weight))
    if teacher.o_proj.bias is not None and bool(teacher.o_proj.bias.any()):
        left_out.append("bias of the output")
    if theirs.output_gate:
        left_out.append("output gate")
    return tuple(left_out)


def input_projection(mixer: LinearMixer, letter: str) -> nn.Linear:
    """One of a linear mixer's projections.

    Args:
        mixer: The mixer.
        letter: `q`, `k` or `v`.

    Returns:
        `q_proj` and so on, or the mLSTM's `q`.

    Raises:
        ValueError: The mixer has none of its own (Mamba2, HGRN2).
    """
    for name in (f"{letter}_proj", letter):
        found = getattr(mixer, name, None)
        if isinstance(found, nn.Linear):
            return found
    raise ValueError(f"student: {type(mixer).__name__} has no {letter} projection to copy into")


def _widen(name: str, own: torch.Tensor, source: torch.Tensor) -> bool:
    """Fill a matrix of a wider FFN; whether it is one."""
    hidden = source.shape[1 if name.endswith(_FFN_COLUMNS) else 0]
    if name.endswith(_FFN_ROWS) and own.shape[0] > hidden:
        own[:hidden] = source.to(own)
        return True
    if name.endswith(_FFN_COLUMNS) and own.shape[1] > hidden:
        nn.init.zeros_(own)
        own[:, :hidden] = source.to(own)
        return True
    return False
