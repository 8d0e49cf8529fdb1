"""What the search for the recipes of state-based recall tried and what was taken, in words."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from lt2theory.experiments.search_space import described
from lt2theory.experiments.searches import Search, recall_families
from lt2theory.experiments.study_recipes import FAMILIES, recall
from lt2theory.report.tables import counted

SEARCHED = "study-tuning.csv"
"""The file in results/ that `lt2theory.experiments.study_tuning` writes."""
_COLUMNS = ("arm", "setting", "seeds", "stages", "steps")


def read_search(path: Path) -> pd.DataFrame:
    """Read what the searches found.

    Args:
        path: The file that `study_tuning` writes.

    Returns:
        One row an arm and setting, the arm's best first; empty where there is no such file.

    Raises:
        ValueError: A column is missing.
    """
    table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=list(_COLUMNS))
    missing = [name for name in _COLUMNS if name not in table]
    if missing:
        raise ValueError(f"{path} is no table of searches: it lacks {', '.join(missing)}")
    return table


def said_search(found: pd.DataFrame) -> str:
    """How the recipes of the families in block (1) were found.

    Args:
        found: As `read_search` gives it.

    Returns:
        A paragraph: how many settings and seeds every family had, and which it took.
    """
    search = recall_families()
    rows = {family: found[found["arm"] == f"recall-{family}-t4"] for family in FAMILIES}
    tried = {family: table for family, table in rows.items() if len(table)}
    if not tried:
        return f"Recipes: no search has run (results/{SEARCHED})."
    arm = search.arms[0]
    taken: dict[str, list[str]] = {}
    for family, table in tried.items():
        setting = _taken(family, search)
        taken.setdefault(setting, []).append(f"{family} ({_rank(table, setting, len(arm.stages))})")
    untried = [family for family in FAMILIES if family not in tried]
    return (
        f"Recipes come from a search up to {arm.stages[-1]} swaps with four loops "
        f"(results/{SEARCHED}): settings drawn once for all families, {_effort(tried)}, at most "
        f"{arm.step_budget} steps a rung, judged on the evaluation split of seeds that no result "
        "uses; more rungs passed rank higher, then fewer steps. One loop takes what four chose. "
        "Taken were "
        + "; ".join(f"{setting}: {', '.join(families)}" for setting, families in taken.items())
        + "."
        + f" Not searched: {', '.join(untried)}." * bool(untried)
    )


def _effort(tried: Mapping[str, pd.DataFrame]) -> str:
    """Settings and seeds, families with as many of both together."""
    alike: dict[str, list[str]] = {}
    for family, table in tried.items():
        seeds = sorted({int(number) for number in table["seeds"]})
        each = " or ".join(map(str, seeds)) + (" seed" if seeds == [1] else " seeds")
        alike.setdefault(f"{counted(len(table), 'setting')} of {each}", []).append(family)
    return "; ".join(f"{effort} for {', '.join(names)}" for effort, names in alike.items())


def _taken(family: str, search: Search) -> str:
    """The values of a family's recipe that the search could vary, as its table words them."""
    values = recall(family).model_dump()
    setting = {}
    for name in search.space:
        part, field = name.split(".")
        setting[name] = values[part][field]
    return described(setting)


def _rank(table: pd.DataFrame, setting: str, rungs: int) -> str:
    """Where a setting stands among those of its arm."""
    places = list(table["setting"])
    if setting not in places:
        return f"none of the {len(table)} tried"
    place = places.index(setting)
    row = table.iloc[place]
    passed = f"{float(row['stages']):g} of {rungs} rungs in {float(row['steps']):,.0f} steps"
    return f"rank {place + 1} of {len(table)}, {passed}"
