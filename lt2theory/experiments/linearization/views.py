"""Numbers of an arm from the table: seeds together, beside the teacher, as shares of what it has.

Two seeds give no interval of their own. An arm's value is the mean of its seeds, its interval
reaches from the lowest end of theirs to the highest: wider than either, since it holds both the
sampling of documents and what seeds differ by.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from lt2theory.linearize.evaluation import recovered_share
from lt2theory.report.tables import format_interval

PROBES = ("cloze", "needle", "mqar")
"""Parts that ask for answers, with floors."""
_METRICS = {"cloze": "found", "needle": "found", "mqar": "recalled"}


@dataclass(frozen=True)
class Pooled:
    """A number of an arm, its seeds together.

    Attributes:
        value: Mean over seeds.
        low: Lowest end of their intervals; NaN where there is none.
        high: Highest end.
        floor: What needs no model; NaN where there is no such number.
        n: Units behind it, over all seeds.
        seeds: Number of seeds.
    """

    value: float
    low: float
    high: float
    floor: float = float("nan")
    n: int = 0
    seeds: int = 1

    @property
    def said(self) -> str:
        """The number with its interval."""
        return format_interval(self.value, self.low, self.high)


@dataclass(frozen=True)
class Place:
    """Where a number stands in the table.

    Attributes:
        part: Part of the evaluation, `stage` or `cost`.
        metric: Its name.
        model: `student`, `teacher` or `pair`.
        kind: Kind of needle, word or stage; None for any that is null.
        length: Tokens or pairs; None for any.
    """

    part: str
    metric: str
    model: str = "student"
    kind: str | None = None
    length: int | None = None


KL = Place("recovery", "kl", "pair")
AGREEMENT = Place("recovery", "agreement", "pair")


def ended(table: pd.DataFrame, study: str | None = None) -> pd.DataFrame:
    """Rows of a study's cells that are done and did not diverge.

    Args:
        table: A table of cells that are done or not.
        study: The study; None for all.

    Returns:
        The rows; of a cell that was run at several budgets those of the largest.
    """
    done = (table["status"] == "done") & (table["outcome"] == "finished")
    rows = table[done if study is None else done & (table["study"] == study)]
    if rows.empty:
        return rows
    runs = rows.drop_duplicates("config_hash").sort_values("tokens", kind="stable")
    kept = runs.drop_duplicates("cell", keep="last")["config_hash"]
    return rows[rows["config_hash"].isin(kept)]


def arms(rows: pd.DataFrame) -> list[str]:
    """Arms that have ended, in the order of the table.

    Args:
        rows: From `ended`.

    Returns:
        Their names.
    """
    return [str(arm) for arm in rows["arm"].unique()]


def pooled(rows: pd.DataFrame, arm: str, place: Place) -> Pooled | None:
    """One number of an arm.

    Args:
        rows: From `ended`.
        arm: The arm.
        place: Where it stands.

    Returns:
        The number; None where it was not measured.
    """
    here = (
        (rows["arm"] == arm)
        & (rows["part"] == place.part)
        & (rows["metric"] == place.metric)
        & (rows["model"] == place.model)
        & rows["layer"].isna()
        & rows["loop"].isna()
    )
    if place.kind is not None:
        here &= rows["kind"] == place.kind
    if place.length is not None:
        here &= rows["length"] == place.length
    found = rows.loc[here.fillna(False), ["value", "low", "high", "floor", "n", "seed"]]
    if found.empty:
        return None
    numbers = found[["value", "low", "high", "floor"]].astype(float)
    return Pooled(
        float(numbers["value"].mean()),
        float(numbers["low"].min()),
        float(numbers["high"].max()),
        float(numbers["floor"].mean()),
        int(found["n"].fillna(0).sum()),
        found["seed"].nunique(),
    )


def lengths(rows: pd.DataFrame, part: str) -> list[int]:
    """Lengths at which a part was measured.

    Args:
        rows: From `ended`.
        part: The part.

    Returns:
        Ascending.
    """
    return sorted({int(x) for x in rows[rows["part"] == part]["length"].dropna()})


def below(one: Pooled | None, other: Pooled | None) -> bool | None:
    """Whether one number lies below another.

    Args:
        one: A number.
        other: Another.

    Returns:
        None where intervals overlap or something is missing.
    """
    if one is None or other is None:
        return None
    if one.high < other.low:
        return True
    return False if one.low > other.high else None


def probes(rows: pd.DataFrame, arm: str) -> Iterator[Place]:
    """Probe tasks of an arm at which its teacher is above the floor, interval and all.

    Args:
        rows: From `ended`.
        arm: The arm.

    Yields:
        Where the student's accuracy stands.
    """
    for part in PROBES:
        metric = _METRICS[part]
        own = rows[(rows["arm"] == arm) & (rows["part"] == part) & (rows["metric"] == metric)]
        kinds: list[str | None] = [*sorted({str(kind) for kind in own["kind"].dropna()})]
        kinds = kinds or [None]
        for kind in kinds:
            for length in lengths(own, part):
                place = Place(part, metric, "student", kind, length)
                theirs = pooled(rows, arm, Place(part, metric, "teacher", kind, length))
                if theirs is not None and theirs.low > theirs.floor:
                    yield place


def share(rows: pd.DataFrame, arm: str, place: Place) -> Pooled | None:
    """How much of the teacher's accuracy above the floor an arm has.

    Args:
        rows: From `ended`.
        arm: The arm.
        place: A probe of `probes`.

    Returns:
        The share, with the ends of the student's interval alone: the teacher's own is left out.
    """
    theirs = pooled(rows, arm, Place(place.part, place.metric, "teacher", place.kind, place.length))
    own = pooled(rows, arm, place)
    if own is None or theirs is None:
        return None
    value, low, high = (
        recovered_share(x, theirs.value, theirs.floor) for x in (own.value, own.low, own.high)
    )
    return Pooled(value, low, high, n=own.n, seeds=own.seeds)


def mean_share(rows: pd.DataFrame, arm: str) -> Pooled | None:
    """Mean share over all probes.

    Args:
        rows: From `ended`.
        arm: The arm.

    Returns:
        The mean; its ends are the means of the ends, as if all probes erred alike. None where the
        teacher is above the floor at none.
    """
    found = [one for place in probes(rows, arm) if (one := share(rows, arm, place)) is not None]
    if not found:
        return None
    parts = [(one.value, one.low, one.high) for one in found]
    value, low, high = (sum(column) / len(parts) for column in zip(*parts, strict=True))
    return Pooled(value, low, high, n=len(found), seeds=found[0].seeds)
