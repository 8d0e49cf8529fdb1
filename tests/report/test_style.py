"""The style sheet and the looks of the arms."""

import itertools

import matplotlib as mpl
import pytest
from matplotlib.colors import to_rgb

from lt2theory.report.style import COLOURS, MARKERS, MIXERS, STYLE, arm_styles, styled


def test_mixers_look_the_same_whatever_they_are_compared_with():
    alone, together = arm_styles(["kda"])["kda"], arm_styles(["x", "kda", "gdn", "y"])
    assert together["kda"] == alone
    assert list(together) == ["x", "kda", "gdn", "y"]


def test_arms_are_distinct_well_beyond_the_colours():
    looks = list(arm_styles([*MIXERS, *(f"arm {i}" for i in range(14))]).values())
    for first, second in itertools.combinations(looks, 2):
        assert first != second
    assert len(COLOURS) == len(MARKERS)


def test_colours_can_be_seen_on_white():
    for colour in COLOURS:
        channels = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)
        ]
        luminance = 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]
        # 2 is between the weakest colour kept (orange, 2.2) and yellow, which was left out (1.3).
        assert 1.05 / (luminance + 0.05) > 2


def test_settings_hold_during_a_call_only():
    @styled
    def size():
        return mpl.rcParams["font.size"]

    before = mpl.rcParams["font.size"]
    assert size() == STYLE["font.size"] != before
    assert mpl.rcParams["font.size"] == before


def test_settings_are_restored_after_an_error():
    @styled
    def fail():
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert mpl.rcParams["font.size"] != STYLE["font.size"]
