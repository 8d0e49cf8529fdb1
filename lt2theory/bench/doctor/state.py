"""The file from which an interrupted diagnosis goes on: one finished case a line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lt2theory.bench.doctor.cases import Case
from lt2theory.bench.doctor.measure import Outcome
from lt2theory.runs.hashing import config_hash
from lt2theory.runs.jsonl import append_line, drop_torn_line, read_lines


class FinishedCases:
    """Outcomes by case, kept in a file if one is given.

    An outcome counts only for the environment and the settings that it was measured with; those of
    others stay in the file and are passed over. What hung is tried again under a longer limit.

    Args:
        path: The file, or None to remember nothing.
        conditions: All that an outcome depends on besides its case: versions, device, settings.
        limit: Seconds that a case may take now.

    Raises:
        ValueError: If the file holds something else.
    """

    def __init__(self, path: Path | None, conditions: Mapping[str, Any], limit: float) -> None:
        self._path = path
        self._key = config_hash(dict(conditions))
        self._limit = limit
        self._outcomes: dict[Case, Outcome] = {}
        for line in [] if path is None else self._read(path):
            outcome = Outcome.from_json(line["outcome"])
            if line["key"] == self._key and not self._longer_now(line):
                self._outcomes[outcome.case] = outcome

    def get(self, case: Case) -> Outcome | None:
        """The outcome of a case that is finished.

        Args:
            case: The case.

        Returns:
            Its outcome, or None.
        """
        return self._outcomes.get(case)

    def add(self, outcome: Outcome) -> None:
        """Note a finished case, durably.

        Args:
            outcome: What it came to.
        """
        self._outcomes[outcome.case] = outcome
        if self._path is not None:
            line = {"key": self._key, "limit": self._limit, "outcome": outcome.to_json()}
            append_line(self._path, line)

    def _longer_now(self, line: Mapping[str, Any]) -> bool:
        """Whether a case hung, and has more time today."""
        return bool(line["outcome"]["verdict"] == "hung" and line["limit"] < self._limit)

    @staticmethod
    def _read(path: Path) -> list[dict[str, Any]]:
        drop_torn_line(path)
        lines = read_lines(path)
        if not all({"key", "limit", "outcome"} <= line.keys() for line in lines):
            raise ValueError(f"{path} holds something else than the state of a doctor")
        return lines
