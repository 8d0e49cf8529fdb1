"""Whole linearizations: every stage killed and gone on with, refusals, time, what is kept."""

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.linearize.construct import build_student
from lt2theory.linearize.divergence import recovery
from lt2theory.linearize.engine import run_recipe
from lt2theory.linearize.hybrids import student_config
from lt2theory.linearize.results import LinearizeSummary, load_start, load_student
from lt2theory.linearize.sources import Sources, plan, weights_fingerprint
from lt2theory.linearize.teachers import Teacher, load_teacher, made_by
from lt2theory.linearize.texts import eval_tokens
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training import Interrupted
from lt2theory.training.lm import Execution
from lt2theory.training.lm.step import LmStepper
from tests.kernel_runs import name_kernels
from tests.linearize.runs import TEACHER, different, make_recipe, make_sources

# Another commit between the two halves of a run is no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* under another environment:UserWarning")

ROOT = Path(__file__).parents[2]
STAGES = {stage.name: stage.steps or 0 for stage in make_recipe().stages}
HOW = Execution(checkpoint_every=2, threads=1)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return make_sources(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def undisturbed(
    sources: Sources, tmp_path_factory: pytest.TempPathFactory
) -> tuple[LinearizeSummary, Path]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    return run_recipe(make_recipe(), HOW, sources, folder=folder), folder


class Killed(BaseException):
    """Ends a process as SIGKILL would: nothing is saved."""


def disturb(monkeypatch: pytest.MonkeyPatch, stage: str, step: int, how: str) -> None:
    """Let something happen once, right after a step of a stage."""
    apply = LmStepper.apply
    left = [step]

    def disturbed(self: LmStepper, rate: float) -> None:
        apply(self, rate)
        left[0] -= self.config.label == stage
        if left[0] == 0:
            left[0] = -1
            if how == "kill":
                raise Killed
            os.kill(os.getpid(), signal.Signals[how])

    monkeypatch.setattr(LmStepper, "apply", disturbed)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("how", ["kill", "SIGTERM", "SIGINT"])
def test_every_stage_goes_on_to_the_same_bytes(
    stage: str,
    how: str,
    sources: Sources,
    undisturbed: tuple[LinearizeSummary, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = random.Random(f"{stage} {how}").randint(1, STAGES[stage])
    with monkeypatch.context() as patch:
        disturb(patch, stage, step, how)
        if how == "kill":
            with pytest.raises(Killed):
                run_recipe(make_recipe(), HOW, sources, folder=tmp_path / "run")
        elif step < STAGES[stage] or stage != "instruction-distillation":
            with pytest.raises(Interrupted, match="the same command continues"):
                run_recipe(make_recipe(), HOW, sources, folder=tmp_path / "run")
    found = run_recipe(make_recipe(), HOW, sources, folder=tmp_path / "run")
    assert different(tmp_path / "run", undisturbed[1]) == []
    assert found.start == undisturbed[0].start
    assert [one.recovery for one in found.stages] == [one.recovery for one in undisturbed[0].stages]


def test_a_killed_process_goes_on_to_the_same_bytes(
    sources: Sources, undisturbed: tuple[LinearizeSummary, Path], tmp_path: Path
) -> None:
    """SIGKILL, in a process of its own, at a step behind the last checkpoint."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.linearize.killed", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [*command, "distillation", "3"], cwd=ROOT, env=environment, capture_output=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert not (tmp_path / "run" / "summary.json").exists()
    run_recipe(make_recipe(), HOW, sources, folder=tmp_path / "run")
    assert different(tmp_path / "run", undisturbed[1]) == []


def test_what_a_linearization_says(
    sources: Sources, undisturbed: tuple[LinearizeSummary, Path]
) -> None:
    summary, folder = undisturbed
    assert (summary.status, summary.pattern, summary.teacher) == ("finished", "gdn,full", "tiny")
    assert [one.name for one in summary.stages] == list(STAGES)
    assert summary.tokens == sum(STAGES.values()) * 4 * 33
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 3, 7, 12, 15, 18]
    student = load_student(folder)
    assert student.config.pattern == "gdn,full"
    assert load_student(folder / summary.stages[0].folder).config.pattern == "gdn"
    tokens = eval_tokens(sources.corpus, 2, 35)
    last = summary.stages[-1].recovery
    assert last is not None
    assert recovery(sources.teacher.model, student, tokens).kl == pytest.approx(last.kl)
    told = json.loads((folder / "stages/03-distillation/metrics.jsonl").read_text().splitlines()[0])
    assert {"loss", "ce", "kl", "agreement", "gradient_norm"} <= set(told["metrics"])
    again = run_recipe(make_recipe(), HOW, sources, folder=folder)
    assert again == summary


def test_steps_from_fixed_buffers_have_the_same_numbers(
    sources: Sources, undisturbed: tuple[LinearizeSummary, Path], tmp_path: Path
) -> None:
    """What a GPU records as graphs, run one operation after the other."""
    recipe = make_recipe()
    how = Execution(cuda_graph=True, threads=1)
    found = run_recipe(recipe, how, sources, folder=tmp_path / "run")
    for one, other in zip(found.stages, undisturbed[0].stages, strict=True):
        assert one.run.loss == pytest.approx(other.run.loss, rel=2e-4)


def test_what_a_stage_leaves_alone(
    sources: Sources, undisturbed: tuple[LinearizeSummary, Path]
) -> None:
    """Mixers first, then blocks; a restored layer begins as the teacher's."""
    folder = undisturbed[1] / "stages"
    start = dict(_start(sources).named_parameters())
    first = dict(load_student(folder / "01-attention").named_parameters())
    second = dict(load_student(folder / "02-hidden").named_parameters())
    for name, parameter in first.items():
        assert torch.equal(parameter, start[name]) is (".mixer." not in name)
    for name, parameter in second.items():
        assert torch.equal(parameter, first[name]) is (not name.startswith("blocks."))


def _start(sources: Sources) -> torch.nn.Module:
    from lt2theory.linearize.texts import train_tokens

    teacher = sources.teacher.model
    config = student_config(teacher.config, "gdn", linear_rotation="off")
    tokens = train_tokens(sources.corpus, 2, 40)
    return build_student(teacher, config, calibration=tokens).model


def test_another_configuration_teacher_or_text_is_refused(
    sources: Sources, undisturbed: tuple[LinearizeSummary, Path], tmp_path: Path
) -> None:
    folder = undisturbed[1]
    with pytest.raises(ValueError, match="of another configuration"):
        run_recipe(make_recipe(seed=1), HOW, sources, folder=folder)
    other = make_sources(tmp_path / "other")
    with torch.no_grad():
        next(other.teacher.model.parameters())[0, 0] += 1
    with pytest.raises(ValueError, match="of another configuration"):
        run_recipe(make_recipe(), HOW, other, folder=folder)
    assert weights_fingerprint(other.teacher.model) != weights_fingerprint(sources.teacher.model)
    assert other.chat is not None
    other.chat.write_text(other.chat.read_text() * 2)
    fresh = Sources(sources.teacher, sources.corpus, other.chat)
    with pytest.raises(ValueError, match="of another configuration"):
        run_recipe(make_recipe(), HOW, fresh, folder=folder)


def test_a_stage_goes_on_from_no_other_student(sources: Sources, tmp_path: Path) -> None:
    """A stage's folder put in the place of another one is refused by its hash."""
    recipe = make_recipe()
    run_recipe(recipe, HOW, sources, folder=tmp_path / "one")
    changed = recipe.model_dump()
    changed["stages"][0]["optimiser"]["learning_rate"] = 2e-2
    other = make_recipe(stages=changed["stages"])
    run_recipe(other, HOW, sources, folder=tmp_path / "two")
    stages = tmp_path / "one" / "stages"
    (stages / "02-hidden").rename(tmp_path / "old")
    (tmp_path / "two" / "stages" / "02-hidden").rename(stages / "02-hidden")
    (tmp_path / "one" / "summary.json").unlink()
    with pytest.raises(ValueError, match="holds a stage run of another configuration"):
        run_recipe(recipe, HOW, sources, folder=tmp_path / "one")
    found = run_recipe(other, HOW, sources, folder=tmp_path / "one", overwrite=True)
    assert found.status == "finished"


def test_time_is_over_as_if_a_signal_had_come(
    sources: Sources, undisturbed: tuple[LinearizeSummary, Path], tmp_path: Path
) -> None:
    with pytest.raises(Interrupted, match="the same command continues"):
        run_recipe(make_recipe(), HOW, sources, folder=tmp_path / "run", seconds=0.0)
    run_recipe(make_recipe(), HOW, sources, folder=tmp_path / "run", seconds=1000.0)
    assert different(tmp_path / "run", undisturbed[1]) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pattern": "gdnn"}, "pattern: 'gdnn' is not allowed, perhaps you meant gdn "),
        ({"changes": {"widht": 3}}, "widht"),
        ({"stage": {"restore": [2]}}, "layers: 2 must be >= 0 and < 2"),
        ({"stage": {"sequence_length": 10**6}}, "'attention': sequence_length: 1000000 must be"),
        (
            {"recovery_length": 99999},
            "recovery_length: 99999 must be at most the .* recovery_windows 0",
        ),
        ({"calibration_length": 99999}, "calibration_length: 99999 must be at most"),
        ({"stage": {"evaluate_every": 1}}, None),
        ({"changes": {"num_layers": 1}}, "num_layers: 1 of the student must be the teacher's, 2"),
        ({"changes": {"num_loops": 2}}, "num_loops: 2 of the student must be the teacher's, 1"),
        ({"changes": {"width": 12}}, "width: 12 of the student must be the teacher's, 24"),
        ({"changes": {"tie_embeddings": True}}, "tie_embeddings: True of the student must be"),
        ({"changes": {"linear_head_dim": 8}}, "head_dim: 8 of the student must be the teacher's"),
        (
            {"changes": {"positions": "learned", "max_length": 8}},
            r"stages: 'attention': sequence_length: 33 is beyond [^\n]*$",
        ),
        ({"stage": {"restore": [0, 1]}}, "'attention': pattern: 'full,full' .* no mixer is left"),
        ({"pattern": "window", "changes": {}, "stage": {"trained": "linear_mixers"}}, "trained"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(
    changes: dict[str, Any], message: str | None, sources: Sources, tmp_path: Path
) -> None:
    recipe = make_recipe().model_dump()
    recipe["stages"] = recipe["stages"][:1]
    recipe["stages"][0].update(changes.pop("stage", {}))
    made = make_recipe(**{"stages": recipe["stages"], **changes})
    if message is None:
        run_recipe(made, HOW, sources, folder=tmp_path / "run")
        held_out = (tmp_path / "run/stages/01-attention/metrics.jsonl").read_text()
        assert "bits_per_byte" in held_out
        return
    with pytest.raises(ValueError, match=message):
        run_recipe(made, HOW, sources, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_teacher_of_another_vocabulary_is_refused(sources: Sources) -> None:
    """As one is that learnt a task, and not language."""
    small = LoopedModel(LoopedConfig(vocab_size=9, width=8, num_heads=1))
    other = dataclasses.replace(sources, teacher=Teacher("small", small, "memory"))
    with pytest.raises(ValueError, match=r"^teacher: knows 9 tokens, but .* is of \d+; must be"):
        plan(make_recipe(), other)


def test_a_student_that_is_no_number_has_diverged(sources: Sources, tmp_path: Path) -> None:
    recipe = make_recipe().model_dump()
    recipe["stages"] = recipe["stages"][:2]
    recipe["stages"][0]["optimiser"] = {"learning_rate": 1e30, "warmup_steps": 0}
    for _ in range(2):
        summary = run_recipe(make_recipe(**recipe), HOW, sources, folder=tmp_path / "run")
        assert summary.status == "diverged"
        assert [stage.recovery for stage in summary.stages] == [None]


def test_conversations_are_asked_for(sources: Sources, tmp_path: Path) -> None:
    bare = Sources(sources.teacher, sources.corpus)
    with pytest.raises(ValueError, match="chat: no file given, which stage 'instruction' reads"):
        run_recipe(make_recipe(), HOW, bare, folder=tmp_path / "run")
    (tmp_path / "chat.jsonl").write_text('{"messages": []}')
    empty = Sources(sources.teacher, sources.corpus, tmp_path / "chat.jsonl")
    with pytest.raises(ValueError, match="must hold a turn"):
        run_recipe(make_recipe(), HOW, empty, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("place", "stopped", "message"),
    [
        ("start", ("attention", 1), r"start/model\.safetensors is damaged: its bytes are not"),
        ("stages/01-attention", ("hidden", 1), r"\.safetensors is damaged: its bytes are not"),
        ("stages/03-distillation", ("distillation", 4), None),
    ],
)
def test_a_wrong_bit_is_no_other_student(
    place: str,
    stopped: tuple[str, int],
    message: str | None,
    sources: Sources,
    undisturbed: tuple[LinearizeSummary, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In what a stage begins with it is refused; in a stage that goes on it costs a checkpoint."""
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        disturb(patch, *stopped, "SIGTERM")
        with pytest.raises(Interrupted):
            run_recipe(make_recipe(), HOW, sources, folder=folder)
    file = max((folder / place).rglob("*.safetensors"))
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    if message is not None:
        with pytest.raises(ValueError, match=message):
            run_recipe(make_recipe(), HOW, sources, folder=folder)
        return
    with pytest.warns(UserWarning, match="going back one checkpoint: .* is damaged"):
        run_recipe(make_recipe(), HOW, sources, folder=folder)
    assert different(folder, undisturbed[1]) == []


def test_a_student_can_be_a_teacher(
    undisturbed: tuple[LinearizeSummary, Path], sources: Sources
) -> None:
    again = load_teacher(undisturbed[1])
    assert again.source == "run"
    assert again.model.config.width == TEACHER["width"]
    assert made_by(undisturbed[1]).startswith("linearize run test, seed 0, configuration ")
    assert ", on cpu, source revision " in made_by(undisturbed[1])
    last = load_teacher(undisturbed[1] / undisturbed[0].stages[-1].folder)
    assert weights_fingerprint(last.model) == weights_fingerprint(again.model)


def test_kernels_of_a_gpu_are_left_out_on_a_cpu(
    undisturbed: tuple[LinearizeSummary, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(undisturbed[1], folder)
    name_kernels(folder / undisturbed[0].stages[-1].folder, "fla")
    tokens = torch.arange(14).reshape(2, 7)
    expected = load_student(undisturbed[1])
    for student in (load_student(folder), load_teacher(folder).model):
        assert student.config.backend == "auto"
        torch.testing.assert_close(student(tokens), expected(tokens))
    first = load_student(folder / undisturbed[0].stages[0].folder)
    config = first.config.model_copy(update={"backend": "triton"})
    assert load_start(folder, config, first.dtype)(tokens).isfinite().all()
