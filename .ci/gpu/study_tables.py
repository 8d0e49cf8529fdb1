"""What a session of a study has reached: `loops FOLDER` or `language PARQUET`."""

import json
import sys
from pathlib import Path

import pandas as pd

METRICS = (
    "bits_per_byte", "tokens_per_second", "training_seconds", "cell_seconds", "spikes", "diverged",
)  # fmt: skip


def loops(folder: Path) -> None:
    """Say how far every cell that is there has come."""
    for path in sorted(folder.rglob("timing.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        if lines:
            row = json.loads(lines[-1])
            clock, training = row["seconds"], row["training_seconds"]
            name = f"{path.parent.name[:44]:<44}"
            print(f"{name} step {row['step']}, clock {clock:.0f} s, training {training:.0f} s")


def language(path: Path) -> None:
    """Print the main metrics, a cell a row."""
    table = pd.read_parquet(path)
    table = table[table["metric"].isin(METRICS)]
    wide = table.pivot_table(
        index="cell", columns=["part", "metric", "length"], values="value", dropna=False
    )
    print(wide.dropna(axis=1, how="all").round(3).to_string())


if __name__ == "__main__":
    {"loops": loops, "language": language}[sys.argv[1]](Path(sys.argv[2]))
