"""Figures of the study of language models, read from what they draw."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures.language import quality_by_speed, unbeaten, values_by_loop

ARMS = pd.DataFrame(
    {
        "label": ["fast", "even", "good", "slow and bad"],
        "tokens_per_second": [400.0, 200.0, 100.0, 90.0],
        "value": [1.6, 1.5, 1.4, 1.55],
        "low": [1.55, 1.45, 1.35, 1.5],
        "high": [1.65, 1.55, 1.45, 1.6],
    }
)


def test_the_front_holds_what_nothing_beats() -> None:
    assert unbeaten(ARMS).tolist() == [True, True, True, False]
    twins = pd.concat([ARMS, ARMS.iloc[:1].assign(label="twin")])
    assert unbeaten(twins).tolist() == [True, True, True, False, True]
    dearer = pd.concat([ARMS, ARMS.iloc[:1].assign(label="dearer", value=1.61)])
    assert not unbeaten(dearer)[-1]


def test_quality_stands_over_speed() -> None:
    (panel,) = quality_by_speed(ARMS).axes
    lines = {str(line.get_label()): line for line in panel.lines}
    assert set(lines) == {*ARMS["label"], "unbeaten"}
    front = lines["unbeaten"]
    np.testing.assert_allclose(front.get_xdata(), [100, 200, 400])
    np.testing.assert_allclose(front.get_ydata(), [1.4, 1.5, 1.6])
    assert panel.get_xscale() == "log"
    assert panel.get_ylabel() == "bits per byte"
    with pytest.raises(ValueError, match="tokens_per_second"):
        quality_by_speed(ARMS.drop(columns="tokens_per_second"))
    with pytest.raises(ValueError, match="label"):
        quality_by_speed(pd.concat([ARMS, ARMS]))


def test_values_stand_over_loops() -> None:
    frame = pd.DataFrame(
        {"label": ["a", "a", "a", "b"], "loop": [4, 1, 2, 4], "value": [3.0, 1.0, 2.0, 5.0]}
    )
    (panel,) = values_by_loop(frame, what="bits", counts="loops").axes
    line = next(line for line in panel.lines if line.get_label() == "a")
    np.testing.assert_allclose(line.get_xdata(), [1, 2, 4])
    np.testing.assert_allclose(line.get_ydata(), [1, 2, 3])
    assert panel.get_xticks().tolist() == [1, 2, 4]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("loops", "bits")
    with pytest.raises(ValueError, match="loop"):
        values_by_loop(pd.concat([frame, frame]), what="bits")
