"""A curriculum run on a CUDA device: it learns, and a broken-off run ends as an undisturbed one."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from lt2theory.training import CurriculumConfig, run_curriculum
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
