"""End-to-end distillation and alignment: what exactly is compared, and how it is averaged."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.linearize.alignment import Alignment, distance
from lt2theory.linearize.construct import build_student
from lt2theory.linearize.distillation import Distillation
from lt2theory.linearize.hybrids import student_config
from lt2theory.linearize.language import LanguageModelling
from lt2theory.linearize.stages import Stage, place_of
from lt2theory.linearize.starts import STUDENT_MIXERS
from lt2theory.linearize.views import block_at, mixer_at, open_state, run_mixer, teacher_views
from lt2theory.models import LoopedModel

Make = Callable[..., LoopedModel]
Text = Callable[[int, int, int], Tensor]


def student_of(model: LoopedModel, pattern: str = "gdn", **changes: object) -> LoopedModel:
    config = student_config(model.config, pattern, backend="chunked", **changes)
    return build_student(
        model.requires_grad_(False), config, calibration=torch.arange(16)[None]
    ).model


def loss_of(
    config: Alignment | Distillation | LanguageModelling,
    student: LoopedModel,
    model: LoopedModel,
    tokens: Tensor,
    targets: Tensor,
    documents: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    objective = config.build(student, model)
    loss, seen = objective(tokens, targets, documents, label_share=1.0, row_share=1.0)
    return loss, seen


def shifted(tokens: Tensor) -> Tensor:
    return F.pad(tokens[:, 1:], (0, 1), value=-100)


@pytest.mark.parametrize("kind", ["small", "ouro"])
@pytest.mark.parametrize("length", [9, 33])
def test_kl_is_a_mean_over_tokens_not_over_rows(
    kind: str, length: int, teacher: Make, text: Text
) -> None:
    """A trap of public code: `batchmean` on [b t v] weighs it t times as much as the CE."""
    model = teacher(kind)
    student = student_of(model)
    tokens = text(3, length, 1)
    targets = shifted(tokens)
    targets[0, :4] = -100
    total, seen = loss_of(Distillation(chunk=5), student, model, tokens, targets)
    known = targets != -100
    p, q = model(tokens)[known], student(tokens)[known]
    kl = F.kl_div(q.log_softmax(-1), p.log_softmax(-1), log_target=True, reduction="batchmean")
    assert q.dim() == 2  # flat: `batchmean` divides by tokens here
    ce = F.cross_entropy(q, targets[known])
    torch.testing.assert_close(seen["kl"], kl, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(seen["ce"], ce, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(total, ce + kl, rtol=1e-10, atol=1e-12)
    found = torch.autograd.grad(total, list(student.parameters()), allow_unused=True)
    wanted = torch.autograd.grad(ce + kl, list(student.parameters()), allow_unused=True)
    for one, other in zip(found, wanted, strict=True):
        if other is not None:
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)


def test_parts_of_a_step_add_up_to_the_whole(teacher: Make, text: Text) -> None:
    """However rows are split, and however unevenly labels fall into the parts."""
    model = teacher()
    student = student_of(model)
    tokens = text(5, 11, 2)
    targets = shifted(tokens)
    targets[0] = -100
    targets[1, 3:] = -100
    labels = int((targets != -100).sum())
    for config in (Distillation(), Alignment(), Alignment(target="block", distance="norm")):
        objective = config.build(student, model)
        whole, seen = objective(tokens, targets, None, label_share=1.0, row_share=1.0)
        parts, sums = torch.zeros(()).double(), dict.fromkeys(seen, 0.0)
        for rows in (slice(0, 1), slice(1, 2), slice(2, 5)):
            share = int((targets[rows] != -100).sum()) / labels
            one, own = objective(
                tokens[rows],
                targets[rows],
                None,
                label_share=share,
                row_share=len(tokens[rows]) / 5,
            )
            parts = parts + one
            sums = {name: sums[name] + float(own[name]) for name in sums}
        torch.testing.assert_close(parts, whole, rtol=1e-10, atol=1e-12)
        for name in set(sums) - {"relative_error"}:  # a ratio a part
            assert sums[name] == pytest.approx(float(seen[name]), rel=1e-9)


@pytest.mark.parametrize("kind", ["small", "ouro"])
def test_mixers_are_aligned_before_the_norm_behind_them(
    kind: str, teacher: Make, text: Text
) -> None:
    """The target is what the output projection gives, on the teacher's own stream."""
    model = teacher(kind)
    student = student_of(model)
    tokens = text(2, 13, 3)
    total, _ = loss_of(Alignment(), student, model, tokens, tokens)
    expected = torch.zeros((), dtype=torch.float64)
    state = open_state(student, (2, 13))
    for view in teacher_views(model, tokens):
        own = run_mixer(
            state, mixer_at(student, view.layer, view.loop), view.x, view.layer, view.loop
        )
        expected = expected + F.mse_loss(own[1], view.mixed)
    torch.testing.assert_close(total, expected / model.config.num_loops, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("kind", ["small", "ouro"])
def test_blocks_are_aligned_before_the_final_norm(kind: str, teacher: Make, text: Text) -> None:
    """transformers' last hidden state is after it; in Ouro that would recur at every loop's end."""
    model = teacher(kind)
    student = student_of(model)
    tokens = text(2, 13, 4)
    config = Alignment(target="block")
    total, _ = loss_of(config, student, model, tokens, tokens)
    expected = torch.zeros((), dtype=torch.float64)
    after_norm = torch.zeros((), dtype=torch.float64)
    last = model.config.num_layers - 1
    for view in teacher_views(model, tokens):
        state = open_state(student, (2, 13))
        own = block_at(student, view.layer)(view.before, state.mix_at(view.layer, view.loop))
        expected = expected + F.mse_loss(own, view.after)
        target = model.norm(view.after) if view.layer == last else view.after
        after_norm = after_norm + F.mse_loss(own, target)
    torch.testing.assert_close(total, expected / model.config.num_loops, rtol=1e-10, atol=1e-13)
    assert float(after_norm.detach()) > 1.1 * float(expected.detach())


def test_documents_do_not_see_each_other(teacher: Make, text: Text) -> None:
    model = teacher()
    student = student_of(model)
    one, other = text(1, 7, 5), text(1, 9, 6)
    both = torch.cat([one, other], 1)
    documents = torch.tensor([[0] * 7 + [1] * 9])
    for config in (Alignment(), Alignment(target="block")):
        joined, _ = loss_of(config, student, model, both, both, documents)
        parts = [loss_of(config, student, model, x, x)[0] * x.numel() for x in (one, other)]
        torch.testing.assert_close(joined, sum(parts) / 16, rtol=1e-10, atol=1e-13)


def test_distances() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(2, 3, 4, generator=generator).double() for _ in range(2))
    assert float(distance(a, b, "mse")) == pytest.approx(float(((a - b) ** 2).mean()), rel=1e-12)
    norm = (a - b).norm(dim=-1).mean() * 4**-0.5
    assert float(distance(a, b, "norm")) == pytest.approx(float(norm), rel=1e-12)
    a.requires_grad_()
    distance(a, a.detach(), "norm").backward()
    assert a.grad is not None
    assert bool(a.grad.isfinite().all())


@pytest.mark.parametrize("mixer", STUDENT_MIXERS)
def test_every_mixer_learns_from_each_objective(mixer: str, teacher: Make, text: Text) -> None:
    """A few steps of plain descent lower each loss."""
    model = teacher()
    tokens = text(2, 17, 7)
    for config in (Alignment(), Alignment(target="block"), Distillation(ce_weight=0.0)):
        student = student_of(model, mixer)
        optimiser = torch.optim.AdamW(student.parameters(), lr=1e-3)
        seen = []
        for _ in range(4):
            loss, _ = loss_of(config, student, model, tokens, shifted(tokens))
            seen.append(float(loss.detach()))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert seen[-1] < seen[0]


def test_the_teacher_is_not_trained_and_no_part_of_what_is(teacher: Make, text: Text) -> None:
    model = teacher()
    student = student_of(model)
    objective = Distillation().build(student, model)
    own = {id(parameter) for parameter in student.parameters()}
    assert {id(parameter) for parameter in objective.parameters()} == own
    loss, _ = objective(text(1, 5, 0), text(1, 5, 1), None, label_share=1.0, row_share=1.0)
    loss.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.watch is None


def test_what_a_stage_trains(teacher: Make) -> None:
    student = student_of(teacher(), "gdn,full")
    names = [name for name, _ in student.named_parameters()]

    def trained(**changes: object) -> set[str]:
        stage = Stage.model_validate(
            {"name": "a", "objective": {"kind": "language"}, "steps": 1, **changes}
        )
        factors = stage.prepare(student)
        assert set(factors.values()) <= {0.5}
        assert all("mixers" not in place_of(student.config, name) for name in factors)
        return {name for name, p in student.named_parameters() if p.requires_grad}

    assert trained(other_rate=0.5) == set(names)
    blocks = {name for name in names if name.startswith("blocks.")}
    assert trained(trained="blocks", other_rate=0.5) == blocks
    mixers = {name for name in blocks if ".mixer." in name}
    assert trained(trained="mixers") == mixers
    assert trained(trained="linear_mixers") == {n for n in mixers if not n.startswith("blocks.1.")}
    with pytest.raises(ValueError, match="trained: 'linear_mixers' is not allowed for stage 'a'"):
        Stage.model_validate(
            {"name": "a", "objective": {"kind": "language"}, "steps": 1, "trained": "linear_mixers"}
        ).prepare(teacher())


def test_models_that_do_not_fit_are_refused(teacher: Make) -> None:
    model = teacher()
    with pytest.raises(ValueError, match="vocab_size: 31 of the student must be the teacher's, 29"):
        Distillation().build(teacher(vocab_size=31), model)
    with pytest.raises(ValueError, match="width: 48 of the student"):
        Alignment().build(teacher(width=48), model)
    with pytest.raises(ValueError, match="pattern: 'full' of the student is the teacher's"):
        Alignment().build(teacher(), model)
    with pytest.raises(ValueError, match="ce_weight: 0 is not allowed with kl_weight 0"):
        Distillation(ce_weight=0, kl_weight=0)
