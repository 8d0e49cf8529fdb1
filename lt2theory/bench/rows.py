"""Rows of a measurement, told as they come: what was measured outlives an interruption."""

from collections.abc import Callable, Mapping

OnRow = Callable[[Mapping[str, object]], None]
"""Called with every row once it is measured."""


def unheard(row: Mapping[str, object]) -> None:
    """Tell nobody.

    Args:
        row: What was measured.
    """
