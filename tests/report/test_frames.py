"""Checks on tidy tables."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.frames import in_order, numbers, require_columns, require_one_row_each


def test_missing_columns_and_empty_tables_are_named():
    frame = pd.DataFrame({"a": [1]})
    require_columns(frame, ["a"], "a table")
    with pytest.raises(ValueError, match="a table: column 'b' is missing, the table has: a"):
        require_columns(frame, ["a", "b"], "a table")
    with pytest.raises(ValueError, match="a table: the table has 0 rows"):
        require_columns(frame.iloc[:0], ["a"], "a table")


def test_repeated_keys_are_named():
    frame = pd.DataFrame({"label": ["x", "y", "x"], "seed": [0, 0, 0]})
    require_one_row_each(frame.iloc[:2], ["label", "seed"], "t")
    with pytest.raises(ValueError, match="t: 2 rows share a key, first label='x', seed="):
        require_one_row_each(frame, ["label", "seed"], "t")


def test_nullable_numbers_become_floats():
    frame = pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "word": ["a", "b"]})
    got = numbers(frame, "n")
    assert got.dtype == np.float64
    assert got[0] == 1
    assert np.isnan(got[1])
    with pytest.raises(ValueError, match="column 'word' holds could not convert"):
        numbers(frame, "word")


def test_order_of_first_occurrence():
    assert in_order(["b", 1, "a", "b", "1"]) == ["b", "1", "a"]
