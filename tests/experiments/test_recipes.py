"""Every recipe names a task that exists and a model that fits it, and takes a few steps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.experiments import recipes
from lt2theory.experiments.demo import questions
from lt2theory.experiments.recipes import distance_probe, parity, state_based_recall, word_problem
from lt2theory.models import LoopedModel
from lt2theory.runs import config_hash, run_status
from lt2theory.training import CurriculumConfig, load_model, resolve, run_curriculum

VARIANTS = {
    **{name: recipe() for name, recipe in recipes().items()},
    "parity, positive": parity(negative_eigenvalues=False),
    "S3, one loop": word_problem(num_loops=1),
    "S3, rescan": word_problem(loop_state="rescan"),
    "A5, three loops": word_problem("A5", num_loops=3),
    **{
        f"distance, T={loops}, beyond {beyond}": distance_probe(num_loops=loops, beyond=beyond)
        for loops in (1, 4)
        for beyond in (False, True)
    },
    "recall, final": state_based_recall(supervision="final"),
    "recall, all pointers": state_based_recall(supervision="all_pointers"),
}

TUNED = {
    "model.init_std",
    "model.ffn_width",
    "optimiser.learning_rate",
    "optimiser.schedule",
    "optimiser.betas",
}
"""What the search varies and its winners differ in."""


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, f"{path}.{key}".lstrip("."))
    else:
        yield path, value


def differences(one: CurriculumConfig, other: CurriculumConfig) -> set[str]:
    first, second = (dict(leaves(config.to_json())) for config in (one, other))
    return {name for name in first | second if first.get(name) != second.get(name)}


def test_another_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(KeyError, match="recipe: 's33' is not allowed, perhaps you meant s3"):
        recipes()["s33"]


def test_the_command_line_offers_them() -> None:
    assert list(recipes()) == [
        "parity",
        "s3",
        "s3-rescan",
        "s3-one-loop",
        "distance-probe",
        "recall",
    ]


@pytest.mark.parametrize("name", VARIANTS)
def test_a_recipe_resolves_and_its_model_reads_every_stage(name: str) -> None:
    config = resolve(VARIANTS[name])
    task = config.task.create()
    model = LoopedModel(config.model)
    for stage in {*config.stages, *config.test_stages}:
        batch = task.batch(stage=stage, split="train", seed=0, index=0, size=2)
        with torch.no_grad():
            logits = model(torch.from_numpy(batch.inputs))
        assert logits.shape == (*batch.inputs.shape, task.vocab_size)
        assert logits.isfinite().all()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_recipe_takes_a_few_steps(name: str, tmp_path: Path, tiny: Any) -> None:
    config = tiny(VARIANTS[name])
    longer = CurriculumConfig.model_validate(config.model_dump() | {"step_budget": 2})
    summary = run_curriculum(longer, tmp_path)
    assert (summary.status, summary.steps) == ("budget_exhausted", 2)
    assert {test.stage for test in summary.test} == {config.stages[0], *config.test_stages}
    assert run_status(tmp_path) == "done"
    _, resolved = load_model(tmp_path)
    assert resolved == resolve(longer)


@pytest.mark.parametrize(
    ("one", "other", "changed"),
    [
        (parity(negative_eigenvalues=True), parity(negative_eigenvalues=False), {
            "model.negative_eigenvalues", "label"}),
        (word_problem(loop_state="accumulate"), word_problem(loop_state="rescan"), {
            "model.loop_state", "label", *TUNED}),
        (word_problem(num_loops=1, loop_state="rescan"), word_problem(loop_state="rescan"), {
            "model.num_loops", "label", "optimiser.weight_decay", *TUNED}),
        (distance_probe(beyond=True), distance_probe(), {"stages", "test_stages", "label"}),
        (state_based_recall(), state_based_recall(seed=1), {"seed"}),
        (state_based_recall(), state_based_recall(supervision="final"), {
            "task.knobs.supervision", "label"}),
    ],
)  # fmt: skip
def test_paired_arms_differ_in_one_thing(
    one: CurriculumConfig, other: CurriculumConfig, changed: set[str]
) -> None:
    assert {name.removesuffix(".0").removesuffix(".1") for name in differences(one, other)} == (
        changed
    )


@pytest.mark.parametrize(("loops", "window", "stages"), [(1, 8, (8,)), (4, 8, (8, 15, 22, 29)),
                                                         (3, 5, (5, 9, 13))])  # fmt: skip
def test_the_distance_probe_grows_up_to_its_reach(
    loops: int, window: int, stages: tuple[int, ...]
) -> None:
    inside = distance_probe(num_loops=loops, window=window)
    beyond = distance_probe(num_loops=loops, window=window, beyond=True)
    assert (inside.stages, inside.test_stages) == (stages, (stages[-1] + 1,))
    assert (beyond.stages, beyond.test_stages) == ((*stages, stages[-1] + 1), ())


def test_the_demo_asks_what_was_promised() -> None:
    asked = {question.name: question.configs for question in questions()}
    assert list(asked) == ["parity", "word_problem", "distance", "recall"]
    arms = {(config.label, config.seed) for config in asked["word_problem"]}
    assert len(arms) == len(asked["word_problem"]) == 15
    every = [resolve(config) for configs in asked.values() for config in configs]
    names = {(config.task.name, config.label, config.seed) for config in every}
    assert len(names) == len(every), "two runs of one task could not be told apart"
    assert {config.threads for config in every} == {1}


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("parity", "ddde0bcfbe13"),
        ("s3", "990b3d138420"),
        ("s3-rescan", "bf01faba4156"),
        ("s3-one-loop", "deca09d232e1"),
        ("distance-probe", "66c38c768a1a"),
        ("recall", "ba33db731d90"),
    ],
)
def test_runs_from_before_younger_fields_keep_their_hash(name: str, digest: str) -> None:
    """Hashes as they were before `start` and the younger fields of the model came."""
    assert config_hash(resolve(recipes()[name]()).to_json()) == digest
