"""The table of verbs, and the way from an argument list to an exit code."""

import contextlib
import errno
import importlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from lt2theory.cli.errors import (
    BAD_USAGE,
    DONE,
    INTERRUPTED,
    UsageError,
    as_typed,
    one_line,
    out_of_memory,
)

DEBUG_VARIABLE = "LT2_DEBUG"
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Command:
    """A verb: where it lives (imported when it is called) and what it does, in one line."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "demo": Command("demo", "run", "paired experiments on a CPU in minutes, and their report"),
    "tasks list": Command("tasks", "list_tasks", "every task with its stages and knobs"),
    "tasks show": Command("tasks", "show", "a decoded example of a task, its answer and floors"),
    "tasks export": Command("tasks", "export", "a task's examples as Parquet or .npz, with a card"),
    "data fetch": Command("data", "fetch", "text to train on, from a Debian package"),
    "data prepare": Command("data", "prepare", "text files as token shards for language models"),
    "data show": Command("data", "show", "what a corpus holds, its xz -9 baseline, its state"),
    "train": Command("train", "run", "a language model on a prepared corpus, on one or many GPUs"),
    "train study": Command(
        "train_study", "run", "language models compared on text, in sessions of minutes"
    ),
    "train merge": Command("train_study", "merge", "one table of that study's sessions"),
    "linearize run": Command("linearize", "run", "a softmax model into a linear-time student"),
    "linearize select": Command(
        "linearize_select", "run", "which layers keep softmax, by short distillations"
    ),
    "linearize evaluate": Command(
        "linearize_evaluate", "run", "how much of its teacher a student has kept"
    ),
    "linearize study": Command(
        "linearize_study", "run", "the studies of linearization, in sessions of minutes"
    ),
    "linearize merge": Command(
        "linearize_study", "merge", "one table of those studies' sessions and machines"
    ),
    "curriculum run": Command("curriculum", "run", "train a model up the stages of a task"),
    "curriculum tune": Command("curriculum", "tune", "find recipes with equal effort for each arm"),
    "curriculum study": Command("study", "run", "the cells of a study, in sessions of minutes"),
    "curriculum merge": Command("study", "merge", "one table of a study's sessions and machines"),
    "curriculum pack": Command("travel", "pack", "a study's folder as a few small files"),
    "curriculum unpack": Command("travel", "unpack", "what was packed, back into a study's folder"),
    "generate": Command("generate", "run", "texts of a trained language model"),
    "verify": Command("verify", "run", "the ledger of theory claims, checked again"),
    "analyze": Command("analyze", "run", "what a trained run's states, loops and gradients do"),
    "doctor": Command("doctor", "run", "which backends are right on this machine, measured"),
    "report": Command("report", "run", "the HTML report of a run folder or of a study"),
    "bench tasks": Command("bench", "tasks", "examples a second of the task generators"),
    "bench ops": Command("bench", "ops", "speed of the recurrences against a token loop"),
    "bench model": Command(
        "bench_model", "model", "a preset on paper: parameters, products, cache bytes, least times"
    ),
    "bench decode": Command("bench", "decode", "a token-step of 1.3B looped models on a GPU"),
    "bench prefill": Command(
        "bench", "prefill", "reading a prompt into 1.3B looped models on a GPU"
    ),
    "bench presets": Command(
        "bench_presets", "presets", "prompt, token-step and training step of the 1.3B presets"
    ),
    "bench efficiency": Command(
        "bench_efficiency", "efficiency", "throughput and memory of the 1.3B models by length"
    ),
    "bench sparse": Command("bench", "sparse", "the sparse attentions on a GPU beside dense masks"),
    "bench train-step": Command(
        "bench", "train_step", "a training step of a looped toy: compiled, as one CUDA graph"
    ),
    "bench lm-step": Command(
        "bench_lm_step", "lm_step", "a training step of full-scale presets, on one GPU or several"
    ),
    "bench study": Command("bench_study", "study", "steps a minute of cells that share a GPU"),
    "bench analysis": Command("bench", "analysis", "speed of the analysers beside dense SVDs"),
}

EPILOGUE = """\
exit codes: 0 done; 1 a check failed; 2 bad usage, with one line that says what and why;
            130 interrupted, or the disk was full, and the same command resumes
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        argv: The arguments after the program's name; those of the process by default.

    Returns:
        The exit code: 0 done, 1 a check failed, 2 bad usage, 130 interrupted and resumable.

    Raises:
        ValueError: Under `LT2_DEBUG` only, to show where it comes from.
        OSError: Likewise.
        MemoryError: Likewise.
        RuntimeError: If it is a bug; or likewise, where it says that memory ran out.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _termination_interrupts(), _warnings_in_one_line():
            code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; what is left must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt as interruption:
        detail = str(interruption) or "interrupted; run the same command again to resume"
        if "--overwrite" in arguments:
            detail += " (without --overwrite, which begins anew)"
        with contextlib.suppress(OSError):  # a terminal that hung up
            print(f"lt2: {detail}", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError, MemoryError, RuntimeError) as error:
        bug = isinstance(error, RuntimeError) and not out_of_memory(error)
        if bug or os.environ.get(DEBUG_VARIABLE):
            raise
        print(f"lt2: error: {as_typed(one_line(error), arguments)}", file=sys.stderr)
        full = isinstance(error, OSError) and error.errno in FULL_DISK
        return INTERRUPTED if full else BAD_USAGE


@contextlib.contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let SIGTERM end a verb as Ctrl-C does, also before and after the work that handles both.

    So does SIGHUP, unless it came ignored, as under nohup.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt("terminated; run the same command again to resume")

    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Print a warning as one line that says what, not where in the source."""

    def form(message: Warning | str, *_: object, **__: object) -> str:
        return f"lt2: warning: {' '.join(str(message).split())}\n"

    before = warnings.formatwarning
    warnings.formatwarning = form
    try:
        yield
    finally:
        warnings.formatwarning = before


def _dispatch(arguments: list[str]) -> int:
    """Return the exit code of the verb that the first one or two words name.

    Raises:
        UsageError: If they name none.
    """
    if arguments[:1] == ["--version"]:
        from lt2theory.cli.version import version_line

        print(version_line())
        return DONE
    words = [word for word in arguments[:2] if not word.startswith("-")]
    for length in (2, 1):  # `train study` before `train`
        command = COMMANDS.get(" ".join(words[:length]))
        if command is not None and len(words) >= length:
            module = importlib.import_module(f"lt2theory.cli.{command.module}")
            run: Callable[[list[str]], int] = getattr(module, command.function)
            return run(arguments[length:])
    group = words[0] if words and any(name.startswith(f"{words[0]} ") for name in COMMANDS) else ""
    rest = arguments[1:] if group else arguments
    if rest[:1] in (["-h"], ["--help"]):
        print(help_text(group))
        return DONE
    raise UsageError(_unknown(group, rest))


def help_text(group: str = "") -> str:
    """The help of `lt2`, or of a group of verbs such as `lt2 tasks`.

    Args:
        group: A verb's first word, or nothing for the whole command.

    Returns:
        The text, with one line for each verb.
    """
    names = [name for name in COMMANDS if not group or name.startswith(f"{group} ")]
    width = max(map(len, names), default=0)
    verbs = "\n".join(f"  lt2 {name:<{width}}  {COMMANDS[name].summary}" for name in names)
    usage = f"usage: lt2 {group} VERB ..." if group else "usage: lt2 [--version] VERB ..."
    return (
        f"{usage}\n\n"
        "What looping a sub-quadratic sequence model buys: curricula, looped mixers, theory.\n\n"
        f"{verbs}\n\n"
        "Each verb explains all its options: lt2 VERB --help\n"
        f"{EPILOGUE}"
        f"With {DEBUG_VARIABLE}=1 in the environment an error shows its traceback."
    )


def _unknown(group: str, rest: list[str]) -> str:
    """Return a line that says which word is no verb and what may stand there."""
    prefix = f"{group} " if group else ""
    verbs = [name.removeprefix(prefix) for name in COMMANDS if name.startswith(prefix)]
    choices = dict.fromkeys(verb.split()[0] for verb in verbs)
    where = f"VERB of lt2 {group}".strip()
    if not rest:
        return f"{where}: none given (choose from {', '.join(choices)})"
    from tasks.names import unknown_name

    return unknown_name(where, rest[0], choices)
