"""Numbers of arms, and what one arm spends more than another on the same documents.

All arms read the same held-out documents, so that differences are drawn in pairs: a bootstrap over
documents, the same in both arms, and over the seeds of each, whose windows are the same as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from lt2theory.experiments.linearization.views import Pooled
from lt2theory.linearize.evaluation.intervals import RESAMPLES, document_draws
from lt2theory.report.tables import format_interval, format_number


@dataclass(frozen=True)
class _Bits:
    """Bits of every document by seed, and bytes of the documents."""

    bits: Float[np.ndarray, "seeds documents"]
    sizes: Float[np.ndarray, " documents"]

    @property
    def value(self) -> float:
        """Bits per byte, the mean of the seeds."""
        return float(self.bits.mean(0).sum() / self.sizes.sum())

    def drawn(self, side: int) -> Float[np.ndarray, " resamples"]:
        """Bits per byte of documents and seeds that were drawn again."""
        seeds = len(self.bits)
        rng = np.random.Generator(np.random.Philox(side))
        picked = self.bits[rng.integers(seeds, size=(RESAMPLES, seeds))].mean(1)
        documents = document_draws(len(self.sizes), 0)
        ratios: np.ndarray = (documents * picked).sum(1) / (documents @ self.sizes)
        return ratios


def number(rows: pd.DataFrame, arm: str, part: str, metric: str, **where: int) -> Pooled | None:
    """A number of an arm at a loop or length, its seeds together.

    Args:
        rows: Of cells that are done.
        arm: The arm.
        part: Part of the measurement; of `stability` the last reading counts.
        metric: Its name.
        **where: Values of other columns, such as `loop` or `length`.

    Returns:
        The mean of the seeds, from the lowest to the highest of them (of the ends of their own
        intervals where they have such); None where it was not measured.
    """
    own = rows[(rows["arm"] == arm) & (rows["part"] == part) & (rows["metric"] == metric)]
    for column, value in where.items():
        own = own[(own[column] == value).fillna(False)]
    if part == "stability":
        own = own[(own["step"] == own["step"].max()).fillna(False)]
    if own.empty:
        return None
    values = own["value"].astype(float)
    low, high = (own[end].astype(float).fillna(values) for end in ("low", "high"))
    seeds = own["seed"].nunique()
    ends = (float(low.min()), float(high.max()))
    if seeds == 1 and own["low"].isna().all():
        ends = (float("nan"), float("nan"))
    return Pooled(float(values.mean()), *ends, n=len(own), seeds=seeds)


def largest(rows: pd.DataFrame, arm: str, metric: str) -> Pooled | None:
    """The largest of an instrument over all places of the last reading, by seed.

    Args:
        rows: Of cells that are done.
        arm: The arm.
        metric: The instrument, one of `measured.PROFILED`.

    Returns:
        The mean of the seeds, from the lowest to the highest.
    """
    own = rows[(rows["arm"] == arm) & (rows["part"] == "profile") & (rows["metric"] == metric)]
    if own.empty:
        return None
    by_seed = own.groupby("seed")["value"].max().astype(float)
    ends = (by_seed.min(), by_seed.max()) if len(by_seed) > 1 else (np.nan, np.nan)
    return Pooled(float(by_seed.mean()), float(ends[0]), float(ends[1]), seeds=len(by_seed))


def bits_per_byte(rows: pd.DataFrame, arm: str) -> Pooled | None:
    """What an arm spends on held-out text.

    Args:
        rows: Of cells that ended (`views.ended`).
        arm: The arm.

    Returns:
        Bits per byte with a 95 % interval over documents and seeds; None where none has ended.
    """
    found = _bits(rows, arm)
    return None if found is None else _pooled(found.value, found.drawn(1), len(found.bits))


def bits_by_seed(rows: pd.DataFrame, arm: str) -> Pooled | None:
    """What the seeds of an arm spend on held-out text, for figures: documents differ far more.

    Args:
        rows: Of cells that ended (`views.ended`).
        arm: The arm.

    Returns:
        Bits per byte, the mean of the seeds, from the lowest to the highest of them; None where
        none has ended.
    """
    found = _bits(rows, arm)
    if found is None:
        return None
    seeds = found.bits.sum(1) / found.sizes.sum()
    return Pooled(found.value, float(seeds.min()), float(seeds.max()), seeds=len(seeds))


def more_bits(rows: pd.DataFrame, arm: str, base: str) -> Pooled | None:
    """How much more than another an arm spends, in shares of what that one spends.

    Args:
        rows: Of cells that ended (`views.ended`).
        arm: The arm.
        base: The other.

    Returns:
        The share with its 95 % interval, negative where the arm is better; None where one of the
        two has not ended, or they have read different documents.
    """
    one, other = _bits(rows, arm), _bits(rows, base)
    if one is None or other is None or not np.array_equal(one.sizes, other.sizes):
        return None
    drawn = one.drawn(1) / other.drawn(2) - 1
    return _pooled(one.value / other.value - 1, drawn, len(one.bits))


def said(one: Pooled, *, scale: float = 1.0) -> str:
    """A number in words.

    Args:
        one: The number.
        scale: What it is multiplied by.

    Returns:
        The number with its ends, or alone where all seeds say the same.
    """
    if one.low == one.high:
        return format_number(scale * one.value)
    return format_interval(scale * one.value, scale * one.low, scale * one.high)


def seeds_missing(rows: pd.DataFrame, arms: Sequence[str], seeds: Sequence[int]) -> bool:
    """Whether a seed of some arms is not there.

    Args:
        rows: Of cells that are done, or have ended.
        arms: The arms.
        seeds: Their seeds.

    Returns:
        Whether one is missing.
    """
    return any(not set(seeds) <= set(rows[rows["arm"] == arm]["seed"]) for arm in arms)


def _bits(rows: pd.DataFrame, arm: str) -> _Bits | None:
    own = rows[(rows["arm"] == arm) & (rows["part"] == "document")]
    if own.empty:
        return None
    wide = own.pivot_table(index="seed", columns="kind", values="value", sort=True)
    sizes = own.groupby("kind")["n"].first().reindex(wide.columns)
    return _Bits(wide.to_numpy(dtype=float), sizes.to_numpy(dtype=float))


def _pooled(value: float, drawn: Float[np.ndarray, " resamples"], seeds: int) -> Pooled:
    low, high = np.quantile(drawn, (0.025, 0.975)).tolist()
    return Pooled(value, low, high, seeds=seeds)
