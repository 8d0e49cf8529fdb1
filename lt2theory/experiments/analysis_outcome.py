"""What a run failed to learn: what is measured of its model is then not of a solution."""

from typing import Any

from lt2theory.report.tables import counted
from lt2theory.report.views import stage_outcomes
from lt2theory.runs import RunFolder, run_table
from lt2theory.training import CurriculumConfig


def outcome(run: RunFolder, config: CurriculumConfig) -> dict[str, Any]:
    """Which stage a curriculum run did not learn.

    Args:
        run: The run, finished or not.
        config: Its resolved configuration.

    Returns:
        `failed_stage`, None if every stage was solved or the run goes on, and `failure`, a sentence
        about it; "" if every stage was solved.
    """
    ends = stage_outcomes(run_table(run))
    solved = {int(stage) for stage in ends[ends["solved"]]["stage"]}
    left = [stage for stage in config.stages if stage not in solved]
    if not left:
        return {"failed_stage": None, "failure": ""}
    first, *later = left
    if run.status != "done":
        said = f"The run has not ended: {_named(config, first)} is not learnt yet."
        return {"failed_stage": None, "failure": said}
    steps = ends.loc[ends["stage"] == first, "steps"]
    said = f"The run did not learn {_named(config, first)}"
    if run.summary()["status"] == "diverged":
        said += f": it diverged at step {run.summary()['diverged_at']}"
    elif len(steps):
        said += f" in {counted(int(steps.iloc[0]), 'step')}"
    if later:
        stages = ", ".join(map(str, later))
        said += f" and was not trained on {'stage' if len(later) == 1 else 'stages'} {stages}"
    return {"failed_stage": first, "failure": f"{said}."}


def _named(config: CurriculumConfig, stage: int) -> str:
    """A stage and its length."""
    length = config.task.create().sequence_length(stage)
    return f"stage {stage} ({counted(length, 'token')})"
