"""The process that measures presets: it reads jobs, a JSON line each, and answers each with a row.

`python -m lt2theory.bench.presets_worker WAY` is started by `lt2theory.bench.presets`, through the
doctor's pool, and of no use alone.
"""

import importlib
import json
import os
import sys
from typing import Any

READY = {"ready": True}


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
    """Answer jobs until the standard input ends."""
    way = json.loads(sys.argv[1])
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    # The slow imports, before the clock of a job starts.
    importlib.import_module("lt2theory.bench.presets")
    answers.write(json.dumps(READY) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line), way)) + "\n")


if __name__ == "__main__":
    main()
