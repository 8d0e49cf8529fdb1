"""What lies at a path, in words, for the refusal of a path that should hold something else."""

import contextlib
from pathlib import Path
from typing import Any

from lt2theory.runs.atomic import read_json
from lt2theory.runs.layout import CONFIG, MANIFEST

SHOWN = 3
"""So many names are told of a folder that is nothing known."""


def is_corpus(path: Path) -> bool:
    """Whether a folder's manifest is that of a prepared corpus, and not of a study.

    Args:
        path: The folder.

    Returns:
        Whether it is.
    """
    return {"splits", "tokenizer"} <= _object(path / MANIFEST).keys()


def known(path: Path) -> str | None:
    """What a folder is, by the files that its kind begins with.

    Args:
        path: The folder.

    Returns:
        A few words, such as `a run of kind lm`; None if nothing known.
    """
    manifest, config = _object(path / MANIFEST), _object(path / CONFIG)
    if is_corpus(path):
        return "a prepared corpus"
    if {"kind", "runs"} <= manifest.keys():
        return f"a study of kind {manifest['kind']}"
    if {"kind", "identity"} <= config.keys():
        return f"a run of kind {config['kind']}"
    if "model_type" in config:
        return f"a saved model of type {config['model_type']}"
    return None


def found(path: Path) -> str:
    """Say what is at a path.

    Args:
        path: Any path.

    Returns:
        A few words, such as `a prepared corpus` or `an empty folder`.
    """
    if not path.exists():
        return "nothing of that name"
    if not path.is_dir():
        return "a file"
    what = known(path)
    if what is not None:
        return what
    try:
        inside = sorted(one for one in path.iterdir() if not one.name.startswith("."))
    except OSError as error:
        return f"a folder that cannot be read ({error.strerror})"
    if not inside:
        return "an empty folder"
    for what in ("runs and studies", "prepared corpora"):
        names = [one.name for one in inside if one.is_dir() and _family(one) == what]
        if names:
            return f"a folder of {what}: {_some(names)}"
    return f"a folder with {_some([one.name for one in inside])}"


def _family(path: Path) -> str | None:
    if is_corpus(path):
        return "prepared corpora"
    what = known(path) or ""
    return "runs and studies" if what.startswith(("a run", "a study")) else None


def _object(path: Path) -> dict[str, Any]:
    """The JSON object of a file; empty if there is none."""
    with contextlib.suppress(ValueError):
        return read_json(path)
    return {}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
