"""Recipe B's objectives: per-loop divergences with weights, and alignment of the stream."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.linearize.alignment import Alignment
from lt2theory.linearize.construct import build_student
from lt2theory.linearize.hybrid_distillation import HybridDistillation
from lt2theory.linearize.hybrids import student_config
from lt2theory.linearize.topk import top_k, top_k_kl
from lt2theory.linearize.views import block_at, teacher_views
from lt2theory.models import LoopedModel
from lt2theory.training.lm.objective import Place

Make = Callable[..., LoopedModel]
Text = Callable[[int, int, int], Tensor]


def pair(teacher: Make, text: Text, pattern: str = "gdn", **changes: object) -> tuple:
    model = teacher("ouro", **changes).requires_grad_(False)
    student = build_student(model, student_config(model.config, pattern), calibration=text(2, 9, 0))
    return model, student.model.double()


def windows(text: Text) -> tuple[Tensor, Tensor]:
    tokens = text(3, 12, 4)
    inputs, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[0, :4] = -100
    targets[2, 7] = -100
    return inputs, targets


@pytest.mark.parametrize("chunk", [1, 5, None])
@pytest.mark.parametrize(("step", "heat"), [(0, 1.0), (6, 2.0), (9, 1.0)])
def test_the_loss_and_its_gradient_are_those_of_the_definition(
    chunk: int | None, step: int, heat: float, teacher: Make, text: Text
) -> None:
    model, student = pair(teacher, text)
    config = HybridDistillation(top_k=5, temperature=heat, chunk=chunk)
    objective = config.build(student, model)
    objective.place = Place(step, 10, 0)
    inputs, targets = windows(text)
    loss, seen = objective(inputs, targets, None, label_share=0.5, row_share=1.0)
    loss.backward()
    found = {name: p.grad.clone() for name, p in student.named_parameters() if p.grad is not None}
    student.zero_grad()
    expected = torch.zeros((), dtype=torch.float64)
    weights = {0: [1 / 3] * 3, 6: [0.0, 0.0, 1.0], 9: [0.0, 0.0, 1.0]}[step]
    labelled = targets != -100
    for own, taught, weight in zip(
        student.read_loops(inputs), model.read_loops(inputs), weights, strict=True
    ):
        p, q = model.read_out(taught)[labelled], student.read_out(own)[labelled]
        kl = top_k_kl(top_k(p, 5, temperature=heat), q, temperature=heat).mean() * heat**2
        expected = expected + 0.5 * weight * kl
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-9)
    assert set(seen) == {"loss", "kl", "agreement", "loop_1_kl", "loop_2_kl", "loop_3_kl"}
    assert float(seen["kl"]) == float(seen["loop_3_kl"])
    expected.backward()
    for name, parameter in student.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(found[name], parameter.grad, rtol=1e-7, atol=1e-10)


def test_parts_of_a_step_add_up(teacher: Make, text: Text) -> None:
    model, student = pair(teacher, text)
    objective = HybridDistillation(top_k=7).build(student, model)
    inputs, targets = windows(text)
    whole, seen = objective(inputs, targets, None, label_share=1.0, row_share=1.0)
    labels = int((targets != -100).sum())
    parts = []
    for rows in (slice(0, 1), slice(1, 3)):
        share = int((targets[rows] != -100).sum()) / labels
        parts.append(objective(inputs[rows], targets[rows], None, label_share=share, row_share=0.5))
    assert sum(float(loss.detach()) for loss, _ in parts) == pytest.approx(
        float(whole.detach()), rel=1e-9
    )
    for name, value in seen.items():
        added = sum(float(part[name]) for _, part in parts)
        assert added == pytest.approx(float(value), rel=1e-9)
    nothing = torch.full_like(targets, -100)
    empty, _ = objective(inputs, nothing, None, label_share=0.0, row_share=1.0)
    empty.backward()
    assert float(empty.detach()) == 0.0


def test_loops_without_weight_may_be_left_out(teacher: Make, text: Text) -> None:
    model, student = pair(teacher, text)
    inputs, targets = windows(text)
    how = {"top_k": 5, "warm_share": 0.0, "fade_share": 0.0}
    full = HybridDistillation(**how).build(student, model)
    short = HybridDistillation(**how, inner_loops=False).build(student, model)
    one, seen = full(inputs, targets, None, label_share=1.0, row_share=1.0)
    other, fewer = short(inputs, targets, None, label_share=1.0, row_share=1.0)
    assert float(one.detach()) == float(other.detach()) == float(seen["loop_3_kl"])
    assert set(fewer) == {"loss", "kl", "agreement", "loop_3_kl"}


@pytest.mark.parametrize("step", [0, 6, 9])
def test_weights_from_a_tensor_give_the_same_gradient(step: int, teacher: Make, text: Text) -> None:
    """A CUDA graph launches the same work in every step; loops without weight add nothing."""
    model, student = pair(teacher, text)
    inputs, targets = windows(text)
    found = []
    for fixed in (False, True):
        objective = HybridDistillation(top_k=5).build(student, model)
        assert objective.repeats
        if fixed:
            objective.begin_step(0, 10)
            objective.begin_step(step, 10)
        else:
            objective.place = Place(step, 10, 0)
        loss, seen = objective(inputs, targets, None, label_share=0.5, row_share=1.0)
        student.zero_grad()
        loss.backward()
        slopes = {name: p.grad for name, p in student.named_parameters() if p.grad is not None}
        found.append((loss.detach(), seen, slopes))
    (one, seen, slopes), (other, too, same) = found
    assert one.equal(other)
    assert {name: float(value) for name, value in seen.items()} == {
        name: float(value) for name, value in too.items()
    }
    for name, slope in slopes.items():
        torch.testing.assert_close(same[name], slope, rtol=1e-12, atol=1e-14)
    assert not HybridDistillation(inner_loops=False).build(student, model).repeats


def test_a_student_of_another_shape_is_refused(teacher: Make) -> None:
    with pytest.raises(ValueError, match="num_loops: 2 of the student must be the teacher's, 3"):
        HybridDistillation().build(teacher("ouro", num_loops=2), teacher("ouro"))
    with pytest.raises(ValueError, match="vocab_size: 30"):
        HybridDistillation().build(teacher("ouro", vocab_size=30), teacher("ouro"))


def test_pre_alignment_compares_streams_at_every_layer_and_loop(teacher: Make, text: Text) -> None:
    """A place's target is the teacher's stream in the same loop, behind the sandwich norm."""
    model, student = pair(teacher, text)
    objective = Alignment(target="stream").build(student, model)
    inputs, targets = windows(text)
    loss, seen = objective(inputs, targets, None, label_share=1.0, row_share=1.0)
    expected = []
    for theirs, own in zip(
        teacher_views(model, inputs), teacher_views(student, inputs), strict=True
    ):
        post = block_at(model, theirs.layer).mixer_post_norm
        assert post is not None
        if theirs.layer == theirs.loop == 0:  # both read the same stream only here
            difference = post(own.mixed) - post(theirs.mixed)
            first = difference.square().mean()
        expected.append(post(theirs.mixed))
    assert len(expected) == 6
    assert {f"loop_{n}_error" for n in (1, 2, 3)} < set(seen)
    mean = sum(float(seen[f"loop_{n}_error"]) for n in (1, 2, 3)) / 3
    assert mean == pytest.approx(float(seen["relative_error"]), rel=1e-9)
    assert 0 < float(first) / 3 < float(loss.detach())
    loss.backward()
    assert all(
        parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        for name, parameter in student.named_parameters()
        if ".mixer.o_proj" in name
    )
