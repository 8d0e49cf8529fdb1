"""Where the numbers of a report come from: versions, device, threads, hashes, seeds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from lt2theory.report.content import Provenance
from lt2theory.runs import RunFolder
from lt2theory.runs.environment import ENVIRONMENT, read_record

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
        path = run.path / ENVIRONMENT
        if not path.exists():
            warnings.append(f"{run.path.name} does not say what it ran on.")
            continue
        record = read_record(path)
        environments.append(record["created"])
        warnings += [
            f"{run.path.name} was resumed at step {session['step']} in another environment: "
            f"{'; '.join(session['changes'])}."
            for session in record["resumed"]
        ]
    unfinished = [run.path.name for run in runs if run.status != "done"]
    if unfinished:
        warnings.append(f"Not finished, so only partly shown: {', '.join(unfinished)}.")
    facts = {"command": command} if command else {}
    for name, text in FACTS.items():
        facts[text] = _distinct(environment.get(name) for environment in environments)
    facts["packages"] = _packages(environments)
    facts["seeds"] = _distinct(run.identity["seed"] for run in runs)
    return Provenance(facts, _run_rows(runs), warnings)


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
