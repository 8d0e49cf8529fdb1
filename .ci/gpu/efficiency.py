"""Rows of the efficiency benchmark: `clean FILE`, `table FILE`, `try FILE` (small, on a CPU)."""

import json
import math
import sys
from pathlib import Path
from typing import Any

from typing_extensions import override

from lt2theory.bench.efficiency import measure_cells
from lt2theory.bench.efficiency_cells import FORMS, all_cells, without_loops
from lt2theory.bench.efficiency_file import KEY, add_rows, left_to_do
from lt2theory.bench.presets import HostMeter
from lt2theory.models import LoopedConfig
from lt2theory.runs.environment import capture

DEAD = ("CUDA error", "AcceleratorError", "misaligned", "illegal", "unspecified launch")
"""Words of a fault after which a process can use its device no more."""
SHOWN = (("decode", 8), ("prefill", 1))


def content_of(path: Path) -> dict[str, Any]:
    """What a file holds, no rows where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"rows": []}


def clean(path: Path) -> None:
    """Drop the rows that met a dead device, but for the first, which is the fault itself."""
    content = content_of(path)
    dead = [
        row
        for row in content["rows"]
        if row["ms"] is None and any(word in (row["reason"] or "") for word in DEAD)
    ]
    if len(dead) > 1:
        content["rows"] = [row for row in content["rows"] if row not in dead[1:]]
        path.write_text(json.dumps(content), encoding="utf-8")
        named = " ".join(str(dead[0][name]) for name in KEY)
        print(f"dropped {len(dead) - 1} rows after {named}: {dead[0]['reason']}")


def told(row: dict[str, Any], softmax: float | None) -> str:
    """A row in words, beside the tokens a second of softmax attention."""
    if row["ms"] is None:
        return str(row["reason"])[:40]
    speed = row["tokens_per_second"]
    times = speed / softmax if softmax else math.nan
    return (
        f"{row['ms']:.2f} ms floor {row['floor_ms']:.2f} {speed:.0f}/s x{times:.2f} "
        f"{row['peak_gib']:.0f} GiB {row['path']}"
    )


def table(path: Path) -> None:
    """Print the rows of the figure's main lines."""
    rows = content_of(path)["rows"]
    print("TABLE", len(rows), "rows")
    looped = [row for row in rows if row["form"] == "looped"]
    looped.sort(key=lambda row: (row["phase"], row["batch"], row["length"]))
    softmax = {
        (row["phase"], row["batch"], row["length"]): row["tokens_per_second"]
        for row in looped
        if row["arm"] == "full"
    }
    for row in looped:
        phase, batch, length = row["phase"], row["batch"], row["length"]
        if (phase, batch) in SHOWN:
            said = told(row, softmax.get((phase, batch, length)))
            print(f"{phase:<8}b{batch:<3}{length:>7} {row['arm']:<9} {said}")


class TryMeter(HostMeter):
    """Times on a CPU, with a number for the memory."""

    @override
    def peak(self) -> float:
        return 0.0


def small(arm: str, form: Any) -> LoopedConfig:
    """A model that a CPU runs at once."""
    config = LoopedConfig(
        vocab_size=20, width=16, num_layers=2, num_loops=2, num_heads=2, pattern=arm
    )
    return without_loops(config, form)


def try_out(path: Path) -> None:
    """Run the same functions on small models, through the file."""
    cells = all_cells(("full", "gdn"), FORMS, ("decode", "prefill"), (1, 8), (16, 32))
    add_rows(
        path,
        lambda: measure_cells(
            left_to_do(cells, path),
            TryMeter(),
            until=math.inf,
            steps=2,
            backend="auto",
            config=small,
        ),
        command="efficiency.py try",
        environment=capture(threads=1, device="cpu"),
    )


if __name__ == "__main__":
    {"clean": clean, "table": table, "try": try_out}[sys.argv[1]](Path(sys.argv[2]))
