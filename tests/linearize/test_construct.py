"""Students: what is copied, what is left out, and that the fits help."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lt2theory.linearize.construct import build_student
from lt2theory.linearize.divergence import recovery
from lt2theory.linearize.expand import expand_heads
from lt2theory.linearize.hybrids import restored, student_config
from lt2theory.linearize.selectors import attention_distance
from lt2theory.linearize.starts import STUDENT_MIXERS, Start
from lt2theory.linearize.views import (
    block_at,
    mixer_at,
    open_state,
    out_projection,
    run_mixer,
    teacher_views,
)
from lt2theory.models import LoopedModel

Make = Callable[..., LoopedModel]
Text = Callable[[int, int, int], Tensor]


@pytest.mark.parametrize("kind", ["small", "ouro"])
@pytest.mark.parametrize("mixer", STUDENT_MIXERS)
def test_projections_are_copied_and_fits_bring_every_mixer_nearer(
    mixer: str, kind: str, teacher: Make, text: Text
) -> None:
    model = teacher(kind)
    config = student_config(model.config, mixer)
    calibration = text(4, 40, 0)
    copied = build_student(model, config, Start(output="copied"), calibration=calibration)
    own, theirs = mixer_at(copied.model, 1, 0), mixer_at(model, 1, 0)
    assert torch.equal(out_projection(own).weight, out_projection(theirs).weight)
    for letter in "qkv":
        source = theirs.get_parameter(f"{letter}_proj.weight")
        groups = 4 if letter == "q" else 2
        expected = expand_heads(source, num_kv_heads=groups, num_heads=4)
        name = f"{letter}.weight" if mixer == "mlstm" else f"{letter}_proj.weight"
        assert torch.equal(own.get_parameter(name), expected)
    for name, parameter in copied.model.named_parameters():
        if "mixer." not in name:
            assert torch.equal(parameter, model.get_parameter(name))
    errors = [
        [
            one.error
            for one in build_student(
                model, config, Start.model_validate({"output": how}), calibration=calibration
            ).alignments
        ]
        for how in ("scaled", "solved")
    ]
    before = [one.error for one in copied.alignments]
    assert [len(before), len(errors[0])] == [config.num_layers] * 2
    assert sum(errors[0]) < sum(before)
    assert all(solved < scaled for solved, scaled in zip(errors[1], errors[0], strict=True))
    assert not copied.left_out


def test_a_student_is_a_function_of_its_arguments(teacher: Make, text: Text) -> None:
    model, tokens = teacher(), text(2, 20, 0)
    before = torch.random.get_rng_state()
    one, other = (
        build_student(model, student_config(model.config, "kda"), calibration=tokens).model
        for _ in range(2)
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_fitting_lowers_the_divergence(teacher: Make, text: Text) -> None:
    model = teacher()
    config = student_config(model.config, "gdn")
    calibration, tokens = text(8, 60, 0), text(4, 60, 1)
    found = {
        how: recovery(
            model,
            build_student(
                model, config, Start.model_validate({"output": how}), calibration=calibration
            ).model,
            tokens,
        ).kl
        for how in ("copied", "solved")
    }
    assert 0 < found["solved"] < found["copied"]


def test_what_has_no_place_is_named(teacher: Make, text: Text) -> None:
    model = teacher(qkv_bias=True, output_bias=True, qk_norm=True)
    student = build_student(
        model, student_config(model.config, "deltanet"), calibration=text(2, 20, 0)
    )
    expected = ("bias of q", "bias of k", "bias of v", "bias of the output")
    assert student.left_out == {0: expected, 1: expected, 2: expected}
    gains = mixer_at(model, 0, 0).get_parameter("q_norm.weight")
    weight = mixer_at(model, 0, 0).get_parameter("q_proj.weight") * gains.repeat(4)[:, None]
    copied = mixer_at(student.model, 0, 0).get_parameter("q_proj.weight")
    torch.testing.assert_close(copied, weight, rtol=1e-12, atol=1e-12)


def test_hybrids_keep_whole_softmax_layers(teacher: Make, text: Text) -> None:
    model = teacher(qkv_bias=True, qk_norm=True)
    config = student_config(model.config, "gdn,full,gdn")
    student = build_student(model, config, calibration=text(2, 20, 0))
    theirs = dict(mixer_at(model, 1, 0).named_parameters())
    for name, parameter in mixer_at(student.model, 1, 0).named_parameters():
        assert torch.equal(parameter, theirs[name])
    assert [one.layer for one in student.alignments] == [0, 2]
    assert set(student.left_out) == {0, 2}


def test_mixers_that_change_from_loop_to_loop(teacher: Make, text: Text) -> None:
    model = teacher("ouro")
    config = student_config(model.config, "full->gdn->kda")
    student = build_student(model, config, calibration=text(2, 20, 0))
    mixers = block_at(student.model, 0).mixers
    assert [type(one).__name__ for one in mixers] == [
        "SoftmaxAttention",
        "GatedDeltaNet",
        "KimiDeltaAttention",
    ]
    assert torch.equal(
        mixers[0].get_parameter("k_proj.weight"),
        mixer_at(model, 0, 0).get_parameter("k_proj.weight"),
    )
    assert [one.layer for one in student.alignments] == [0, 0, 1, 1]


@pytest.mark.parametrize("inputs", ["teacher", "student"])
@pytest.mark.parametrize(
    "changes",
    [
        {"loop_state": "accumulate"},
        {"linear_rotation": "on"},
        {"conv_width": 0},
        {"positions": "none"},
    ],
)
def test_axes_of_a_student(changes: dict[str, Any], inputs: str, teacher: Make, text: Text) -> None:
    model = teacher("ouro")
    config = student_config(model.config, "gdn", **changes)
    start = Start.model_validate({"inputs": inputs})
    student = build_student(model, config, start, calibration=text(2, 20, 0))
    assert recovery(model, student.model, text(2, 20, 1)).kl > 0
    assert len(student.alignments) == 2


@pytest.mark.parametrize("kind", ["small", "ouro"])
def test_mixers_are_fitted_on_the_students_stream(kind: str, teacher: Make, text: Text) -> None:
    """Layer after layer; how near the last one comes is measured again by hand."""
    model, tokens = teacher(kind), text(3, 30, 0)
    config = student_config(model.config, "gdn")
    last = config.num_layers - 1
    student = build_student(model, config, Start(inputs="student"), calibration=tokens)
    stream = restored(student.model, model, [last])
    views = [v for v in teacher_views(stream, tokens) if v.layer == last]
    state = open_state(student.model, tokens.shape)
    mixer = mixer_at(student.model, last, 0)
    with torch.no_grad():
        given = [run_mixer(state, mixer, v.x, last, v.loop)[1] for v in views]
    error = sum((y - v.mixed).square().sum() for y, v in zip(given, views, strict=True))
    size = sum(v.mixed.square().sum() for v in views)
    assert student.alignments[-1].error == pytest.approx(float(error / size), rel=1e-6)
    forced = build_student(model, config, Start(inputs="teacher"), calibration=tokens)
    assert forced.alignments[0] == student.alignments[0]
    assert forced.alignments[-1] != student.alignments[-1]


def test_half_lives_from_the_attention(teacher: Make, text: Text) -> None:
    model, tokens = teacher(), text(2, 30, 0)
    start = Start(decay="attention", half_lives=(0.5, 100.0), inputs="teacher")
    student = build_student(
        model, student_config(model.config, "gdn"), start, calibration=tokens
    ).model
    mixer = mixer_at(student, 2, 0)
    lives = torch.log(torch.tensor(2.0)).double() / torch.nn.functional.softplus(
        mixer.get_parameter("dt_bias")
    )
    view = next(v for v in teacher_views(model, tokens) if v.layer == 2)
    torch.testing.assert_close(lives, attention_distance(view.prepared), rtol=1e-6, atol=1e-9)


def test_linear_layers_of_a_teacher_are_kept(teacher: Make, text: Text) -> None:
    model = teacher(pattern="gdn,full,full")
    config = student_config(model.config, "gdn,kda,full")
    student = build_student(model, config, calibration=text(2, 20, 0))
    for own, theirs in zip(
        mixer_at(student.model, 0, 0).parameters(), mixer_at(model, 0, 0).parameters(), strict=True
    ):
        assert torch.equal(own, theirs)
    assert [one.layer for one in student.alignments] == [1]


def test_refusals(teacher: Make, text: Text) -> None:
    model = teacher()
    with pytest.raises(ValueError, match="calibration: None is not allowed with this start"):
        build_student(model, student_config(model.config, "gdn"))
    plain = Start(gate="own", output="copied")
    with pytest.raises(ValueError, match="Mamba2 has no q projection"):
        build_student(model, student_config(model.config, "mamba2"), plain)
    with pytest.raises(ValueError, match="head_dim: 8 of the student must be the teacher's, 6"):
        build_student(model, student_config(model.config, "gdn", linear_head_dim=8), plain)
    with pytest.raises(ValueError, match="vocab_size: 11 of the student must be the teacher's"):
        build_student(model, student_config(model.config, "gdn", vocab_size=11), plain)
    linear = teacher(pattern="gdn")
    with pytest.raises(ValueError, match="cannot become a KimiDeltaAttention"):
        build_student(linear, student_config(linear.config, "kda"), plain)
    build_student(
        model, student_config(model.config, "mamba2"), plain.model_copy(update={"copied": False})
    )


def test_heads_that_are_tiled_give_every_query_head_another_one(teacher: Make, text: Text) -> None:
    """`h % kv` instead of `h // group`: with four heads on two, half of them are wrong."""
    model = teacher()
    config = student_config(model.config, "gdn")
    students = [
        build_student(model, config, Start.model_validate({"expansion": how, "output": "copied"}),
                      calibration=text(2, 30, 0)).model
        for how in ("heads", "tiled")
    ]  # fmt: skip
    right, wrong = (
        mixer_at(one, 1, 0).get_parameter("k_proj.weight").unflatten(0, (4, -1)) for one in students
    )
    assert [bool((a == b).all()) for a, b in zip(right, wrong, strict=True)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert torch.equal(wrong[1], right[2])


def test_a_wider_ffn_gives_the_same(teacher: Make, text: Text) -> None:
    model = teacher()
    generator = torch.Generator().manual_seed(0)
    wide = build_student(
        model,
        student_config(model.config, "full", ffn_width=model.config.hidden_width + 3),
        generator=generator,
        calibration=text(2, 30, 0),
    ).model
    tokens = text(2, 17, 1)
    torch.testing.assert_close(wide(tokens), model(tokens), rtol=1e-12, atol=1e-12)
    wide(tokens).sum().backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in wide.parameters() if p.grad is not None)
    with pytest.raises(ValueError, match=r"blocks.0.ffn.w1.weight is not in the teacher"):
        build_student(model, student_config(model.config, "full", ffn_width=8), calibration=tokens)
