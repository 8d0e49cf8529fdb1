"""The search for the study's recipes: equal for all arms, blind to the test split, and ranked."""

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lt2theory.experiments.search_space import described, draw_settings
from lt2theory.experiments.searches import searches
from lt2theory.experiments.studies import studies
from lt2theory.experiments.study_table import CELL_COLUMNS, TABLE
from lt2theory.experiments.study_tuning import SEEDS, SETTINGS, main, ranking, tuning_cells
from lt2theory.experiments.tuning import SEED
from lt2theory.runs import COLUMNS, write_table


@pytest.mark.parametrize("name", SEEDS)
def test_every_arm_gets_the_same(name: str) -> None:
    cells = studies()[f"tune-{name}"]()
    arms = {arm.label for arm in searches()[name]().arms}
    tries = Counter(cell.config.label.split(" | ")[0] for cell in cells)
    assert tries == dict.fromkeys(arms, SETTINGS * SEEDS[name])
    assert len({cell.config.step_budget for cell in cells}) == 1
    assert len({cell.config.label.split(" | ")[1] for cell in cells}) == SETTINGS
    for cell in cells:
        assert not cell.config.test
        assert cell.config.seed >= SEED
        assert cell.resolved.stages == cell.config.stages


def test_rates_of_wide_models_stay_below_a_thousandth() -> None:
    assert max(cell.config.optimiser.learning_rate for cell in tuning_cells("recall")) <= 1e-3


@pytest.fixture
def table(outcome: Any, make_evidence: Any) -> pd.DataFrame:
    search = searches()["s5"]()
    first, second, *_ = draw_settings(search.space, SETTINGS)
    runs = [
        outcome(f"{search.arms[0].label} | {described(first)}", SEED, {4: True, 8: False}),
        outcome(
            f"{search.arms[0].label} | {described(second)}", SEED, {4: True, 8: True, 16: False}
        ),
    ]
    frame: pd.DataFrame = make_evidence(runs).table
    types = {name: dtype for name, (dtype, _) in COLUMNS.items()} | CELL_COLUMNS
    named = frame.assign(status="done", progress=1, config_hash=frame["run"])
    return named.reindex(columns=list(types)).astype(types)


def test_more_stages_come_first(table: pd.DataFrame) -> None:
    found = ranking(table)
    assert list(found["arm"].unique()) == ["s5-t1-all"]
    assert list(found["place"]) == [1, 0]
    assert list(found["stages"]) == [2, 1]


def test_nothing_has_run(table: pd.DataFrame) -> None:
    assert ranking(table.iloc[:0]).empty


def test_the_ranking_is_written(
    table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path / TABLE, table)
    assert main(["--csv", str(tmp_path / "found.csv"), str(tmp_path)]) == 0
    assert "s5-t1-all: 0 of 1 solved, 2 stages: learning_rate" in capsys.readouterr().out
    assert len((tmp_path / "found.csv").read_text().splitlines()) == 3
