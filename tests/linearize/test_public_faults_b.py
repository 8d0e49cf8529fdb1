"""Faults of recipes with kept layers and likeliest tokens: each shown, and shown not to be ours."""

from collections.abc import Callable

import torch
from torch import Tensor

from lt2theory.linearize.alignment import Alignment
from lt2theory.linearize.construct import build_student
from lt2theory.linearize.divergence import token_kl
from lt2theory.linearize.hybrid_distillation import HybridDistillation
from lt2theory.linearize.hybrids import restored, student_config
from lt2theory.linearize.topk import top_k, top_k_kl
from lt2theory.linearize.views import block_at
from lt2theory.models import LoopedModel

Make = Callable[..., LoopedModel]
Text = Callable[[int, int, int], Tensor]


def test_without_a_tail_probability_outside_the_top_k_costs_nothing() -> None:
    """Renormalised on the teacher's top-k alone, a student that says nonsense is perfect."""
    teacher = torch.tensor([4.0, 3.0, 2.0, -4.0, -4.0, -4.0], dtype=torch.float64)
    student = teacher.clone()
    student[5] = 12.0  # nearly all of its probability
    student.requires_grad_()
    known = top_k(teacher, 3)
    blind = top_k_kl(known, student, tail=False)
    (slope,) = torch.autograd.grad(blind, student)
    assert float(blind.detach()) < 1e-12
    assert float(slope.abs().max()) < 1e-12
    seen = top_k_kl(known, student)
    (slope,) = torch.autograd.grad(seen, student)
    full = token_kl(teacher, student.detach())
    assert 0.95 * float(full) < float(seen.detach()) <= float(full)
    assert float(slope[5]) > 0.9
    assert HybridDistillation().tail


def test_alignment_in_front_of_a_sandwich_norm_punishes_what_the_norm_undoes(
    teacher: Make, text: Text
) -> None:
    """A mixer that is right but for its size is right: only behind the norm this is seen."""
    model = teacher("ouro", norm_eps=1e-12).requires_grad_(False)
    student = build_student(
        model, student_config(model.config, "gdn"), calibration=text(2, 9, 0)
    ).model.double()
    inputs, losses = text(2, 11, 1), {}
    for target in ("mixer", "stream"):
        objective = Alignment(target=target).build(student, model)
        for size in (1.0, 0.01):
            with torch.no_grad():
                for layer in range(2):
                    block_at(student, layer).mixer.o_proj.weight *= size  # type: ignore[union-attr,operator]
                loss, _ = objective(inputs, inputs, None, label_share=1.0, row_share=1.0)
                losses[target, size] = float(loss)
                for layer in range(2):
                    block_at(student, layer).mixer.o_proj.weight /= size  # type: ignore[union-attr,operator]
    assert abs(losses["mixer", 0.01] / losses["mixer", 1.0] - 1) > 0.05
    torch.testing.assert_close(losses["stream", 0.01], losses["stream", 1.0], rtol=1e-4, atol=0)


def test_a_restored_layer_is_softmax_in_every_loop(teacher: Make, text: Text) -> None:
    """One kept physical layer is T softmax calls: a choice for one loop alone does not exist."""
    model = teacher("ouro")
    student = build_student(
        model, student_config(model.config, "gdn"), calibration=text(2, 9, 0)
    ).model
    hybrid = restored(student, model, [1])
    assert [[spec.mixer for spec in loop] for loop in hybrid.config.loops] == [["gdn", "full"]] * 3


def test_the_divergence_of_inner_loops_reads_out_what_those_loops_end_in(
    teacher: Make, text: Text
) -> None:
    """Ouro's final norm ends every loop: normalising its stream again would judge another model."""
    model = teacher("ouro")
    states = model.read_loops(text(2, 9, 1))
    for h in states:
        assert torch.equal(model.head_inputs(h), h)
        assert (model.norm(h) - h).abs().max() > 0.01
