from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lt2theory.runs import COLUMNS, RunFolder, collect, config_table, read_table, write_table

EVALUATION = {
    "step": 20, "stage": 8, "split": "eval", "n": 64,
    "metrics": {"scored_accuracy": 0.75, "loss": 0.5},
    "intervals": {"scored_accuracy": [0.6, 0.85]},
}  # fmt: skip
CURVES = {
    "step": 20, "stage": 8, "split": "test", "n": 64, "positions": [1, 3],
    "curves": {"position_accuracy": [1.0, 0.5], "exact_prefix_accuracy": [1.0, 0.25]},
}  # fmt: skip


@pytest.fixture
def table(run: RunFolder) -> pd.DataFrame:
    run.append_metrics(EVALUATION)
    run.append_metrics(CURVES)
    run.write_summary({"timing": {"seconds": 2.5}})
    return collect([run])


def test_columns_and_dtypes_are_the_documented_ones(table: pd.DataFrame) -> None:
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == {
        name: dtype for name, (dtype, _) in COLUMNS.items()
    }
    assert table.dtypes.equals(collect([]).dtypes)


def test_every_number_is_one_row(table: pd.DataFrame, run: RunFolder) -> None:
    assert len(table) == 2 + 4 + 1
    assert set(table["run"]) == {"run"}
    assert set(table["config_hash"]) == {run.config_hash}
    assert set(table["seed"]) == {3}
    score = table[table["metric"] == "scored_accuracy"].iloc[0]
    assert (score["value"], score["low"], score["high"], score["n"]) == (0.75, 0.6, 0.85, 64)
    loss = table[table["metric"] == "loss"].iloc[0]
    assert loss["value"] == 0.5
    assert pd.isna(loss["low"])
    curve = table[table["metric"] == "exact_prefix_accuracy"]
    assert dict(zip(curve["position"], curve["value"], strict=True)) == {1: 1.0, 3: 0.25}
    timing = table[table["split"] == "timing"].iloc[0]
    assert (timing["metric"], timing["value"]) == ("seconds", 2.5)
    assert pd.isna(timing["step"])


def test_parquet_round_trip(tmp_path: Path, table: pd.DataFrame) -> None:
    write_table(tmp_path / "t.parquet", table)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet"), table)


def test_unreadable_tables_are_named(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "t.parquet"
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        read_table(path)
    path.write_bytes(b"no parquet at all")
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        read_table(path)
    write_table(path, table.drop(columns=["n", "low"]))
    with pytest.raises(ValueError, match="lacks the columns low, n"):
        read_table(path)


def test_configurations_are_flattened(run: RunFolder) -> None:
    row: dict[str, Any] = config_table([run]).iloc[0].to_dict()
    assert row == {
        "run": "run", "width": 8, "label": "arm", "task.name": "parity", "task.knobs.distance": 3
    }  # fmt: skip
