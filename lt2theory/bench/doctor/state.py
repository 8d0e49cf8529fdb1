"""The file from which an interrupted diagnosis goes on: one finished case a line."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lt2theory.bench.doctor.cases import Case
from lt2theory.bench.doctor.measure import Outcome
from lt2theory.runs.atomic import refuse_irregular
from lt2theory.runs.hashing import HASH_DIGITS, config_hash
from lt2theory.runs.jsonl import append_line, drop_torn_line, read_lines

_BEGINNING = b'{"key":"' + HASH_DIGITS * b"0" + b'","limit":'
"""How every line begins, with 0 for any hexadecimal digit."""


class FinishedCases:
    """Outcomes by case, kept in a file if one is given.

    An outcome counts only for the environment and the settings that it was measured with; those of
    others stay in the file and are passed over. What hung is tried again under a longer limit.

    Args:
        path: The file, or None to remember nothing.
        conditions: All that an outcome depends on besides its case: versions, device, settings.
        limit: Seconds that a case may take now.

    Raises:
        ValueError: If the file holds something else, or is no regular file. It is untouched then.
    """

    def __init__(self, path: Path | None, conditions: Mapping[str, Any], limit: float) -> None:
        self._path = path
        self._key = config_hash(dict(conditions))
        self._limit = limit
        self._outcomes: dict[Case, Outcome] = {}
        for line, outcome in [] if path is None else _read(path):
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


def _read(path: Path) -> list[tuple[dict[str, Any], Outcome]]:
    """The lines with their outcomes; a torn last one is dropped once all is known to be ours."""
    refuse_irregular(path)
    lines = read_lines(path)
    known = all({"key", "limit", "outcome"} == line.keys() for line in lines)
    if not known or not _ends_as_ours(path, fresh=not lines):
        raise ValueError(f"{path} holds something else than the state of a doctor")
    found = [(line, _outcome(path, number, line)) for number, line in enumerate(lines, start=1)]
    drop_torn_line(path)
    return found


def _ends_as_ours(path: Path, *, fresh: bool) -> bool:
    """Whether what follows the last line end is nothing, or the beginning of a line of ours."""
    tail = path.read_bytes().rpartition(b"\n")[2] if path.exists() else b""
    pairs = list(zip(tail, _BEGINNING, strict=False))
    fits = all(a == b or (b == ord("0") and a in b"0123456789abcdef") for a, b in pairs)
    # Where no whole line says whose file it is, less than that is too little to tell.
    return not tail or (fits and not (fresh and len(pairs) < len(_BEGINNING)))


def _outcome(path: Path, number: int, line: Mapping[str, Any]) -> Outcome:
    """The outcome of a line; a `ValueError` if it is damaged."""
    damaged = f"{path} line {number} is damaged"
    if not isinstance(line["key"], str):
        raise ValueError(f"{damaged}: key: {line['key']!r} is not allowed (must be a text)")
    if isinstance(line["limit"], bool) or not isinstance(line["limit"], int | float):
        raise ValueError(f"{damaged}: limit: {line['limit']!r} is not allowed (must be a number)")
    if not isinstance(line["outcome"], dict):
        raise ValueError(f"{damaged}: outcome: {line['outcome']!r} is not allowed (an object)")
    try:
        return Outcome.from_json(line["outcome"])
    except ValueError as error:
        raise ValueError(f"{damaged}: {error}") from error
