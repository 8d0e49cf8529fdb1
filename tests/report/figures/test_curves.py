"""Learning curves show every seed's own points."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures import learning_curves


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    rows = [
        (label, seed, step, metric, float(rng.uniform(0.1, 1)))
        for label in ("T = 1", "T = 2")
        for seed in range(3)
        for metric in ("loss", "scored_accuracy", "learning_rate")
        for step in (50, 100, 150, 200)
    ]
    table = pd.DataFrame(rows, columns=["label", "seed", "step", "metric", "value"])
    # The run store's tables have pandas' nullable types.
    return table.astype({"label": "string", "seed": "Int64", "step": "Int64", "value": "Float64"})


def test_one_line_a_seed_with_its_own_values(frame):
    figure = learning_curves(frame)
    loss, accuracy = figure.axes
    assert len(loss.get_lines()) == 6
    drawn = {tuple(one.get_ydata()) for one in accuracy.get_lines()}
    shown = frame[frame["metric"] == "scored_accuracy"]
    wanted = {tuple(rows["value"].astype(float)) for _, rows in shown.groupby(["label", "seed"])}
    assert drawn == wanted
    assert loss.get_lines()[0].get_xdata().tolist() == [50, 100, 150, 200]
    assert loss.get_yscale() == "log"


def test_arms_are_told_apart_by_colour(frame, legend_texts):
    figure = learning_curves(frame)
    colours = [one.get_color() for one in figure.axes[0].get_lines()]
    assert len(set(colours[:3])) == len(set(colours[3:])) == 1
    assert colours[0] != colours[3]
    assert legend_texts(figure) == ["T = 1", "T = 2"]


def test_floors_pass_mark_and_promotions_are_named(frame, line, texts):
    figure = learning_curves(
        frame, floors={"uniform": 1 / 6}, pass_mark=0.9, promotions={"stage 8 passed": 120}
    )
    accuracy = figure.axes[1]
    assert line(accuracy, "floor: uniform")[0, 1] == pytest.approx(1 / 6)
    assert line(accuracy, "pass mark")[0, 1] == 0.9
    assert line(accuracy, "stage 8 passed")[:, 0].tolist() == [120, 120]
    assert set(texts(accuracy)) == {"uniform 0.167", "pass mark 0.9", "stage 8 passed"}


def test_a_metric_that_is_absent_gets_no_panel(frame):
    figure = learning_curves(frame[frame["metric"] == "loss"])
    assert len(figure.axes) == 1


def test_a_loss_of_zero_keeps_a_linear_axis(frame):
    frame.loc[0, "value"] = 0.0
    assert learning_curves(frame).axes[0].get_yscale() == "linear"


def test_losses_within_a_decade_have_equally_many_decimals_at_their_ticks(frame):
    frame.loc[frame["metric"] == "loss", "value"] = 1.6
    frame.loc[0, "value"] = 1.77
    figure = learning_curves(frame)
    figure.draw_without_rendering()
    low, high = figure.axes[0].get_ylim()
    ticks = [tick for tick in figure.axes[0].get_yticks() if low <= tick <= high]
    labels = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert len(ticks) >= 3
    assert len({len(label.partition(".")[2]) for label in labels if label}) == 1


def test_one_evaluation_is_a_point_that_is_seen(frame):
    loss, accuracy = learning_curves(frame[frame["step"] == frame["step"].min()]).axes
    for panel in (loss, accuracy):
        assert panel.get_lines()[0].get_marker() not in (None, "None", "")


def test_wrong_tables_are_refused(frame):
    with pytest.raises(ValueError, match="learning curves: column 'seed' is missing"):
        learning_curves(frame.drop(columns="seed"))
    with pytest.raises(ValueError, match=r"metric is \['learning_rate'\], needed is one of"):
        learning_curves(frame[frame["metric"] == "learning_rate"])
