"""Where the numbers of a report come from: versions, device, threads, hashes, seeds."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.report.content import Provenance
from lt2theory.runs import RunFolder, config_hash, read_json
from lt2theory.runs.environment import ENVIRONMENT, read_record
from lt2theory.runs.hashing import HASH_DIGITS
from lt2theory.runs.layout import CONFIG

FACTS = {
    "device": "device",
    "threads": "threads a run",
    "cores": "cores",
    "python": "Python",
    "platform": "platform",
    "source": "source revision",
}


def provenance_of(runs: Sequence[RunFolder], *, command: str = "") -> Provenance:
    """Footer of a report on some runs.

    Args:
        runs: The runs behind the report.
        command: What a reader types to get it again, or "".

    Returns:
        Facts (several values where the runs differ), one row a run, and warnings about runs that
        are not done, were resumed in another environment or do not say what they ran on.
    """
    environments: list[Mapping[str, Any]] = []
    warnings: list[str] = []
    for run in runs:
        found, warned = _environment(run.path)
        environments += found
        warnings += warned
    unfinished = [run.path.name for run in runs if run.status != "done"]
    if unfinished:
        warnings.append(f"Not finished, so only partly shown: {', '.join(unfinished)}.")
    facts = _given(command) | _ran_on(environments)
    facts["seeds"] = _distinct(run.identity["seed"] for run in runs)
    return Provenance(facts, _run_rows(runs), warnings)


def provenance_of_evaluation(folder: Path, *, command: str = "") -> Provenance:
    """Footer of a report on an evaluation of a student beside its teacher.

    Args:
        folder: The evaluation.
        command: What a reader types to get it again, or "".

    Returns:
        What was compared and what made it, on which text, and what the evaluation ran on.

    Raises:
        ValueError: A file of the folder is damaged.
    """
    settings = read_json(folder / CONFIG)
    about, config = settings["about"], settings["config"]
    found, warnings = _environment(folder)
    environment = {name: about.get(name) for name in ("device", "dtype")}
    environment |= found[0] if found else {}
    facts = _given(command)
    for role in ("student", "teacher"):
        model = about.get(role) or {}
        weights = f"weights {model['weights'][:HASH_DIGITS]}" if "weights" in model else None
        facts[role] = _distinct([model.get("name"), weights, environment.get(role)])
    corpus = about.get("corpus")
    facts["text"] = _distinct([corpus and f"corpus {corpus[:HASH_DIGITS]}, {config.get('split')}"])
    facts["configuration"] = config_hash(settings)
    facts["precision"] = _distinct([environment["dtype"]])
    facts |= _ran_on([environment])
    facts["seeds"] = _distinct([config.get("seed")])
    return Provenance(facts, pd.DataFrame(), warnings)


def _environment(folder: Path) -> tuple[list[Mapping[str, Any]], list[str]]:
    """What a folder's work began on, if it says so, and warnings where it does not or went on."""
    path = folder / ENVIRONMENT
    if not path.exists():
        return [], [f"{folder.name} does not say what it ran on."]
    record = read_record(path)
    return [record["created"]], [
        f"{folder.name} was resumed at step {session['step']} in another environment: "
        f"{'; '.join(session['changes'])}."
        for session in record["resumed"]
    ]


def _given(command: str) -> dict[str, str]:
    return {"command": command} if command else {}


def _ran_on(environments: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Facts on machines and versions; several values where they differ."""
    facts = {
        text: _distinct(environment.get(name) for environment in environments)
        for name, text in FACTS.items()
    }
    return facts | {"packages": _packages(environments)}


def _distinct(values: Iterable[object]) -> str:
    texts = [str(value) for value in values if value is not None]
    return ", ".join(dict.fromkeys(texts)) or "not known"


def _packages(environments: Sequence[Mapping[str, Any]]) -> str:
    versions: dict[str, list[object]] = {}
    for environment in environments:
        for name, version in environment.get("packages", {}).items():
            versions.setdefault(name, []).append(version)
    known = {name: found for name, found in versions.items() if any(found)}
    return ", ".join(f"{name} {_distinct(found)}" for name, found in known.items()) or "not known"


def _rate(run: RunFolder) -> str | None:
    rate = run.summary().get("learning_rate") if run.status == "done" else None
    return None if rate is None else f"{rate:g}"


def _run_rows(runs: Sequence[RunFolder]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "run": run.path.name,
                "arm": run.identity["label"],
                "seed": str(run.identity["seed"]),
                "task": run.identity["task"],
                "configuration": run.config_hash,
                "learning rate": _rate(run),
                "status": run.status,
            }
            for run in runs
        ]
    )
