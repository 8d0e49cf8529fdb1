"""What the verbs of `lt2 bench` share: lists of numbers checked, tables printed and written."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def check_counts(name: str, counts: tuple[int, ...]) -> None:
    """Refuse a list that is empty or has a number below 1.

    Args:
        name: Its flag.
        counts: The list.

    Raises:
        ValueError: It is.
    """
    if min(counts, default=0) < 1:
        raise ValueError(f"--{name}: {counts} is not allowed (numbers >= 1)")


def publish(table: "pd.DataFrame", path: Path | None, *, threads: int) -> None:
    """Print a table, and write it with the environment it was measured in.

    Args:
        table: What was measured.
        path: Where to write it, if anywhere.
        threads: Threads of a tensor operation.
    """
    from lt2theory.runs import write_json
    from lt2theory.runs.environment import capture

    print(table.to_string(index=False, float_format=lambda value: f"{value:,.3g}"))
    if path is not None:
        rows = json.loads(table.to_json(orient="records"))
        write_json(path, {"environment": capture(threads=threads), "rows": rows})
