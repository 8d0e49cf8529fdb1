"""Accuracy by stage with all floors."""

import pandas as pd
import pytest

from lt2theory.report.figures import accuracy_by_stage


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "label": ["dense"] * 2 + ["final"] * 2,
            "stage": [1, 8] * 2,
            "value": [1.0, 0.95, 0.9, 0.69],
            "low": [0.99, 0.94, 0.88, 0.67],
            "high": [1.0, 0.96, 0.92, 0.71],
        }
    )


@pytest.fixture
def floors():
    rows = [(n, "initial bit", 0.6 + 0.4 * 2.0**-n) for n in (1, 8)]
    rows += [(n, "uniform", 0.5) for n in (1, 8)]
    return pd.DataFrame(rows, columns=["stage", "floor", "value"])


def test_arms_floors_and_pass_mark(frame, floors, line, texts):
    (axes,) = accuracy_by_stage(frame, floors=floors, stage_label="swaps n", pass_mark=0.9).axes
    assert line(axes, "final").tolist() == [[1, 0.9], [8, 0.69]]
    assert line(axes, "floor: initial bit")[:, 1].tolist() == pytest.approx([0.8, 0.6015625])
    assert line(axes, "pass mark")[0, 1] == 0.9
    assert set(texts(axes)) == {"initial bit 0.602", "uniform 0.5", "pass mark 0.9"}
    assert axes.get_xlabel() == "swaps n"
    assert axes.get_ylim()[0] == 0.4


def test_low_values_widen_the_axis(frame, floors):
    frame.loc[0, "value"] = 0.1
    (axes,) = accuracy_by_stage(frame, floors=floors).axes
    assert axes.get_ylim()[0] < 0


def test_low_ends_of_intervals_stay_in_view(frame, floors):
    frame.loc[3, "low"] = 0.3
    (axes,) = accuracy_by_stage(frame, floors=floors).axes
    assert axes.get_ylim()[0] < 0


def test_equal_floors_share_a_curve(frame, floors, line, texts):
    same = floors[floors["floor"] == "uniform"].assign(floor="majority")
    (axes,) = accuracy_by_stage(frame, floors=pd.concat([floors, same])).axes
    assert line(axes, "floor: uniform, majority")[:, 1].tolist() == [0.5, 0.5]
    assert "uniform, majority 0.5" in texts(axes)


def test_the_training_ends_where_it_is_said(frame, floors, line):
    (axes,) = accuracy_by_stage(frame, floors=floors, training_stage=4).axes
    assert line(axes, "largest in training: 4")[0, 0] == 4


def test_a_floor_twice_is_refused(frame, floors):
    with pytest.raises(ValueError, match="floors by stage: 2 rows share a key"):
        accuracy_by_stage(frame, floors=pd.concat([floors, floors.iloc[[0]]]))
