"""One line of the performance page: where its numbers stand in the results, and the verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from lt2theory.fields import KnownFields

Rows = Sequence[Mapping[str, Any]]
UNMEASURED = "not measured yet"


class Number(KnownFields, frozen=True):
    """A number from elsewhere, with the sentence that says where it comes from."""

    value: float
    what: str = Field(description="What was measured, in a few words.")
    sentence: str = Field(description="How, in full.")


class Line(KnownFields, frozen=True):
    """What one line of a table reads and wants.

    The row is the last one of the file whose fields are those of `where`: files keep the rows of
    earlier revisions. `over` and `between` compare rows of one revision that differ in one field.
    """

    what: str
    where: dict[str, str | int] = Field({}, description="Fields that the row must have.")
    value: str = Field("ms", description="The field that is read.")
    unit: str = "ms"
    over: str | None = Field(
        None,
        description="Read the spread over this field instead: the largest value over the smallest, "
        "less one, in per cent.",
    )
    between: tuple[int, int] | None = Field(
        None, description="With `over`: the quotient of the value at the second and at the first."
    )
    found: tuple[str, ...] = Field(
        (), description="Where the value stands outside the rows; of several the largest counts."
    )
    show: tuple[str, ...] = Field((), description="Fields that are told beside the value.")
    baseline: str | None = Field(None, description="A name in baselines.json.")
    beside: dict[str, str | int] = Field(
        {}, description="Fields of the row whose value is the baseline, where it is in the file."
    )
    beside_is: str = Field("", description="What the row beside measured, in a few words.")
    floor: str = Field("floor_ms", description="A field of the row, or a name in baselines.json.")
    at_most: float | None = None
    at_least: float | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "Line":
        if self.at_most is not None and self.at_least is not None:
            raise ValueError("at_least: give at_most or at_least, not both")
        if self.between is not None and self.over is None:
            raise ValueError("between: give over with it")
        return self

    def ours(self, content: Mapping[str, Any]) -> float | None:
        """The number that was measured.

        Args:
            content: A file of results.

        Returns:
            It, or None where it is not there.
        """
        if self.found:
            return _at(content, self.found)
        if self.over is not None:
            return self._compared(content.get("rows", ()))
        row = self.row(content)
        return None if row is None else float(row[self.value])

    def row(self, content: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The row that it is about.

        Args:
            content: A file of results.

        Returns:
            The last row that fits and has the value.
        """
        rows = _fitting(content.get("rows", ()), self.where, self.value)
        return rows[-1] if rows else None

    def verdict(self, ours: float | None) -> str:
        """Compare a number with what is wanted.

        Args:
            ours: The number.

        Returns:
            `met`, `missed`, `measured` where nothing is wanted, or `not measured yet`.
        """
        if ours is None:
            return UNMEASURED
        if self.at_most is None and self.at_least is None:
            return "measured"
        low = self.at_least is None or ours >= self.at_least
        high = self.at_most is None or ours <= self.at_most
        return "met" if low and high else "missed"

    def wanted(self) -> str:
        """What is wanted, in words.

        Returns:
            Such as "at most 3.7 ms".
        """
        if self.at_most is not None:
            return f"at most {told(self.at_most, self.unit)}"
        return "-" if self.at_least is None else f"at least {told(self.at_least, self.unit)}"

    def _compared(self, rows: Rows) -> float | None:
        """The spread or quotient, in the last revision that has enough rows for one."""
        assert self.over is not None
        fitting = _fitting(rows, self.where, self.value)
        revisions = dict.fromkeys(row.get("source") for row in fitting)
        for revision in reversed(revisions):
            own = [row for row in fitting if row.get("source") == revision]
            values = {row[self.over]: float(row[self.value]) for row in own}
            if self.between is not None:
                first, second = (values.get(place) for place in self.between)
                if first is not None and second is not None:
                    return second / first
            elif len(values) > 1:
                return 100 * (max(values.values()) / min(values.values()) - 1)
        return None


def floor_of(
    line: Line, row: Mapping[str, Any] | None, numbers: Mapping[str, Number]
) -> float | None:
    """The bytes or products that bound a line from below, as a time.

    Args:
        line: The line.
        row: The row that it is about.
        numbers: The numbers of baselines.json by name.

    Returns:
        The floor, or None where there is none.
    """
    if row is not None and row.get(line.floor) is not None:
        return float(row[line.floor])
    return numbers[line.floor].value if line.floor in numbers else None


def told(value: float | int, unit: str = "") -> str:
    """A number with three digits, and its unit on the same line.

    Args:
        value: The number.
        unit: Its unit; none for a quotient.

    Returns:
        The text.
    """
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{digits}\N{NO-BREAK SPACE}{unit}" if unit else digits


def _fitting(rows: Rows, where: Mapping[str, str | int], value: str) -> list[Mapping[str, Any]]:
    """Rows with these fields that have a value."""
    return [
        row
        for row in rows
        if row.get(value) is not None and all(row.get(key) == x for key, x in where.items())
    ]


def _at(content: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    """A number, or the largest of several, at a path of keys."""
    place: Any = content
    for key in path:
        place = place.get(key) if isinstance(place, Mapping) else None
    if isinstance(place, list):
        place = max(place, default=None)
    return None if place is None else float(place)
