"""Success rates and steps to solve, censored runs included."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures import steps_to_solve, success_rates
from lt2theory.report.statistics import success_table


@pytest.fixture
def runs():
    return pd.DataFrame(
        {
            "label": ["rescan"] * 3 + ["accumulate"] * 3,
            "seed": [0, 1, 2] * 2,
            "solved": [False, True, False, True, True, True],
            "steps": [3000, 2500, 3000, 400, 600, 500],
        }
    )


def test_rates_and_bars_are_those_of_the_table(runs, line, texts):
    table = success_table(runs)
    (axes,) = success_rates(table).axes
    assert line(axes, "rescan")[0].tolist() == pytest.approx([1 / 3, 0])
    assert line(axes, "accumulate")[0].tolist() == [1, 1]
    bars = [bar.get_segments()[0].tolist() for bar in axes.collections]
    assert bars[0] == [[table.loc[0, "low"], 0], [table.loc[0, "high"], 0]]
    assert bars[1] == [[table.loc[1, "low"], 1], [1.0, 1]]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["rescan", "accumulate"]
    assert texts(axes) == ["1 of 3", "3 of 3"]


def test_unsolved_runs_are_open_and_at_their_last_step(runs, line):
    (axes,) = steps_to_solve(runs).axes
    assert line(axes, "rescan")[:, 0].tolist() == [2500]
    assert line(axes, "rescan (not solved)")[:, 0].tolist() == [3000, 3000]
    assert line(axes, "accumulate")[:, 0].tolist() == [400, 600, 500]
    assert len(line(axes, "accumulate (not solved)")) == 0
    open_mark = next(one for one in axes.get_lines() if one.get_label() == "rescan (not solved)")
    assert open_mark.get_markerfacecolor() == "white"


def test_a_median_is_drawn_only_where_seeds_fix_it(runs):
    (axes,) = steps_to_solve(runs).axes
    (median,) = axes.collections
    assert median.get_segments()[0][:, 0].tolist() == [500, 500]


def test_the_legend_explains_the_marks(runs, legend_texts):
    assert legend_texts(steps_to_solve(runs)) == [
        "solved at this step",
        "not solved when the budget ended",
        "median",
    ]


def test_one_seed_can_be_drawn(runs, line):
    (axes,) = steps_to_solve(runs.iloc[[4]]).axes
    assert line(axes, "accumulate").tolist() == [[600, 0]]


def test_runs_without_a_step_can_be_drawn(runs, line):
    (axes,) = steps_to_solve(runs.assign(solved=False, steps=0)).axes
    assert line(axes, "rescan (not solved)")[:, 0].tolist() == [0, 0, 0]
    assert axes.get_xlim()[1] > 0


def test_a_run_twice_is_refused(runs):
    with pytest.raises(ValueError, match="steps to solve: 2 rows share a key"):
        steps_to_solve(pd.concat([runs, runs.iloc[[0]]]))
    with pytest.raises(ValueError, match="success rates: column 'low' is missing"):
        success_rates(success_table(runs).drop(columns="low"))


def test_arms_run_from_top_to_bottom(runs):
    for figure in (success_rates(success_table(runs)), steps_to_solve(runs)):
        bottom, top = figure.axes[0].get_ylim()
        assert bottom > top
        assert np.allclose([bottom, top], [1.55, -0.55])
