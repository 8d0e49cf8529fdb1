"""Runs hit at events of the file system: python -m tests.linearize.disturbed FOLDER VERB HOW.

VERB is a run of training, a linearization or a selection. Before every so many-th file that it
opens for writing, renames, links or removes, a process of its own is killed, or told that the disk
is full; then the same call must end with what an undisturbed one left. A line names each event
after which it did not.
"""

import errno
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from lt2theory.linearize.construct import build_student
from lt2theory.linearize.engine import run_recipe
from lt2theory.linearize.hybrids import student_config
from lt2theory.linearize.selection import SelectionConfig
from lt2theory.linearize.selectors_compared import select_layers
from lt2theory.linearize.texts import train_tokens
from lt2theory.models import LoopedConfig
from lt2theory.runs.atomic import DiskFullError
from lt2theory.training.lm import Execution, LmConfig, run_lm
from tests.linearize.runs import TEACHER, make_recipe, make_sources

Work = Callable[[Path], Any]
EVENTS = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}
WITHOUT_ROOM = {"open", "os.rename", "os.link"}  # torch makes a folder again where mkdir failed
STRIDES = {"train": 7, "run": 23, "select": 13}
HOW = Execution(checkpoint_every=1, threads=1)
TIMES = ("timing.jsonl", "environment.json", "state.json", "contents.json", "summary.json")
"""What holds times of the clock."""


def work_of(verb: str, folder: Path) -> Work:
    sources = make_sources(folder / "sources")
    if verb == "train":
        model = LoopedConfig(**TEACHER | {"pattern": "gdn,full", "num_kv_heads": 4})
        config = LmConfig(model=model, steps=3, batch_size=2, sequence_length=33, log_every=1)
        return lambda out: run_lm(config, HOW, data=sources.corpus.folder, folder=out)
    if verb == "run":
        recipe = make_recipe()
        short = recipe.model_copy(update={"stages": recipe.stages[:3]})
        return lambda out: run_recipe(short, HOW, sources, folder=out)
    teacher = sources.teacher.model
    config_of = student_config(teacher.config, "gdn", linear_rotation="off")
    tokens = train_tokens(sources.corpus, 2, 40)
    quick = SelectionConfig(
        keep=1, seeds=1, steps=2, last=1, batch_size=2, sequence_length=16, top_k=8,
        probe_windows=2, probe_length=24,
    )  # fmt: skip

    def select(out: Path) -> Any:
        student = build_student(teacher, config_of, calibration=tokens).model
        return select_layers(student, quick, HOW, sources, folder=out)

    return select


def in_child(work: Work, out: Path, how: str, at: int) -> int:
    """The exit code of a child that is hit at an event; without one the number of events."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading) as said:
            events = said.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return int(events) if at < 0 and code == 0 else code
    count, names = 0, WITHOUT_ROOM if how == "full" else EVENTS

    def hook(name: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        if name not in names or not str(args[0]).startswith(str(out)):
            return
        if name == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR):
            return
        count += 1
        if count == at and how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if count == at:
            raise OSError(errno.ENOSPC, "No space left on device", str(args[0]))

    sys.addaudithook(hook)
    code = 1
    try:
        work(out)
        os.write(writing, str(count).encode())
        code = 0
    except OSError as error:
        code = 130 if isinstance(error, DiskFullError) or error.errno == errno.ENOSPC else 1
    finally:  # whatever it was, the child must not go on as its parent
        if code == 1:
            traceback.print_exc()
        os._exit(code)


def left(out: Path) -> dict[str, bytes]:
    """What a run left, but for the clock and the serial numbers of checkpoints."""
    found: dict[str, bytes] = {}
    for path in sorted(out.rglob("*")):
        name = "/".join(part.partition("-step-")[2] or part for part in path.relative_to(out).parts)
        if path.suffix == ".safetensors":
            tensors = load_file(path).items()
            found |= {f"{name} {key}": tensor.numpy().tobytes() for key, tensor in tensors}
        elif path.is_file() and path.name not in TIMES:
            found[name] = path.read_bytes()
    return found


def main() -> None:
    folder, verb, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    work = work_of(verb, folder)
    events = in_child(work, folder / "whole", how, -1)
    expected = left(folder / "whole")
    for at in range(1, events + 1, STRIDES[verb]):
        out = folder / f"run-{at}"
        hit, again = in_child(work, out, how, at), in_child(work, out, how, -1)
        if hit != (-signal.SIGKILL if how == "kill" else 130) or again < 0 or left(out) != expected:
            print(f"{out.name}: {hit}, then {again}")
    print(f"{events} events")


if __name__ == "__main__":
    main()
