"""Tables for readers."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.statistics import success_table
from lt2theory.report.tables import (
    MISSING,
    above_floor,
    accuracy_table,
    format_cell,
    format_interval,
    format_number,
    outcome_table,
    readable,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.9123, "0.912"),
        (1.0, "1.000"),
        (0.0, "0.000"),
        (12345.6, "12,346"),
        (3e-5, "3.00e-05"),
        (np.nan, MISSING),
        (np.inf, "∞"),
        (-np.inf, "-∞"),
    ],
)
def test_numbers_for_reading(value, text):
    assert format_number(value) == text


def test_intervals_for_reading():
    assert format_interval(0.5, 0.25, 0.75, 2) == "0.50 [0.25, 0.75]"
    assert format_interval(0.5, np.nan, np.nan) == "0.500"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.6, 0.7, "yes"), (0.5, 0.7, "unclear"), (0.3, 0.5, "no"), (np.nan, np.nan, "unclear")],
)
def test_an_interval_against_a_floor_of_one_half(low, high, said):
    assert above_floor(low, high, 0.5) == said


def test_every_accuracy_stands_beside_all_floors():
    frame = pd.DataFrame(
        {
            "label": ["a", "a"],
            "stage": [8, 4],
            "value": [0.7, 0.95],
            "low": [0.68, 0.94],
            "high": [0.72, 0.96],
            "n": [4096, 4096],
        }
    )
    floors = pd.DataFrame(
        {
            "stage": [4, 8, 4],
            "floor": ["uniform", "uniform", "no tracking"],
            "value": [0.5, 0.5, 0.8],
        }
    )
    table = accuracy_table(frame, floors, stage_label="swaps n")
    assert list(table.columns) == ["arm", "swaps n", "accuracy", "n", "above best floor", "floors"]
    assert table["accuracy"].tolist() == ["0.700 [0.680, 0.720]", "0.950 [0.940, 0.960]"]
    assert table["floors"].tolist() == ["uniform 0.500", "no tracking 0.800; uniform 0.500"]
    assert table["above best floor"].tolist() == ["yes", "yes"]


def test_a_stage_without_floors_is_unclear():
    frame = pd.DataFrame(
        {"label": ["a"], "stage": [2], "value": [1.0], "low": [0.9], "high": [1.0]}
    )
    floors = pd.DataFrame({"stage": [4], "floor": ["uniform"], "value": [0.5]})
    table = accuracy_table(frame, floors)
    assert table.loc[0, "above best floor"] == "unclear"
    assert table.loc[0, "floors"] == MISSING


def test_outcomes_say_what_was_not_reached():
    runs = pd.DataFrame(
        {
            "label": ["none"] * 5 + ["some"] * 5 + ["all"] * 5 + ["one"],
            "seed": [*range(5), *range(5), *range(5), 0],
            "solved": [False] * 5 + [True] + [False] * 4 + [True] * 6,
            "steps": [3000] * 5 + [2500, *[3000] * 4] + [500, 400, 600, 700, 300] + [50],
        }
    )
    table = outcome_table(success_table(runs))
    assert table["solved"].tolist() == [
        "0 of 5 seeds", "1 of 5 seeds", "5 of 5 seeds", "1 of 1 seed",
    ]  # fmt: skip
    assert table["success rate"].tolist()[2] == "1.000 [0.478, 1.000]"
    assert table["median steps to solve"].tolist() == [
        "not reached",
        "not reached (above 2,500)",
        "500 [300, 700] (93.8 % interval)",
        "50",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, MISSING),
        (pd.NA, MISSING),
        (pd.NaT, MISSING),
        (np.float32("nan"), MISSING),
        (np.bool_(True), "yes"),
        (np.int64(12345), "12,345"),
        (np.float64(1.23456789012), "1.235"),
        ("", ""),
    ],
)
def test_cells_for_reading(value, text):
    assert format_cell(value) == text


def test_a_readable_table_has_few_digits_and_no_nan():
    table = pd.DataFrame(
        {
            "whole": [1.0, 2.0, np.nan],
            "number": [0.12345678901, np.nan, 9.946709e-13],
            "large": [123456789.123, -1e12, np.inf],
            "count": pd.array([1, None, 1_000_000], "Int64"),
            "holds": [True, False, True],
            "why": ["", None, "x"],
            "kind": pd.Categorical(["a", None, "b"]),
            "mixed": [0.5, "x", None],
            "nothing": [None, None, None],
        },
        index=pd.Index([3, 1, 2], name="row"),
    )
    shown = readable(table)
    assert shown.index.equals(table.index)
    assert list(shown.columns) == list(table.columns)
    assert shown.to_dict("list") == {
        "whole": ["1", "2", MISSING],
        "number": ["0.1235", MISSING, "9.95e-13"],
        "large": ["123,456,789", "-1,000,000,000,000", "∞"],
        "count": ["1", MISSING, "1,000,000"],
        "holds": ["yes", "no", "yes"],
        "why": ["", MISSING, "x"],
        "kind": ["a", MISSING, "b"],
        "mixed": ["0.5000", "x", MISSING],
        "nothing": [MISSING] * 3,
    }


def test_one_column_and_a_table_without_rows_are_readable():
    series = pd.Series({"uniform": 1 / 6, "majority": 0.25}, name="accuracy")
    assert readable(series)["accuracy"].tolist() == ["0.1667", "0.2500"]
    assert readable(pd.DataFrame({"a": []})).empty
    assert readable(pd.DataFrame()).empty
