"""Which representation of a group a head's transitions look like, by their ranks alone.

A transition that represents the element g has `rank(I - rho(g))` directions that it changes. For
the permutation matrices of S_n that is `n - cycles(g)` (theory E2); other representations have
other ranks (E8), so the ranks tell them apart, as far as ranks can.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Int
from torch import Tensor

from lt2theory.analysis._checks import check_interval

PERMUTATION = "permutation matrices"
"""The representation that is asked about first."""

TOLERANCE = 0.25
"""Largest mean deviation at which a head is said to show the ranks of a representation."""

IDLE = 0.1
"""Largest singular value up to which a transition counts as rank 0; a reflection has 2."""

HEAD = ["layer", "head"]


@dataclass(frozen=True)
class Carried:
    """The head that comes nearest to one representation.

    Attributes:
        representation: What was compared.
        layer: Layer of the nearest head, counted from 0.
        head: The head, counted from 0.
        deviation: Mean over elements of the mean over tokens of |carried rank - rank|.
        within: Whether the deviation is at most the tolerance and no other representation is nearer
            to that head.
    """

    representation: str
    layer: int
    head: int
    deviation: float
    within: bool


def representation_ranks(names: Sequence[str]) -> dict[str, dict[str, int]]:
    """`rank(I - rho(g))` of every element under a few representations.

    Args:
        names: The elements in cycle notation, such as `(1 2)(3 4)`; `()` is the identity, and the
            parts of a direct product are joined by "x" (ranks add up over them).

    Returns:
        Representation -> element -> rank, those with equal ranks once, the permutation matrices
        first. The sign is 1 for odd elements; its product with the standard representation of
        dimension n - 1 turns S_4 into the rotations of a cube; "rotations" change a plane for every
        element but the identity.

    Raises:
        ValueError: If a name is no cycle notation.

    Example:
        >>> representation_ranks(["()", "(1 2)", "(1 2 3)"])["permutation matrices"]
        {'()': 0, '(1 2)': 1, '(1 2 3)': 2}
    """
    lengths = {name: [_cycle_lengths(part, name) for part in name.split("x")] for name in names}
    moved = {name: sum(n - 1 for part in parts for n in part) for name, parts in lengths.items()}
    odd = {name: rank % 2 for name, rank in moved.items()}
    found: dict[str, dict[str, int]] = {PERMUTATION: moved}
    if any(odd.values()):
        found["the sign alone"] = odd
        if all(len(parts) == 1 for parts in lengths.values()):
            degree = _degree(names)
            found["the sign times the standard representation"] = {
                # An odd g keeps what the standard representation turns into its negative.
                name: degree - 1 - sum(n % 2 == 0 for n in parts[0]) if odd[name] else moved[name]
                for name, parts in lengths.items()
            }
    found["rotations of a plane or of space"] = {name: 2 * (r > 0) for name, r in moved.items()}
    found["one reflection an element (no representation)"] = {
        name: int(r > 0) for name, r in moved.items()
    }
    found["nothing (every element the same)"] = dict.fromkeys(moved, 0)
    distinct: dict[tuple[int, ...], str] = {}
    for name, ranks in found.items():
        distinct.setdefault(tuple(ranks.values()), name)
    return {name: found[name] for name in distinct.values()}


def carried_rank(table: pd.DataFrame, *, idle: float = IDLE) -> pd.Series:
    """Entropy effective rank, and 0 where the transition hardly does anything.

    The entropy rank ignores the scale of a spectrum, so that a nearly idle transition would count
    as much as a reflection, whose singular value is 2.

    Args:
        table: From `loop_transitions`.
        idle: Largest singular value up to which a transition counts as idle.

    Returns:
        One number a row.
    """
    return table["entropy_rank"].where(table["largest"] > idle, 0.0).rename("carried_rank")


def carried_by_element(
    table: pd.DataFrame, tokens: Int[Tensor, "b t"], names: Sequence[str]
) -> pd.DataFrame:
    """Ranks of the transitions, summarised for every head and group element.

    Args:
        table: From `loop_transitions` with `span=1`, for one number of loops.
        tokens: The traced tokens.
        names: Elements in cycle notation, by token id.

    Returns:
        One row for each layer, head and element that occurs: `element`, `reference` (n - cycles),
        `count`; mean, `std`, `low`, `median` and `high` (5, 50, 95 %) of the carried rank, as
        `carried_*`; `entropy_mean`, `entropy_std`, `absolute_mean`, `absolute_std` and
        `largest_median`.
    """
    ids = tokens.detach().cpu().numpy()
    element = np.asarray(names)[ids[table["batch"].to_numpy(), table["token"].to_numpy()]]
    rows = table.assign(element=element, carried=carried_rank(table))
    grouped = rows.groupby([*HEAD, "element"])
    carried = grouped["carried"]
    summary = pd.DataFrame(
        {
            "count": grouped.size(),
            "carried_mean": carried.mean(),
            "carried_std": carried.std(ddof=0),
            "carried_low": carried.quantile(0.05),
            "carried_median": carried.median(),
            "carried_high": carried.quantile(0.95),
            "entropy_mean": grouped["entropy_rank"].mean(),
            "entropy_std": grouped["entropy_rank"].std(ddof=0),
            "absolute_mean": grouped["absolute_rank"].mean(),
            "absolute_std": grouped["absolute_rank"].std(ddof=0),
            "largest_median": grouped["largest"].median(),
        }
    ).reset_index()
    reference = representation_ranks(names)[PERMUTATION]
    summary.insert(3, "reference", summary["element"].map(reference))
    return summary


def representations_carried(
    table: pd.DataFrame,
    tokens: Int[Tensor, "b t"],
    names: Sequence[str],
    *,
    tolerance: float = TOLERANCE,
) -> list[Carried]:
    """The nearest head for every representation.

    Args:
        table: From `loop_transitions` with `span=1`, for one number of loops.
        tokens: The traced tokens.
        names: Elements in cycle notation, by token id.
        tolerance: Mean deviation up to which a head carries a representation.

    Returns:
        The permutation matrices first, then the others, nearest first. Every element counts the
        same, however often it occurs.

    Raises:
        ValueError: If `tolerance` is not in [0, 1].
    """
    check_interval("tolerance", tolerance, 0, 1)
    ids = tokens.detach().cpu().numpy()
    element = np.asarray(names)[ids[table["batch"].to_numpy(), table["token"].to_numpy()]]
    rows = table[HEAD].assign(element=element, carried=carried_rank(table))
    off = {}
    for name, ranks in representation_ranks(names).items():
        distance = (rows["carried"] - rows["element"].map(ranks)).abs()
        by_element = rows.assign(off=distance).groupby([*HEAD, "element"])["off"].mean()
        off[name] = by_element.groupby(HEAD).mean()
    by_head = pd.DataFrame(off)
    deviations = by_head.to_numpy(dtype=np.float64)
    found = []
    for column, name in enumerate(off):
        row = int(deviations[:, column].argmin())
        layer, head = (int(by_head.index.get_level_values(level)[row]) for level in HEAD)
        deviation = float(deviations[row, column])
        within = deviation <= tolerance and int(deviations[row].argmin()) == column
        found.append(Carried(name, layer, head, deviation, within))
    first, *others = found
    return [first, *sorted(others, key=lambda one: one.deviation)]


def _cycle_lengths(part: str, name: str) -> list[int]:
    """Return the lengths of the cycles that are written out.

    Raises:
        ValueError: If the text is no cycle notation.
    """
    if not re.fullmatch(r"(\(\d+( \d+)*\))+|\(\)", part):
        raise ValueError(f"names: {name!r} is not allowed (must be in cycle notation)")
    return [len(cycle.split()) for cycle in re.findall(r"\(([\d ]+)\)", part)]


def _degree(names: Sequence[str]) -> int:
    """Return the number of points that the elements permute."""
    return max(int(point) for name in names for point in re.findall(r"\d+", name))
