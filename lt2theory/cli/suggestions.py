"""The option that an unknown one was probably meant to be."""

import dataclasses
import re
from collections.abc import Sequence

from tasks.names import CLOSE, nearest

ELSEWHERE = {"mixer": "pattern", "mixers": "pattern", "lr": "learning-rate"}
"""What others call an option of ours: no likeness of letters finds these."""


def flags_of(help_text: str) -> list[str]:
    """The options that a help explains.

    Args:
        help_text: As tyro prints it.

    Returns:
        Their names, without the two hyphens that all of them share.

    Example:
        >>> flags_of("| --model.width INT   Width, see --x. |")
        ['model.width']
    """
    columns = re.findall(r"^[^\w\n-]{0,3}(--[a-z].*?)(?= {2}|$)", help_text, re.MULTILINE)
    found = (re.findall(r"--([a-z][\w-]*(?:\.[\w-]+)*)", column) for column in columns)
    return sorted({name for names in found for name in names})


def meant(unknown: str, flags: Sequence[str]) -> str | None:
    """What stands in the place of an unknown option.

    An option of the same last part comes first, in whatever group; then a knob of some task, which
    is given as `--task.knobs KEY=VALUE`; then an option like it in the same group; then one like
    the whole.

    Args:
        unknown: The name that was typed, without hyphens in front.
        flags: The names that exist.

    Returns:
        What to type, with the hyphens; None if nothing is like it.

    Example:
        >>> meant("num-loops", ["model.num-loops", "steps"])
        '--model.num-loops'
        >>> meant("model.mixer", ["model.pattern", "model.indexer-loss"])
        '--model.pattern'
    """
    group, _, leaf = unknown.rpartition(".")
    leaf = ELSEWHERE.get(leaf, leaf)
    same = [flag for flag in flags if flag.rpartition(".")[2] == leaf]
    if same:
        return "--" + (nearest(unknown, same, alike=0.0) or same)[0]
    knob = leaf.replace("-", "_")
    owners = _tasks_with(knob) if "task.knobs" in flags and group in ("", "task") else []
    if owners:
        return f"--task.knobs {knob}=... of {', '.join(owners)}"
    beside = {flag.rpartition(".")[2]: flag for flag in flags if flag.rpartition(".")[0] == group}
    if group and beside:
        close = nearest(leaf, beside)
        knobs = f"--{group}.knobs {leaf}=..." if "knobs" in beside else None
        return f"--{beside[close[0]]}" if close else knobs
    leaves = {flag.rpartition(".")[2]: flag for flag in flags}
    close = nearest(unknown, flags) or [leaves[one] for one in nearest(leaf, leaves, alike=CLOSE)]
    return f"--{close[0]}" if close else None


def _tasks_with(knob: str) -> list[str]:
    """The tasks that have a knob."""
    from tasks import catalogue

    fields = {name: dataclasses.fields(kind) for name, kind in catalogue().items()}
    return [name for name, knobs in fields.items() if knob in {one.name for one in knobs}]


def misspelt(missing: str, argv: Sequence[str], flags: Sequence[str]) -> str | None:
    """The unknown option that was probably meant to be a required one.

    Args:
        missing: The name of the required option, without hyphens in front.
        argv: What was typed.
        flags: The names that exist.

    Returns:
        It as it was typed; None if there is none.
    """
    typed = [word.partition("=")[0] for word in argv if word.startswith("--") and word != "--"]
    known = {flag.replace("_", "-") for flag in flags}
    unknown = [flag for flag in typed if flag[2:].replace("_", "-") not in known]
    return next((flag for flag in unknown if meant(flag[2:], flags) == f"--{missing}"), None)
