"""The rules of the study's predictions: from its table to what was found.

What compares arms stays open until all their seeds have ended; a seed that diverged never does.
"""

from collections.abc import Sequence
from itertools import pairwise

import pandas as pd

from lt2theory.experiments.language.arms import BASE, FULL, GDN, RATIOS, SEEDS
from lt2theory.experiments.language.cells import LENGTH, LONG
from lt2theory.experiments.language.comparisons import (
    largest,
    more_bits,
    number,
    said,
    seeds_missing,
)
from lt2theory.experiments.linearization.views import Pooled, below, ended
from lt2theory.experiments.study_prediction import Judged
from lt2theory.report.tables import format_number

MARGIN = 0.01
"""Share of the bits below which arms are called alike."""
Named = list[tuple[str, Pooled | None]]
Pairs = Sequence[tuple[str, str]]


def fewer(table: pd.DataFrame, pairs: Pairs, *, lines: Sequence[float] = ()) -> Judged:
    """Whether the first of every pair spends fewer bits than the second.

    Args:
        table: The table.
        pairs: Arms.
        lines: By which share of the second's the first may spend more; none of them for 0.

    Returns:
        A finding a pair, open where the interval holds the line.
    """
    named = _differences(table, pairs)
    findings = [
        _decided(table, pair, _under(found, line))
        for pair, line, (_, found) in zip(pairs, lines or [0.0] * len(pairs), named, strict=True)
    ]
    return Judged(tuple(findings), _said(named, percent=True))


def alike(table: pd.DataFrame, arm: str, base: str) -> Judged:
    """Whether two arms differ by less than `MARGIN`.

    Args:
        table: The table.
        arm: One.
        base: The other.

    Returns:
        Held where the interval lies inside the margin, broken where it lies outside.
    """
    named = _differences(table, [(arm, base)])
    found, finding = named[0][1], None
    if found is not None:
        inside = found.low > -MARGIN and found.high < MARGIN
        outside = found.low > MARGIN or found.high < -MARGIN
        finding = True if inside else False if outside else None
    return Judged((_decided(table, [arm, base], finding),), _said(named, percent=True))


def caches(table: pd.DataFrame) -> Judged:
    """Whether caches shrink with the softmax layers, and that of GDN does not grow.

    Args:
        table: The table.

    Returns:
        A finding for each step from ratio to ratio, and one for GDN.
    """
    rows = ended(table)
    named: Named = [(arm, number(rows, arm, "speed", "cache_mib", length=LONG)) for arm in RATIOS]
    short, long = number(rows, GDN, "speed", "cache_mib", length=LENGTH), named[-1][1]
    findings: list[bool | None] = [
        None if a is None or b is None else a.value > b.value for (_, a), (_, b) in pairwise(named)
    ]
    findings.append(None if short is None or long is None else short.value == long.value)
    findings.append(None if seeds_missing(rows, list(RATIOS), SEEDS) else True)
    return Judged(tuple(findings), _said([(f"{arm}, MiB", one) for arm, one in named]))


def speeds(table: pd.DataFrame) -> Judged:
    """Whether decoding gets faster with fewer softmax layers.

    Args:
        table: The table.

    Returns:
        A finding for each step from ratio to ratio.
    """
    rows, metric = ended(table), "tokens_per_second"
    named: Named = [(arm, number(rows, arm, "speed", metric, length=LONG)) for arm in RATIOS]
    findings = tuple(
        None if a is None or b is None else _decided(table, [one, two], a.value < b.value)
        for (one, a), (two, b) in pairwise(named)
    )
    return Judged(findings, _said(named))


def sinks(table: pd.DataFrame) -> Judged:
    """Whether the output gate halves the largest sink mass of the softmax model.

    Args:
        table: The table.

    Returns:
        One finding, open where seeds lie on both sides.
    """
    rows, arms = ended(table), ("gate-1to0", FULL)
    gated, plain = (largest(rows, arm, "first_token_mass") for arm in arms)
    half = None if plain is None else Pooled(plain.value / 2, plain.low / 2, plain.high / 2)
    named: Named = [(arms[0], gated), (arms[1], plain)]
    return Judged((_decided(table, arms, below(gated, half)),), _said(named))


def apart(table: pd.DataFrame, pairs: Pairs, metric: str, *, loop: int) -> Judged:
    """Whether all seeds of one arm lie below all of another, at the last reading.

    Args:
        table: The table.
        pairs: Arms, the lower one first.
        metric: An instrument that is read by loop.
        loop: The loop.

    Returns:
        A finding a pair, open where seeds overlap.
    """
    rows = ended(table)
    findings: list[bool | None] = []
    named: Named = []
    for pair in pairs:
        both = [number(rows, arm, "stability", metric, loop=loop) for arm in pair]
        findings.append(_decided(table, pair, below(*both)))
        named += list(zip(pair, both, strict=True))
    return Judged(tuple(findings), _said(named))


def failures(table: pd.DataFrame) -> Judged:
    """Whether every seed of RetNet goes wrong at the high rate, and none of GDN.

    Args:
        table: The table.

    Returns:
        A finding a seed; open while one is missing.
    """
    done = table[table["status"] == "done"]
    findings: list[bool | None] = []
    told = []
    arms = ("stability-retnet-fast", "stability-gdn-fast")
    for arm, fails in zip(arms, (True, False), strict=True):
        own = done[(done["arm"] == arm) & (done["part"] == "training")]
        wrong = own[own["metric"].isin(["spikes", "not_finite", "diverged"])]
        by_seed = wrong.groupby("seed")["value"].sum().astype(float)
        findings += [bool(value > 0) == fails for value in by_seed]
        if len(by_seed):
            counts = ", ".join(format_number(value, 0) for value in by_seed)
            told.append(f"{arm}, by seed: {counts}")
    if seeds_missing(done, arms, SEEDS):
        findings.append(None)
    return Judged(tuple(findings), ("; ".join(told) or "Not measured yet") + ".")


def subtracts(table: pd.DataFrame) -> Judged:
    """Whether the loop gate of 1:4 is negative on average in all loops but the first.

    Args:
        table: The table.

    Returns:
        A finding a seed and loop; open while a seed is missing.
    """
    rows = ended(table)
    own = rows[(rows["arm"] == BASE) & (rows["metric"] == "rho")]
    findings: list[bool | None] = []
    named: Named = []
    for loop in (1, 2, 3):
        values = own[(own["loop"] == loop).fillna(False)]["value"].astype(float)
        findings += [bool(value < 0) for value in values]
        if len(values):
            low, high = float(values.min()), float(values.max())
            named.append((f"loop {loop + 1}", Pooled(float(values.mean()), low, high)))
    if seeds_missing(rows, [BASE], SEEDS):
        findings.append(None)
    return Judged(tuple(findings), _said(named))


def _said(named: Named, *, percent: bool = False) -> str:
    scale, unit = (100.0, " %") if percent else (1.0, "")
    found = [f"{name} {said(x, scale=scale)}{unit}" for name, x in named if x is not None]
    return (", ".join(found) or "Not measured yet") + "."


def _decided(table: pd.DataFrame, arms: Sequence[str], finding: bool | None) -> bool | None:
    """A finding about means; open while a seed is missing, since they may still turn."""
    return None if seeds_missing(ended(table), arms, SEEDS) else finding


def _differences(table: pd.DataFrame, pairs: Pairs) -> Named:
    rows = ended(table)
    return [(f"{one} over {other}", more_bits(rows, one, other)) for one, other in pairs]


def _under(found: Pooled | None, line: float) -> bool | None:
    """Whether an interval lies below a line; None where it holds it or there is none."""
    if found is None:
        return None
    return True if found.high < line else False if found.low > line else None
