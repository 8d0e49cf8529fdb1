"""The rules that judge the predictions about word problems and ranks: block (2)."""

import pandas as pd

from lt2theory.experiments.study_coverage import (
    cells_about,
    not_ended,
    said_missing,
    seeds_of,
)
from lt2theory.experiments.study_prediction import Judged
from lt2theory.experiments.study_rank_rows import ERASING, RANKS
from lt2theory.experiments.study_views import (
    counted_seeds,
    every,
    holding,
    none,
    said_tests,
    solved_by,
)
from lt2theory.experiments.study_words import LENGTHS
from lt2theory.report.tables import counted
from lt2theory.report.views import outcomes

FAR = 4 * LENGTHS[-1]
"""Tokens at which a group that was learnt should hold."""


def all_hold(table: pd.DataFrame, labels: tuple[str, ...], length: int = FAR) -> Judged:
    """Every seed solved every length of all arms, and holds a length.

    Args:
        table: A study's table.
        labels: The arms.
        length: Tokens at which it is held.

    Returns:
        Whether it holds, by what is compared, and what was measured, in words.
    """
    solved = {label: solved_by(table, label, seeds_of(label)) for label in labels}
    held = {label: holding(table, label, length, seeds_of(label)) for label in labels}
    findings = [every(found) for found in (*solved.values(), *held.values())]
    said = " ".join(
        f"{label}: solved by {counted_seeds(solved[label])}; at {length} tokens "
        f"{said_tests(table, label, length)}."
        for label in labels
    )
    return Judged(tuple(findings), said)


def none_hold(table: pd.DataFrame, labels: tuple[str, ...], length: int) -> Judged:
    """No seed of any arm holds a length.

    Args:
        table: A study's table.
        labels: The arms.
        length: Tokens at which it would be held.

    Returns:
        Whether it holds, by what is compared, and what was measured, in words.
    """
    held = {label: holding(table, label, length, seeds_of(label)) for label in labels}
    said = " ".join(f"{label}: held by {counted_seeds(found)}." for label, found in held.items())
    return Judged(tuple(none(found) for found in held.values()), said)


def none_solve(table: pd.DataFrame, labels: tuple[str, ...]) -> Judged:
    """No seed of any arm solved every length.

    Args:
        table: A study's table.
        labels: The arms.

    Returns:
        Whether it holds, by what is compared, and what was measured, in words.
    """
    solved = {label: solved_by(table, label, seeds_of(label)) for label in labels}
    said = " ".join(
        f"{label}: solved by {counted_seeds(found)}; at {FAR} tokens "
        f"{said_tests(table, label, FAR)}."
        for label, found in solved.items()
    )
    return Judged(tuple(none(found) for found in solved.values()), said)


def minority(table: pd.DataFrame) -> Judged:
    """Fewer than half of the seeds solve S3 under rescan, more than half under accumulate.

    Args:
        table: A study's table.

    Returns:
        Whether it holds, by what is compared, and what was measured, in words.
    """
    arms = {state: f"s3-t2-{state}" for state in ("rescan", "accumulate")}
    solved = {state: solved_by(table, arm, seeds_of(arm)) for state, arm in arms.items()}
    fewer, more = (_share(found) for found in solved.values())
    said = "; ".join(f"{state} solved by {counted_seeds(found)}" for state, found in solved.items())
    return Judged(
        (None if fewer is None else fewer < 0.5, None if more is None else more > 0.5), f"{said}."
    )


def _share(found: list[bool | None]) -> float | None:
    return None if None in found else sum(map(bool, found)) / len(found)


def rank_bound(table: pd.DataFrame) -> Judged:
    """No transition of a measured model has a rank above its number of loops.

    Args:
        table: A study's table.

    Returns:
        Whether it holds, by what is compared, and what was measured, in words.
    """
    rows = table[(table["split"] == RANKS) & (table["metric"] == "largest_rank")]
    if rows.empty:
        return Judged((None,), "No model was measured.")
    over = rows[rows["value"] > rows["loops"]]
    said = f"{len(rows)} models measured, {len(over)} with a transition of rank above T."
    about = cells_about("group_word", ERASING)
    ends = outcomes(table)
    settled = {*ends[ends["diverged"]]["run"], *rows["run"]}
    missing = not_ended(table[table["run"].isin(settled)], about)
    findings = (over.empty, *[None] * len(missing))
    return Judged(findings, said + said_missing(len(missing), about))


def rank_used(table: pd.DataFrame) -> Judged:
    """Models that solved S5 with four loops use more than two directions.

    Args:
        table: A study's table.

    Returns:
        Whether it holds, by what is compared, and what was measured, in words.
    """
    arm = "s5-t4-accumulate"
    rows = table[table["label"] == arm]
    ends = outcomes(rows)
    solved = ends[ends["solved"]]["run"]
    used = rows[(rows["split"] == RANKS) & (rows["metric"] == "entropy_rank")]
    used = used[used["run"].isin(solved)]
    if used.empty:
        return Judged((None,), "No model that solved S5 was measured.")
    values = [float(value) for value in used["value"]]
    said = f"Median effective rank, by seed: {', '.join(f'{value:.2f}' for value in values)}."
    open_seeds = max(seeds_of(arm) - len(ends), 0) + len(solved) - len(values)
    if open_seeds:
        said += f" Open: {counted(open_seeds, 'seed')}."
    return Judged((*(value > 2 for value in values), *[None] * open_seeds), said)
