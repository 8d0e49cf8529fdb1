"""One way to take training steps, timed in a process of its own from its start to steady steps.

`python -m lt2theory.bench.train_step_process JSON` measures a list of settings in turn and prints
one line of JSON for each; only the first sees a fresh process.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, Runtime, TaskConfig, resolve
from lt2theory.training.draws import training_batch
from lt2theory.training.selection import new_model
from lt2theory.training.stepper import Stepper, make_stepper

WAYS = {
    "eager": (False, False),
    "compiled": (True, False),
    "graph": (False, True),
    "compiled-graph": (True, True),
}
"""By name, the options `compile` and `cuda_graph` of a run."""
FIRST_STEPS = 3
"""Steps after which nothing more is compiled, measured or recorded."""


@dataclass(frozen=True)
class Setting:
    """One measurement.

    Attributes:
        pattern: Layer pattern.
        loop_state: `rescan` or `accumulate`.
        backend: Backend of the ops.
        way: A key of `WAYS`.
        batch: Rows.
        length: Tokens a row.
        width: Width of the model; four heads share it.
        device: "cuda", in bfloat16, or "cpu", in float32.
    """

    pattern: str = "gdn"
    loop_state: str = "rescan"
    backend: str = "auto"
    way: str = "compiled-graph"
    batch: int = 256
    length: int = 256
    width: int = 128
    device: str = "cuda"


def run_config(setting: Setting) -> CurriculumConfig:
    """The toy of the benchmark, on the word problem of S5: two layers, four loops, four heads.

    Args:
        setting: Its sizes and way.

    Returns:
        A resolved configuration with one stage.

    Raises:
        ValueError: A field of the setting is not allowed.
    """
    compiled, cuda_graph = WAYS[setting.way]
    model = {"pattern": setting.pattern, "loop_state": setting.loop_state}
    sizes = {"width": setting.width, "num_layers": 2, "num_loops": 4, "num_heads": 4}
    return resolve(
        CurriculumConfig(
            task=TaskConfig(name="group_word", knobs={"group": "S5"}),
            model=LoopedConfig.model_validate({**model, **sizes, "backend": setting.backend}),
            stages=(setting.length,),
            batch_size=setting.batch,
            device="cuda" if setting.device == "cuda" else "cpu",
            dtype="bfloat16" if setting.device == "cuda" else "float32",
            compile=compiled,
            cuda_graph=cuda_graph,
        )
    )


def steady_stepper(setting: Setting) -> tuple[Stepper, CurriculumConfig]:
    """A stepper that has taken its first steps.

    Args:
        setting: What to train.

    Returns:
        The stepper and its configuration.
    """
    config = run_config(setting)
    runtime = Runtime.of(config.device, config.dtype)
    stepper = make_stepper(config, new_model(config, runtime), runtime)
    take_steps(stepper, config, FIRST_STEPS)
    return stepper, config


def take_steps(stepper: Stepper, config: CurriculumConfig, steps: int) -> float:
    """Take steps as a run does, batches drawn before.

    Args:
        stepper: Who takes them.
        config: Its configuration.
        steps: How many.

    Returns:
        Milliseconds a step, with the host's part.
    """
    task, stage = config.task.create(), config.stages[0]
    batches = [training_batch(task, config, stage, step) for step in range(min(steps, 4))]
    begin = time.perf_counter()
    for step in range(steps):
        stepper.take(batches[step % len(batches)], 1e-4)
        if stepper.pending >= stepper.longest_wait or step == steps - 1:
            list(stepper.results())  # waits for the device
    return 1e3 * (time.perf_counter() - begin) / steps


def measure(setting: Setting, steps: int) -> dict[str, Any]:
    """Time one way.

    Args:
        setting: What to train.
        steps: Steps that are timed.

    Returns:
        `ms` a step, `ready` (seconds since the epoch at which the first steps were done),
        `peak_gib` of device memory and the number of `parameters`.
    """
    stepper, config = steady_stepper(setting)
    ready = time.time()
    ms = take_steps(stepper, config, steps)
    peak = torch.cuda.max_memory_allocated() / 2**30 if setting.device == "cuda" else 0.0
    parameters = sum(p.numel() for p in stepper.model.parameters())
    return {"ms": ms, "ready": ready, "peak_gib": peak, "parameters": parameters}


def main(argv: list[str]) -> None:
    """Measure what the first argument lists.

    Args:
        argv: A JSON object with `settings` and `steps`.
    """
    asked = json.loads(argv[0])
    for fields in asked["settings"]:
        setting = Setting(**fields)
        row = asdict(setting) | measure(setting, asked["steps"])
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
