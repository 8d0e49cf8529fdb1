"""Shared by the report's tests: no figure and no setting may outlive a test; reading artists."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Figures are unknown to pyplot, and matplotlib's settings stay as they were."""
    before = dict(mpl.rcParams)
    yield
    left = plt.get_fignums()
    plt.close("all")
    assert not left
    assert dict(mpl.rcParams) == before


@pytest.fixture
def line():
    """Finds the one line of a panel that carries a label, and gives its points."""

    def find(axes, label):
        found = [one for one in axes.get_lines() if one.get_label() == label]
        assert len(found) == 1, f"{len(found)} lines are labelled {label!r}"
        return found[0].get_xydata()

    return find


@pytest.fixture
def legend_texts():
    """The texts of a figure's legends."""

    def read(figure):
        return [text.get_text() for one in figure.legends for text in one.get_texts()]

    return read


@pytest.fixture
def texts():
    """The texts written into a panel."""

    def read(axes):
        return [text.get_text() for text in axes.texts]

    return read
