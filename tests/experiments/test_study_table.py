"""The study's table: thin, complete, and merged without doubles."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from lt2theory.experiments.cells import Cells
from lt2theory.experiments.studies import smoke
from lt2theory.experiments.study import Session, carry_out
from lt2theory.experiments.study_table import (
    CELL_COLUMNS,
    CURVE_POINTS,
    CURVE_POSITIONS,
    TABLE,
    merge,
    read_study_table,
    study_table,
    thinned,
)
from lt2theory.runs import COLUMNS, RunFolder, read_json, run_table, write_json, write_table
from lt2theory.runs.environment import ENVIRONMENT, sources


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    cells = smoke()
    ends = carry_out(cells, cells[:2], folder, Session("cpu"))
    assert {end.state for end in ends.values()} == {"done"}
    return folder


@pytest.fixture
def table(root: Path) -> pd.DataFrame:
    return read_study_table(root)


def test_every_row_says_what_its_cell_was(table: pd.DataFrame, root: Path) -> None:
    assert list(table.columns) == [*COLUMNS, *CELL_COLUMNS]
    assert set(table["cell"]) == {cell.name for cell in smoke()[:2]}
    cells: Cells = smoke()
    for cell in cells[:2]:
        rows = table[table["cell"] == cell.name]
        assert set(rows["config_hash"]) == {cell.run().hash}
        for name, value in cell.columns().items():
            if value is None:
                assert rows[name].isna().all()
            else:
                assert set(rows[name]) == {value}
        assert set(rows["status"]) == {"done"}
        summary = RunFolder.open(root / cell.run().folder).summary()
        assert set(rows["progress"]) == {summary["steps"]}
        cost = rows[rows["split"] == "cost"].set_index("metric")["value"]
        assert 0 < cost["device_seconds"] <= cost["seconds"]
        assert rows["torch"].notna().all()
        assert set(rows["source"]) == {sources(root / cell.run().folder)}


def test_a_run_without_git_has_an_unknown_source(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "study")
    for cell, source in zip(smoke(), (None, "1a2b"), strict=False):
        path = tmp_path / "study" / cell.run().folder / ENVIRONMENT
        known = read_json(path)
        known["created"]["source"] = source
        write_json(path, known)
    found = study_table(smoke(), tmp_path / "study")
    assert list(found["source"].unique()) == ["unknown", "1a2b"]
    # A table that was written before says nothing instead.
    write_table(tmp_path / TABLE, found.assign(source=found["source"].replace("unknown", pd.NA)))
    pd.testing.assert_frame_equal(read_study_table(tmp_path), found)


def test_the_committed_table_names_a_source_everywhere() -> None:
    table = read_study_table(Path(__file__).parents[2] / "results")
    assert table["source"].notna().all()
    assert merge([table]).equals(table)


def test_floors_stand_beside_tests_with_intervals(table: pd.DataFrame) -> None:
    tests = table[(table["split"] == "test") & (table["metric"] == "scored_accuracy")]
    assert tests[["low", "high", "n"]].notna().all().all()
    floors = table[table["split"] == "floor"]
    assert set(floors["stage"]) == set(tests["stage"])


def test_curves_keep_their_ends() -> None:
    steps = list(range(20, 820, 20))
    curve = pd.DataFrame({"step": steps, "value": steps}).assign(
        split="eval", stage=8, metric="scored_accuracy", position=pd.NA
    )
    other = curve.assign(metric="token_accuracy")
    along = pd.DataFrame({"position": range(64), "value": 1.0}).assign(
        split="test", stage=8, metric="position_accuracy"
    )
    facts = pd.DataFrame({"split": ["run"], "metric": ["steps"], "value": [800.0]})
    kept = thinned(pd.concat([curve, other, along, facts], ignore_index=True))
    points = kept[kept["metric"] == "scored_accuracy"]["step"]
    assert len(points) == CURVE_POINTS
    assert (points.iloc[0], points.iloc[-1]) == (20, 800)
    assert "token_accuracy" not in set(kept["metric"])
    places = kept[kept["metric"] == "position_accuracy"]["position"]
    assert len(places) == CURVE_POSITIONS
    assert (places.iloc[0], places.iloc[-1]) == (0, 63)
    assert len(kept[kept["split"] == "run"]) == 1


def test_a_table_is_smaller_than_that_of_the_runs(table: pd.DataFrame, root: Path) -> None:
    runs = [run_table(RunFolder.open(path)) for path in root.iterdir() if path.is_dir()]
    assert len(table) <= sum(map(len, runs)) + 2 * len(runs)


def test_merging_is_idempotent_and_takes_what_is_furthest_on(table: pd.DataFrame) -> None:
    one, other = (rows for _, rows in table.groupby("config_hash", sort=False))
    begun = one.assign(status="unfinished")
    longer = begun.assign(progress=begun["progress"] + 7)
    merged = merge([begun, other])
    assert merged.equals(merge([merged, merged, begun]))
    assert set(merge([begun, longer])["progress"]) == set(longer["progress"])
    assert merge([longer, one, begun]).equals(merge([one]))
    assert merge([table]).equals(table)
    assert merge([]).empty
    measured = pd.concat([table, table.iloc[:1].assign(split="ranks")], ignore_index=True)
    digest = table["config_hash"].iloc[0]
    found = merge([table, measured, table])
    assert (found.loc[found["config_hash"] == digest, "split"] == "ranks").sum() == 1


def test_what_has_not_begun_has_no_rows(root: Path) -> None:
    cells = smoke()
    assert study_table(cells[2:], root).empty
    assert set(study_table(cells, root)["cell"]) == {cell.name for cell in cells[:2]}


def test_other_tables_are_refused(tmp_path: Path, table: pd.DataFrame) -> None:
    path = tmp_path / "runs.parquet"
    write_table(path, table[list(COLUMNS)])
    with pytest.raises(ValueError, match=r"is no table of a study: it lacks cell, block"):
        read_study_table(path)
    with pytest.raises(ValueError, match="is not a readable Parquet file"):
        read_study_table(tmp_path)
