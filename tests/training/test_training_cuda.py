"""A curriculum run on a CUDA device: it learns, and a broken-off run ends as an undisturbed one."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lt2theory.training import CurriculumConfig, Runtime, resolve, run_curriculum
from lt2theory.training.draws import evaluation_batch
from lt2theory.training.evaluation import predict
from lt2theory.training.selection import new_model
from lt2theory.training.trainer import CurriculumTrainer

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_learns_and_resumes(
    make_config: Callable[..., CurriculumConfig],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
) -> None:
    config = make_config(device="cuda", dtype=dtype)
    whole = run_curriculum(config, tmp_path / "whole")
    assert whole.stages[0].evaluation is not None
    assert whole.stages[0].evaluation.loss < math.log(2)  # a coin's; it starts just above

    class BrokenOffError(Exception):
        pass

    append, written = CurriculumTrainer.add_time, []

    def break_off(self: CurriculumTrainer) -> None:
        written.append(1)
        append(self)
        if len(written) == 2:
            raise BrokenOffError

    with monkeypatch.context() as patch:
        patch.setattr(CurriculumTrainer, "add_time", break_off)
        with pytest.raises(BrokenOffError):
            run_curriculum(config, tmp_path / "broken")
    run_curriculum(config, tmp_path / "broken")
    metrics = [(tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "broken")]
    assert metrics[0] == metrics[1]


def test_an_evaluation_beside_other_work_is_the_same(
    make_config: Callable[..., CurriculumConfig],
) -> None:
    config = resolve(make_config(device="cuda", dtype="bfloat16"))
    runtime = Runtime.of("cuda", "bfloat16")
    model, task = new_model(config, runtime), config.task.create()
    batch = evaluation_batch(task, config, config.stages[0], 0)
    right, losses = predict(model, batch, runtime)
    work = torch.randn(4096, 4096, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(50):
            work = work @ work / 64
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0)  # a last step, which the evaluation has to wait for
        beside = predict(model, batch, runtime)
    assert (beside[0] == right).all()
    assert (beside[1] == losses).all()
