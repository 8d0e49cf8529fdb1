"""Gates and output projections in closed form, against what they should find."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.linearize.gates import gate_form, ridge, set_gate, silu_inverse
from lt2theory.linearize.outputs import alignment, fit_output, head_scales, solved_output
from lt2theory.linearize.starts import STUDENT_MIXERS, Start
from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions

OPTIONS = MixerOptions(width=12, num_heads=3, head_dim=4, value_dim=5, num_kv_heads=3)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_scales_are_found_a_head() -> None:
    student = draw(40, 3, 5, seed=0)
    factors = torch.tensor([2.0, -0.5, 0.0], dtype=torch.float64)
    teacher = student * factors[:, None]
    torch.testing.assert_close(head_scales(student, teacher), factors)
    noisy = teacher + draw(40, 3, 5, seed=1)
    best = head_scales(student, noisy)
    error = (student * best[:, None] - noisy).square().sum()
    for change in (0.01, -0.01):  # no other factor is nearer
        for head in range(3):
            other = best.clone()
            other[head] += change
            assert (student * other[:, None] - noisy).square().sum() > error
    silent = torch.zeros_like(student)
    assert head_scales(silent, teacher).tolist() == [1.0, 1.0, 1.0]


def test_the_output_is_solved_for() -> None:
    heads, weight = draw(200, 15, seed=2), draw(12, 15, seed=3)
    target = heads @ weight.T
    start = draw(12, 15, seed=4)
    found = solved_output(heads, target, start, 1e-9)
    torch.testing.assert_close(found, weight, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        solved_output(heads, target, start, 1e9), start, rtol=1e-6, atol=1e-6
    )
    few = heads[:3]  # what the text does not show stays as it is
    found = solved_output(few, target[:3], start, 1e-9)
    unseen = torch.linalg.svd(few).Vh[3:]
    torch.testing.assert_close(found @ unseen.T, start @ unseen.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", ["copied", "scaled", "solved"])
def test_every_fit_is_at_least_as_near(how: str) -> None:
    heads, teacher = draw(90, 3, 5, seed=5), draw(90, 3, 5, seed=6)
    teacher = teacher + 2.0 * heads
    out = torch.nn.Linear(15, 12, bias=False).double()
    target = out(teacher.flatten(1)).detach()
    before = alignment(0, out(heads.flatten(1)).detach(), target)
    fit_output(out, Start.model_validate({"output": how}), heads, teacher, target)
    after = alignment(0, out(heads.flatten(1)).detach(), target)
    if how == "copied":
        assert after == before
    else:
        assert after.error < 0.6 * before.error
        assert after.cosine > 0.85


def test_silu_is_inverted() -> None:
    y = torch.logspace(-9, 3, 50, dtype=torch.float64)
    torch.testing.assert_close(F.silu(silu_inverse(y)), y, rtol=1e-9, atol=0)
    assert float(silu_inverse(torch.zeros(1))) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("biased", [False, True])
def test_ridge_regression(biased: bool) -> None:
    x, rows = draw(60, 4, seed=7) + 1.0, draw(2, 4, seed=8)
    offset = torch.tensor([3.0, -2.0], dtype=torch.float64) * biased
    found, constant = ridge(x, x @ rows.T + offset, 1e-10, biased=biased)
    torch.testing.assert_close(found, rows, rtol=1e-6, atol=1e-6)
    assert (constant is not None) is biased
    if constant is not None:
        torch.testing.assert_close(constant, offset, rtol=1e-6, atol=1e-6)


def gates_of(mixer: LinearMixer, x: Tensor, form: str) -> Tensor:
    """What every channel of every head is multiplied by."""
    project: Any = mixer.ogate_preact if hasattr(mixer, "ogate_preact") else mixer.g_proj
    act = F.silu if form == "silu" else torch.sigmoid
    return act(project(x)).unflatten(-1, (3, -1)).detach()


@pytest.mark.parametrize("name", STUDENT_MIXERS)
@pytest.mark.parametrize("rank", [5, 2])
def test_gates_follow_the_size_of_the_heads(name: str, rank: int) -> None:
    options = MixerOptions(**{**vars(OPTIONS), "value_dim": rank, "head_dim": 4})
    mixer = MIXERS[name](options).double()
    assert isinstance(mixer, LinearMixer)
    mixer.initialise(torch.Generator().manual_seed(0), 0.5)
    x = draw(300, 12, seed=9)
    rows = draw(3, 12, seed=10) * 0.3
    size = (x @ rows.T + 2.0).clamp(min=0.05)
    x = torch.cat([x, torch.ones(300, 1)], 1)[:, 1:]  # a constant direction
    size = (x @ rows.T + 2.0).clamp(min=0.05)
    heads = F.normalize(draw(300, 3, rank, seed=11), dim=-1) * size[:, :, None]
    fit = set_gate(mixer, Start(ridge=1e-6), x, heads)
    form = gate_form(mixer)
    if form is None:
        assert name in ("deltanet", "linear_attention")
        assert fit is None
        return
    gates = gates_of(mixer, x, form)
    assert (gates - gates[..., :1]).abs().max() < 1e-9  # all channels of a head alike
    if name == "kda" and rank < 3:  # three heads through two channels
        assert fit is not None
        return
    assert fit is not None
    assert fit > 0.8
    for head in range(3):
        pair = torch.stack([gates[:, head, 0], size[:, head]])
        assert float(torch.corrcoef(pair)[0, 1]) > 0.9


@pytest.mark.parametrize("name", ["gdn", "gla", "retnet", "kda", "mlstm"])
def test_open_gates_are_nearly_constant(name: str) -> None:
    mixer = MIXERS[name](OPTIONS).double()
    assert isinstance(mixer, LinearMixer)
    mixer.initialise(torch.Generator().manual_seed(0), 0.5)
    x = draw(100, 12, seed=12)
    x[:, 0] = 1.0
    assert set_gate(mixer, Start(gate="open", ridge=1e-8), x, draw(100, 3, 5, seed=13)) is None
    form = gate_form(mixer)
    assert form is not None
    gates = gates_of(mixer, x, form)
    expected = 1.0 if form == "silu" else 0.5
    torch.testing.assert_close(gates, torch.full_like(gates, expected), rtol=1e-3, atol=1e-3)


def test_closed_gates_give_nothing() -> None:
    mixer = MIXERS["gdn"](OPTIONS).double()
    assert isinstance(mixer, LinearMixer)
    set_gate(mixer, Start(gate="zero"), draw(9, 12, seed=0), draw(9, 3, 5, seed=1))
    assert not mixer.get_parameter("g_proj.weight").any()


def test_gates_can_still_learn() -> None:
    for how in ("fitted", "open"):
        mixer = MIXERS["kda"](OPTIONS).double()
        assert isinstance(mixer, LinearMixer)
        mixer.initialise(torch.Generator().manual_seed(0), 0.5)
        x = draw(50, 12, seed=2)
        set_gate(mixer, Start.model_validate({"gate": how}), x, draw(50, 3, 5, seed=3))
        project: Any = mixer.g_proj
        (project(x) * draw(50, 15, seed=4)).sum().backward()
        first, second = project[0].weight.grad, project[1].weight.grad
        dead = (first.abs().sum(1) == 0) & (second.abs().sum(0) == 0)
        assert not dead.any()
