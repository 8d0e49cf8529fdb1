from typing import Any

import pytest
import torch

from lt2theory.training import Candidate, Evaluation, Interval, resolve, select_learning_rate
from lt2theory.training.runtime import Runtime
from lt2theory.training.selection import SEED_OFFSET, best_rate, new_model
from lt2theory.training.signals import StopRequest


def trial(rate: float, accuracy: float | None, loss: float = 1.0, seed: int = 0) -> Candidate:
    interval = Interval(low=0.0, high=1.0)
    evaluation = None
    if accuracy is not None:
        evaluation = Evaluation(
            n=64,
            scored_accuracy=accuracy,
            scored_interval=interval,
            sequence_accuracy=accuracy,
            sequence_interval=interval,
            token_accuracy=accuracy,
            loss=loss,
            scored_loss=loss,
        )
    return Candidate(
        learning_rate=rate, seed=seed, steps=5, diverged=accuracy is None, evaluation=evaluation
    )


@pytest.mark.parametrize(
    ("trials", "best"),
    [
        ([], 0.5),
        ([trial(0.1, 0.6), trial(0.2, 0.7), trial(0.3, 0.65)], 0.2),
        ([trial(0.1, 0.7, 0.9), trial(0.2, 0.7, 0.4)], 0.2),
        ([trial(0.2, 0.7), trial(0.1, 0.7)], 0.1),
        ([trial(0.2, None), trial(0.1, 0.1)], 0.1),
        ([trial(0.2, 0.9, seed=1), trial(0.2, None, seed=2), trial(0.1, 0.3)], 0.1),
        ([trial(0.2, None), trial(0.1, None)], 0.1),
        ([trial(0.1, 0.9), trial(0.1, 0.5, seed=1), trial(0.2, 0.6), trial(0.2, 0.6, seed=1)], 0.1),
        ([trial(0.1, 0.9), trial(0.1, 0.2, seed=1), trial(0.2, 0.6), trial(0.2, 0.6, seed=1)], 0.2),
    ],
)
def test_the_best_rate(trials: list[Candidate], best: float) -> None:
    assert best_rate(trials, 0.5) == best


def test_every_candidate_gets_the_same_steps_and_seeds(make_config: Any) -> None:
    config = make_config(learning_rates=(1e-2, 1e-9), selection_steps=25, selection_seeds=2, seed=7)
    rate, trials = select_learning_rate(config)
    assert rate == 1e-2
    seeds = {7 + SEED_OFFSET, 7 + 2 * SEED_OFFSET}
    assert {(t.learning_rate, t.seed) for t in trials} == {
        (r, seed) for r in (1e-2, 1e-9) for seed in seeds
    }
    assert {t.steps for t in trials} == {25}
    assert all(t.evaluation is not None and t.evaluation.n == 64 for t in trials)
    assert select_learning_rate(config) == (rate, trials)


def test_the_test_split_is_not_read(make_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks import Task

    splits: list[str] = []
    draw = Task.batch

    def spy(self: Task, **arguments: Any) -> Any:
        splits.append(arguments["split"])
        return draw(self, **arguments)

    monkeypatch.setattr(Task, "batch", spy)
    select_learning_rate(make_config(learning_rates=(1e-2,), selection_steps=3))
    assert splits == ["train", "train", "train", "eval"]


def test_tried_candidates_are_not_tried_again(make_config: Any) -> None:
    config = make_config(learning_rates=(1e-2, 3e-3), selection_steps=2)
    kept = trial(1e-2, 1.0, seed=SEED_OFFSET)
    told: list[Candidate] = []
    rate, trials = select_learning_rate(config, tried=(kept,), on_candidate=told.append)
    assert rate == 1e-2
    assert trials == (kept, *told)
    assert [t.learning_rate for t in told] == [3e-3]


def test_without_candidates_the_configured_rate_is_used(make_config: Any) -> None:
    assert select_learning_rate(make_config()) == (1e-2, ())


def test_a_diverging_candidate_is_recorded(make_config: Any) -> None:
    config = make_config(learning_rates=(1e30, 1e-2), selection_steps=8)
    rate, trials = select_learning_rate(config)
    assert rate == 1e-2
    assert [t.diverged for t in trials] == [True, False]
    assert trials[0].evaluation is None


def test_a_choice_can_be_interrupted(make_config: Any) -> None:
    stop = StopRequest()
    stop.requested = True
    with pytest.raises(KeyboardInterrupt):
        select_learning_rate(make_config(learning_rates=(1e-2,)), stop=stop)


def test_models_differ_by_seed_alone(make_config: Any) -> None:
    runtime = Runtime.of("cpu", "float32")
    before = torch.get_rng_state()
    weights = [
        new_model(resolve(make_config(seed=seed)), runtime).embedding.weight for seed in (1, 1, 2)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.get_rng_state(), before)
