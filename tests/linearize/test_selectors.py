"""Scores of layers without training, choices from them, and layers put back."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.linearize.choice import (
    bookend_layers,
    highest_layers,
    score_table,
    uniform_layers,
)
from lt2theory.linearize.construct import build_student
from lt2theory.linearize.divergence import recovery
from lt2theory.linearize.hybrids import restored, restored_pattern, student_config
from lt2theory.linearize.selectors import (
    attention_beyond,
    attention_distance,
    attention_entropy,
    layer_scores,
)
from lt2theory.linearize.starts import Start
from lt2theory.linearize.swaps import replacement_scores, restoration_scores
from lt2theory.linearize.views import teacher_views
from lt2theory.models import LoopedModel
from lt2theory.ops.factors import AttentionInputs

Make = Callable[..., LoopedModel]
Text = Callable[[int, int, int], Tensor]


def drawn(*, window: int | None = None) -> AttentionInputs:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(2, 11, heads, 4, generator=generator, dtype=torch.float64)
        for heads in (4, 2, 2)
    )
    return AttentionInputs(2 * q, k, v, window=window)


@pytest.mark.parametrize("window", [None, 4])
def test_scores_are_their_formulas(window: int | None) -> None:
    inputs = drawn(window=window)
    entropy, distance, beyond = torch.zeros(3, 4, dtype=torch.float64)
    for b in range(2):
        for h in range(4):
            for t in range(11):
                first = 0 if window is None else max(0, t - window + 1)
                scores = [
                    float(inputs.q[b, t, h] @ inputs.k[b, j, h // 2]) / 2
                    for j in range(first, t + 1)
                ]
                total = sum(math.exp(s) for s in scores)
                p = {first + i: math.exp(s) / total for i, s in enumerate(scores)}
                distance[h] += sum(w * (t - j) for j, w in p.items()) / 22
                if t:
                    h_t = -sum(w * math.log(w) for w in p.values())
                    entropy[h] += h_t / math.log(len(p)) / 20
                if t >= 3:
                    beyond[h] += sum(w for j, w in p.items() if t - j >= 3) / 16
    torch.testing.assert_close(attention_entropy(inputs), entropy, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(attention_distance(inputs), distance, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(attention_beyond(inputs, 3), beyond, rtol=1e-9, atol=1e-12)


def test_extremes() -> None:
    same = torch.zeros(1, 8, 1, 2, dtype=torch.float64)
    flat = AttentionInputs(same, same, same)
    assert float(attention_entropy(flat)) == pytest.approx(1.0)
    sharp = AttentionInputs(same + 1e3, same.clone(), same)
    sharp.k[:, 0] = 1e3  # everything looks at the first token
    assert float(attention_entropy(sharp)) == pytest.approx(0.0, abs=1e-12)
    assert float(attention_distance(sharp)) == pytest.approx(3.5)
    assert float(attention_beyond(sharp, 2)) == pytest.approx(1.0)
    assert float(attention_beyond(sharp, 8)) == 0.0
    one = AttentionInputs(same[:, :1], same[:, :1], same[:, :1])
    assert float(attention_entropy(one)) == 0.0
    with pytest.raises(ValueError, match="window: 0 must be >= 1"):
        attention_beyond(flat, 0)


def test_scores_are_summed_over_loops(teacher: Make, text: Text) -> None:
    model, tokens = teacher("ouro"), text(2, 14, 0)
    views = list(teacher_views(model, tokens))
    scores = layer_scores(views, window=4)
    for layer in range(2):
        here = [v.prepared for v in views if v.layer == layer]
        assert len(here) == 3
        expected = sum(float(attention_distance(one).mean()) for one in here)
        assert float(scores["distance"][layer]) == pytest.approx(expected)
        expected = sum(float(attention_beyond(one, 4).amax()) for one in here)
        assert float(scores["reach"][layer]) == pytest.approx(expected)
    mixed = teacher(pattern="full,gdn,full")
    assert float(layer_scores(teacher_views(mixed, tokens))["sharpness"][1]) == 0.0


def test_choices() -> None:
    scores = torch.tensor([1.0, 3.0, 2.0, 3.0])
    assert highest_layers(scores, 1) == (1,)  # of equals the one nearer to the input
    assert highest_layers(scores, 3) == (1, 2, 3)
    assert uniform_layers(28, 7) == (0, 4, 8, 12, 16, 20, 24)
    assert bookend_layers(9, 3) == (0, 4, 8)
    with pytest.raises(ValueError, match="count: 5 must be >= 1 and <= 4"):
        highest_layers(scores, 5)
    with pytest.raises(ValueError, match="must be finite"):
        highest_layers(scores * math.nan, 1)
    with pytest.raises(ValueError, match="count: 1 must be >= 2"):
        bookend_layers(9, 1)


def test_the_spread_stands_beside_the_mean() -> None:
    scores = torch.tensor([[3.0, 1.0, 2.0], [3.0, 2.5, 1.0], [4.0, 1.0, 1.5]])
    table = score_table(scores, 2)
    assert table["chosen"].tolist() == [True, True, False]
    assert table["share"].tolist() == pytest.approx([1.0, 1 / 3, 2 / 3])
    assert table.loc[1, ["lowest", "highest"]].tolist() == [1.0, 2.5]


def test_layers_are_put_back(teacher: Make, text: Text) -> None:
    model = teacher("ouro")
    config = student_config(model.config, "gdn")
    student = build_student(model, config, calibration=text(4, 30, 0)).model.eval()
    tokens = text(2, 30, 1)
    with torch.no_grad():
        student.norm.weight.mul_(1.0)  # the rest is the student's, whatever was done to it
    both = restored(student, model, [0, 1])
    assert both.config.pattern == "full,full"
    assert torch.equal(both(tokens), model(tokens))
    one = restored(student, model, [1])
    assert one.config.pattern == "gdn,full"
    assert not one.training
    before = student.blocks[0].mixer.q_proj.weight.clone()
    with torch.no_grad():
        one.blocks[0].mixer.q_proj.weight.zero_()
    assert torch.equal(student.blocks[0].mixer.q_proj.weight, before)  # a model of its own
    with pytest.raises(ValueError, match="layers: 2 must be >= 0 and < 2"):
        restored(student, model, [2])


def test_patterns_by_loop_are_kept(teacher: Make) -> None:
    model = teacher("ouro")
    student = student_config(model.config, "gdn,window(8)->kda,full")
    assert (
        restored_pattern(student, model.config, [0]) == "full,window(8)->full,full->full,window(8)"
    )
    assert restored_pattern(student, model.config, [0, 1]) == "full,full"


def test_scores_by_replacing_and_restoring(teacher: Make, text: Text) -> None:
    model, tokens = teacher(), text(2, 30, 1)
    config = student_config(model.config, "gdn")
    start = Start(inputs="teacher")
    student = build_student(model, config, start, calibration=text(4, 30, 0)).model.eval()
    replaced = replacement_scores(model, student, tokens)
    gained = restoration_scores(model, student, tokens)
    whole = recovery(model, student, tokens).kl
    for layer in range(3):
        alone = build_student(
            model,
            student_config(
                model.config, ",".join("gdn" if i == layer else "full" for i in range(3))
            ),
            start,
            calibration=text(4, 30, 0),
        ).model
        assert float(replaced[layer]) == pytest.approx(recovery(model, alone, tokens).kl, rel=1e-9)
        kept = recovery(model, restored(student, model, [layer]), tokens).kl
        assert float(gained[layer]) == pytest.approx(whole - kept, rel=1e-9)
