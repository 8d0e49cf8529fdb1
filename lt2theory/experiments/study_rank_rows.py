"""What was measured of the ranks of a run's transitions, as rows of the study's table."""

from collections.abc import Iterator
from typing import Any

from lt2theory.runs import RunFolder, read_json

RANKS = "rank"
"""The split of the rows."""
FILE = "ranks.json"
"""What `lt2theory.experiments.study_ranks` leaves in a run's folder."""
LENGTH = 16
"""Tokens of the inputs on which a model is measured."""
ERASING = ("deltanet", "gdn", "kda")
"""Mixers whose transitions have a rank to speak of (theory R8); models of word problems by them are
measured."""


def rank_rows(run: RunFolder) -> Iterator[dict[str, Any]]:
    """What was measured of a run, as rows of the tidy table.

    Args:
        run: The run.

    Yields:
        One row a number, without what names the run; none if it was not measured.
    """
    path = run.path / FILE
    for metric, value in (read_json(path) if path.exists() else {}).items():
        yield {"split": RANKS, "stage": LENGTH, "metric": metric, "value": value}
