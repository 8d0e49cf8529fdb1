"""One process of the doctor: it reads jobs, a JSON line each, and answers each with a line.

`python -m lt2theory.bench.doctor.worker SETTINGS` is started by `pool` and of no use alone.
It is a process of its own because a kernel can hang, or take its whole process with it.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

READY = {"ready": True}


def answer(job: dict[str, Any], device: str) -> dict[str, Any]:
    """Do one job.

    Args:
        job: `{"case": ...}` with a case's fields, `{"kernel": name, "dtype": ...}`, or
            `{"choose": mixer}`.
        device: Where to run it.

    Returns:
        An outcome, or what `auto` takes, as JSON values.
    """
    from lt2theory.bench.doctor.cases import Case
    from lt2theory.bench.doctor.choices import Served, find_served
    from lt2theory.bench.doctor.kernels.measure import measure_kernel
    from lt2theory.bench.doctor.measure import measure

    if "case" in job:
        return measure(Case(**job["case"]), device).to_json()
    if "kernel" in job:
        return measure_kernel(job["kernel"], job["dtype"], device).to_json()
    try:
        return find_served(job["choose"], device).to_json()
    except Exception as error:  # noqa: BLE001 - it is to be reported, and the rest to go on
        return Served(job["choose"], "", "", f"{type(error).__name__}: {error}").to_json()


def pin_autotuning() -> None:
    """Let Triton's autotuner take the first configuration that runs, instead of timing them all.

    A cold FLA kernel has up to dozens. Nothing found this way is kept on the disk, where later
    programs would take it for the fastest.
    """
    try:
        from triton.runtime.autotuner import Autotuner
    except ImportError:
        return
    bench = Autotuner._bench

    def first_that_runs(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        # `run` makes a new `nargs` for every call that it tunes.
        if self.__dict__.get("_tuned_for") is self.nargs:
            return [float("inf")] * 3
        times = list(bench(self, *args, config=config, **meta))
        if times[0] < float("inf"):
            self._tuned_for = self.nargs
        return times

    def run_once(kernel_call: Any, quantiles: Any) -> list[float]:
        kernel_call()
        return [0.0] * 3

    def without_disk(self: Any, key: Any, configs: Any, benchmark: Any) -> bool:
        benchmark()
        return False

    Autotuner._bench = first_that_runs
    Autotuner.do_bench = property(lambda self: run_once)
    Autotuner.check_disk_cache = without_disk


def answer_jobs(
    do: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]],
    prepare: Callable[[dict[str, Any]], None],
) -> None:
    """Answer the jobs of the standard input until it ends, as `lt2theory.bench.doctor.pool` asks.

    Args:
        do: Does a job, told the settings in the first argument of the command line as well.
        prepare: Called with the settings before the clock of a job starts, for slow imports.
    """
    settings = json.loads(sys.argv[1])
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    prepare(settings)
    answers.write(json.dumps(READY) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(do(json.loads(line), settings)) + "\n")


def main() -> None:
    """Do the doctor's jobs."""
    answer_jobs(lambda job, settings: answer(job, settings["device"]), _prepare)


def _prepare(settings: dict[str, Any]) -> None:
    for name in settings["imports"]:
        importlib.import_module(name)
    if settings["pinned"]:
        pin_autotuning()
    importlib.import_module("lt2theory.bench.doctor.choices")


if __name__ == "__main__":
    main()
