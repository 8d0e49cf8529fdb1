"""Recipe B killed in each of its stages goes on to the same weights."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from lt2theory.linearize.engine import run_recipe
from lt2theory.linearize.recipe_b import recipe_b
from lt2theory.linearize.results import load_student
from lt2theory.linearize.sources import Sources
from lt2theory.linearize.teachers import frozen
from lt2theory.models import LoopedModel
from lt2theory.runs import RunFolder
from lt2theory.training.lm import Execution
from lt2theory.training.lm.step import LmStepper
from lt2theory.training.text import Corpus, CorpusConfig, prepare

Make = Callable[..., LoopedModel]
HOW = Execution(checkpoint_every=3, threads=1)
RECIPE = recipe_b(
    "gdn",
    (1,),
    tokens=13 * 160,
    length=16,
    lengths=(32, 64),
    tokens_per_step=64,
    dtype="float32",
    calibration_length=48,
    calibration_windows=1,
    recovery_windows=1,
    recovery_length=24,
)


class Killed(BaseException):
    """Ends a process as SIGKILL would: nothing is saved."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    prepare(CorpusConfig(sources=("excerpt",), piece_bytes=600, eval_share=0.3), folder)
    return Corpus(folder)


@pytest.fixture
def sources(teacher: Make, corpus: Corpus) -> Sources:
    return Sources(frozen(teacher("ouro", vocab_size=258).float(), "tiny"), corpus)


def tensors(folder: Path) -> dict[str, bytes]:
    return {
        name: parameter.detach().numpy().tobytes()
        for name, parameter in load_student(folder).named_parameters()
    }


def test_a_stage_killed_at_a_random_step_ends_in_the_same_bytes(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of loops are a function of the step: what went over to the last loop goes on."""
    undisturbed = run_recipe(RECIPE, HOW, sources, folder=tmp_path / "whole")
    apply, random = LmStepper.apply, Random(5)
    left = {
        stage.name: random.randint(1, stage.run.steps)
        for stage in undisturbed.stages
        if stage.name != "continuation-32"  # as the one after it
    }

    def killed(self: LmStepper, rate: float) -> None:
        apply(self, rate)
        name = self.config.label
        left[name] = left.get(name, 0) - 1
        if not left[name]:
            raise Killed

    monkeypatch.setattr(LmStepper, "apply", killed)
    folder = tmp_path / "killed"
    for _ in range(3):
        with pytest.raises(Killed):
            run_recipe(RECIPE, HOW, sources, folder=folder)
    found = run_recipe(RECIPE, HOW, sources, folder=folder)
    assert [one.recovery for one in found.stages] == [one.recovery for one in undisturbed.stages]
    assert tensors(folder) == tensors(tmp_path / "whole")
    metrics = [
        list(RunFolder.open(one / "stages" / "02-hybrid").metrics())
        for one in (folder, tmp_path / "whole")
    ]
    assert metrics[0] == metrics[1]
    last = metrics[0][-1]["metrics"]
    assert last["kl"] == last["loop_3_kl"] == last["loss"] != last["loop_1_kl"]
