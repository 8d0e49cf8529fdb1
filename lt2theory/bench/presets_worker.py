"""The process that measures presets: it reads jobs, a JSON line each, and answers each with a row.

`python -m lt2theory.bench.presets_worker WAY` is started by `lt2theory.bench.presets`, through the
doctor's pool, and of no use alone.
"""

import importlib
from typing import Any

from lt2theory.bench.doctor.worker import answer_jobs


def answer(job: dict[str, Any], way: dict[str, Any]) -> dict[str, Any]:
    """Do one job.

    Args:
        job: The fields of a `lt2theory.bench.presets.Job`.
        way: Those of a `Way`.

    Returns:
        Its row; what the job raised is its `reason`.
    """
    from lt2theory.bench.presets import Job, Way, measure_job

    try:
        return measure_job(Job(**job), Way(**way))
    except Exception as error:  # noqa: BLE001 - it is to be reported, and the rest to go on
        text = " ".join(str(error).split())[:200]
        return job | {"reason": f"{type(error).__name__}: {text}"}


def main() -> None:
    """Measure presets."""
    answer_jobs(answer, lambda way: _prepare())


def _prepare() -> None:
    importlib.import_module("lt2theory.bench.presets")


if __name__ == "__main__":
    main()
