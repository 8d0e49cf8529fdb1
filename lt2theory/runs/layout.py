"""What lies in the folder of a run or a study under which name, and the header in config.json."""

from pathlib import Path
from typing import Any, Literal

from lt2theory.runs.atomic import read_json
from lt2theory.runs.hashing import config_hash

RunStatus = Literal["absent", "unfinished", "done"]

CONFIG = "config.json"
MANIFEST = "manifest.json"
METRICS = "metrics.jsonl"
TIMING = "timing.jsonl"
SUMMARY = "summary.json"
CHECKPOINTS = "checkpoints"


def run_status(path: Path) -> RunStatus:
    """How far the run of a folder is.

    Args:
        path: Folder of a run, which need not exist.

    Returns:
        `absent` without config.json, `done` with summary.json, else `unfinished`.
    """
    if not (path / CONFIG).is_file():
        return "absent"
    return "done" if (path / SUMMARY).is_file() else "unfinished"


def read_header(path: Path) -> dict[str, Any]:
    """Read config.json of a run.

    Args:
        path: The run's folder.

    Returns:
        `kind`, `hash`, `identity` and `config`.

    Raises:
        ValueError: The file is not a run's config.json, damaged or edited.
    """
    header = read_json(path / CONFIG)
    missing = [key for key in ("kind", "hash", "identity", "config") if key not in header]
    if missing:
        raise ValueError(f"{path / CONFIG} lacks {', '.join(missing)}: not a run's config.json")
    identity = header["identity"]
    if not isinstance(identity, dict) or not {"label", "seed", "task"} <= identity.keys():
        raise ValueError(f"{path / CONFIG} is damaged: identity lacks label, seed or task")
    if not isinstance(header["config"], dict):
        raise ValueError(f"{path / CONFIG} is damaged: config is no object")
    if config_hash(header["config"]) != header["hash"]:
        raise ValueError(f"{path / CONFIG} was edited: its hash is not that of its config")
    return header
