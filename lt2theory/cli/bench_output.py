"""What the verbs of `lt2 bench` share: lists of numbers checked, tables printed and written."""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel

if TYPE_CHECKING:
    import pandas as pd


def check_lists(options: BaseModel, **names: Iterable[str]) -> None:
    """Refuse a list that is empty, or has a number below 1 or an unknown name.

    Args:
        options: Options, some of which are lists: of numbers, of choices, or of names.
        names: By the field of a list of names, those that there are.

    Raises:
        ValueError: A list is so.
    """
    from tasks.names import unknown_name

    for field, info in type(options).model_fields.items():
        values = getattr(options, field)
        if not isinstance(values, tuple):
            continue
        flag = "--" + field.replace("_", "-")
        kind = get_args(info.annotation)[0]
        allowed = tuple(names.get(field, get_args(kind)))
        if not values:
            some = "of " if allowed else "numbers >= 1, such as " if kind is int else "such as "
            listed = ", ".join(map(str, allowed or info.default))
            raise ValueError(f"{flag}: no value given (one or more {some}{listed})")
        if kind is int and min(values) < 1:
            raise ValueError(f"{flag}: {values} is not allowed (numbers >= 1)")
        unknown = next((value for value in values if allowed and value not in allowed), None)
        if unknown is not None:
            raise ValueError(unknown_name(flag, unknown, allowed))


def check_backend(backend: str) -> None:
    """Refuse a backend that there is not, before anything is measured.

    Args:
        backend: What `--backend` was given.

    Raises:
        ValueError: Naming those that there are.
    """
    from lt2theory.ops import BACKENDS
    from tasks.names import unknown_name

    if backend not in BACKENDS:
        raise ValueError(unknown_name("--backend", backend, BACKENDS))


def publish(table: "pd.DataFrame", path: Path | None, *, threads: int, device: str = "cpu") -> None:
    """Print a table, and write it with the environment it was measured in.

    Args:
        table: What was measured.
        path: Where to write it, if anywhere.
        threads: Threads of a tensor operation.
        device: The name of the device.
    """
    print(table.to_string(index=False, float_format=lambda value: f"{value:,.3g}"))
    if path is not None:
        _write(table, path, threads, device)


class Growing:
    """Tells every row of a table as it is measured: a line on stderr, and the file so far."""

    def __init__(self, path: Path | None, *, threads: int, device: str = "cpu") -> None:
        """Begin with no row.

        Args:
            path: The file of the table, if any.
            threads: Threads of a tensor operation.
            device: The name of the device.
        """
        self.path = path
        self.threads = threads
        self.device = device
        self.rows: list[Mapping[str, object]] = []

    def __call__(self, row: Mapping[str, object]) -> None:
        """Tell one row.

        Args:
            row: What was measured.
        """
        import pandas as pd

        self.rows.append(row)
        told = (f"{x:.4g}" if isinstance(x, float) else str(x) for x in row.values())
        print(*told, file=sys.stderr, flush=True)
        if self.path is not None:
            _write(pd.DataFrame(self.rows), self.path, self.threads, self.device)


def _write(table: "pd.DataFrame", path: Path, threads: int, device: str) -> None:
    from lt2theory.runs import write_json
    from lt2theory.runs.environment import capture

    rows = json.loads(table.to_json(orient="records"))
    write_json(path, {"environment": capture(threads=threads, device=device), "rows": rows})
