"""The tables of docs/study.md about word problems and ranks, from a study's table."""

import pandas as pd

from lt2theory.experiments.cells import Cells
from lt2theory.experiments.study_rank_rows import RANKS
from lt2theory.experiments.study_tables import NOT_RUN, Records, labels_of
from lt2theory.experiments.study_views import counted_seeds, said_tests, solved_by
from lt2theory.report.tables import MISSING, format_interval
from lt2theory.report.views import ACCURACY, accuracies, outcomes

FIRST = "longest training length, right there"
TESTED = {"right at the last token": ACCURACY, "right at every token": "sequence_accuracy"}
"""Column -> the metric of the test at the longest length."""


def word_records(table: pd.DataFrame, cells: Cells) -> Records:
    """What was solved of block 2, and how far it carries.

    Args:
        table: A study's table.
        cells: Its cells.

    Returns:
        One record an arm.
    """
    return [_word_record(table, label, cells) for label in labels_of(cells)]


def rank_records(table: pd.DataFrame) -> Records:
    """Ranks of the transitions, of models that solved every length and of those that did not.

    Args:
        table: A study's table.

    Returns:
        One record an arm and outcome; none where nothing was measured.
    """
    ends = outcomes(table)
    rows = table[table["split"] == RANKS]
    rows = rows.assign(solved=rows["run"].isin(ends[ends["solved"]]["run"]))
    records = []
    for (label, solved), group in rows.groupby(["label", "solved"], sort=False):
        numbers = group.groupby("metric")["value"]
        middle, highest = numbers.median(), numbers.max()
        spread = group[group["metric"] == "entropy_rank"]["value"].astype(float)
        records.append(
            {
                "arm": str(label),
                "models": f"{group['run'].nunique()} that {'solved' if solved else 'failed'}",
                "largest rank": f"{highest['largest_rank']:g}",
                "effective rank": format_interval(
                    float(middle["entropy_rank"]), float(spread.min()), float(spread.max()), 2
                ),
                "with orthogonal keys": f"{middle['ideal_entropy_rank']:.2f}",
                "beta": f"{middle['beta']:.2f}",
                # Models that were measured before there was this number have none.
                "beyond the token": (
                    f"{middle['beyond_token']:.2f}" if "beyond_token" in middle else MISSING
                ),
            }
        )
    return records


def _word_record(table: pd.DataFrame, label: str, cells: Cells) -> dict[str, str]:
    mine = [cell for cell in cells if cell.config.label == label]
    config = mine[0].config
    far = config.test_stages[-1]
    ended = len(outcomes(table[table["label"] == label]))
    record = {"arm": label}
    if not ended:
        missing = [FIRST, "steps", "tested at", *TESTED]
        return record | {"solved all": NOT_RUN} | dict.fromkeys(missing, MISSING)
    found = solved_by(table, label, ended)
    ends = outcomes(table[table["label"] == label])
    solved = ends[ends["solved"]]["steps"].astype(float)
    return record | {
        "solved all": counted_seeds(found),
        FIRST: _longest(table[table["label"] == label]),
        "steps": f"{solved.median():,.0f}" if len(solved) else MISSING,
        "tested at": str(far),
        **{name: said_tests(table, label, far, metric) for name, metric in TESTED.items()},
    }


def _longest(rows: pd.DataFrame) -> str:
    """The last length that every seed trained on, whether it was passed or not, and its test."""
    tests = accuracies(rows)
    trained = rows[rows["split"] == "train"].groupby("run")["stage"].max()
    own = tests.assign(last=tests["run"].map(trained))
    last = own[own["stage"] == own["last"]]
    said = [
        f"{stage:g}: {value:.3f}" for stage, value in zip(last["stage"], last["value"], strict=True)
    ]
    return ", ".join(said) or MISSING
