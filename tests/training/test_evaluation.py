from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from torch import nn

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training import Runtime, evaluate, resolve, wilson
from lt2theory.training.evaluation import accuracy_curves, predict, summarise
from lt2theory.training.passes import PASS
from lt2theory.training.selection import new_model
from tasks import Batch

CPU = Runtime(torch.device("cpu"))


def answers(seed: int, n: int = 37, length: int = 9) -> tuple[np.ndarray, ...]:
    """Random right answers, losses, labels and scored positions, at least one scored a row."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n, length)) < 0.6
    mask[:, 4] = True
    scored = mask & (rng.random((n, length)) < 0.5)
    scored[:, 4] = True
    return rng.random((n, length)) < 0.7, rng.random((n, length)), mask, scored


def slow_accuracies(correct: Any, mask: Any, scored: Any) -> dict[str, float]:
    """The definitions, instance by instance."""
    shares, whole, tokens = [], [], []
    for row in range(len(mask)):
        labelled = [t for t in range(mask.shape[1]) if mask[row, t]]
        graded = [t for t in labelled if scored[row, t]]
        shares.append(sum(bool(correct[row, t]) for t in graded) / len(graded))
        whole.append(all(correct[row, t] for t in labelled))
        tokens += [bool(correct[row, t]) for t in labelled]
    return {
        "scored_accuracy": sum(shares) / len(shares),
        "sequence_accuracy": sum(whole) / len(whole),
        "token_accuracy": sum(tokens) / len(tokens),
    }


@pytest.mark.parametrize("seed", range(5))
def test_accuracies_equal_their_definitions(seed: int) -> None:
    correct, losses, mask, scored = answers(seed)
    found = summarise(correct, losses, mask, scored)
    for name, value in slow_accuracies(correct, mask, scored).items():
        assert getattr(found, name) == pytest.approx(value, abs=1e-12)
    assert found.n == 37
    assert found.loss == pytest.approx(losses[mask].mean())
    assert found.scored_loss == pytest.approx(losses[scored].mean())
    assert found.scored_interval == wilson(found.scored_accuracy, 37)


@pytest.mark.parametrize("seed", range(5))
def test_curves_equal_their_definitions(seed: int) -> None:
    correct, _, mask, _ = answers(seed)
    mask[:, 2] = False
    curves = accuracy_curves(correct, mask)
    assert 2 not in curves.positions
    for place, t in enumerate(curves.positions):
        rows = [row for row in range(len(mask)) if mask[row, t]]
        right = sum(bool(correct[row, t]) for row in rows) / len(rows)
        assert curves.position_accuracy[place] == pytest.approx(right)
        spotless = [
            all(correct[row, s] for s in range(t + 1) if mask[row, s]) for row in range(len(mask))
        ]
        assert curves.exact_prefix_accuracy[place] == pytest.approx(np.mean(spotless))


def test_numbers_that_are_not_finite_become_none() -> None:
    correct, losses, mask, scored = answers(0)
    losses[0, 4] = np.inf
    found = summarise(correct, losses, mask, scored)
    assert found.loss is None
    assert found.scored_loss is None


@pytest.mark.parametrize(("successes", "n"), [(0, 64), (1, 64), (57, 64), (64, 64), (3687, 4096)])
def test_wilson_equals_scipys_for_whole_successes(successes: int, n: int) -> None:
    reference = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    found = wilson(successes / n, n)
    assert (found.low, found.high) == (reference.low, reference.high)


@given(st.floats(0, 1), st.integers(1, 5000))
def test_wilson_holds_the_mean_and_stays_in_range(mean: float, n: int) -> None:
    found = wilson(mean, n)
    assert -1e-12 <= found.low <= mean + 1e-6 / n
    assert mean - 1e-6 / n <= found.high <= 1 + 1e-12


def test_wilson_is_conservative_for_shares() -> None:
    """Means of shares, each the mean of 4 answers, fall into the interval more often than 95 %."""
    rng = np.random.default_rng(0)
    n, trials, p = 256, 2000, 0.9
    means = rng.binomial(4 * n, p, trials) / (4 * n)
    values, counts = np.unique(means, return_counts=True)
    intervals = [wilson(float(value), n) for value in values]
    inside = [interval.low <= p <= interval.high for interval in intervals]
    assert np.average(inside, weights=counts) > 0.99


class Oracle(LoopedModel):
    """Answers with the token itself, or with NaN for token 3."""

    def __init__(self) -> None:
        super().__init__(LoopedConfig(vocab_size=5, width=4, num_heads=1))
        self.calls: list[int] = []

    def forward(self, tokens: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        assert not self.training
        self.calls.append(len(tokens))
        logits = 2.0 * nn.functional.one_hot(tokens, 5).double()
        logits[tokens == 3] = torch.nan
        return logits


def oracle_batch() -> Batch:
    inputs = np.array([[0, 1, 2], [3, 3, 4], [4, 0, 0]])
    targets = np.array([[0, -100, 2], [0, 3, 4], [-100, 1, 0]])
    return Batch(inputs, targets, targets >= 0)


def test_predictions_are_compared_at_labels_only_and_nan_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PASS, "cpu", (100, 2 * 3 * 5))
    oracle = Oracle()
    correct, losses = predict(oracle, oracle_batch(), CPU)
    assert oracle.calls == [2, 1]
    assert oracle.training
    np.testing.assert_array_equal(correct, [[1, 0, 1], [0, 0, 1], [0, 0, 1]])
    right = np.log(1 + 4 * np.exp(-2))
    wrong = right + 2
    expected = [[right, 0, right], [np.nan, np.nan, right], [0, wrong, right]]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_evaluation_does_not_depend_on_the_rows_of_a_pass(
    make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = resolve(make_config())
    task = config.task.create()
    model = new_model(config, CPU)
    batch = task.batch(stage=13, split="eval", size=65)
    whole, curves = evaluate(model, task, batch, CPU)
    monkeypatch.setitem(PASS, "cpu", (7 * 13, 1 << 20))
    parts, other = evaluate(model, task, batch, CPU)
    assert parts.scored_accuracy == whole.scored_accuracy
    assert parts.loss == pytest.approx(whole.loss, rel=1e-5)
    assert other == curves
