"""Every figure function draws into panels of the caller's as well."""

import inspect

import pandas as pd
import pytest
from matplotlib.legend import Legend

from lt2theory.report import figures, new_figure
from lt2theory.report.figures import (
    effective_rank_by_loops,
    exact_prefix_panels,
    influence_by_distance,
    length_generalisation,
    spectrum_by_loops,
    stages_by_family,
    state_rank_over_time,
    success_rates,
)

RANKS = pd.DataFrame({"label": "gdn", "num_loops": [1, 1, 2], "value": [1.0, 0.9, 1.7]})
SPECTRUM = pd.DataFrame(
    {"num_loops": [1, 2, 2], "index": [0, 0, 1], "singular_value": 1.0, "orthogonal_ideal": 1.0}
)
LENGTHS = pd.DataFrame({"label": "a", "length": [8, 16], "value": [1.0, 0.5]})
INFLUENCE = pd.DataFrame({"label": "a", "distance": [0, 1], "value": [0.7, 0.3]})
RATES = pd.DataFrame(
    {"label": ["a"], "successes": [1], "n": [2], "rate": [0.5], "low": [0.1], "high": [0.9]}
)
STAGES = pd.DataFrame({"family": ["gdn"], "arm": ["T=1"], "seed": [0], "reached": [4]})
PREFIXES = pd.DataFrame(
    {"group": "S5", "label": "a", "seed": 0, "position": [1, 17], "value": [1.0, 0.5]}
)
STATES = pd.DataFrame(
    {"label": "a", "num_tokens": [1, 2], "rank": [1, 2], "bound": [1, 2], "entropy_rank": 1.0}
)


@pytest.mark.parametrize(
    ("draw", "frame", "more"),
    [
        (effective_rank_by_loops, RANKS, {}),
        (spectrum_by_loops, SPECTRUM, {}),
        (length_generalisation, LENGTHS, {}),
        (influence_by_distance, INFLUENCE, {"reach": {"a": 2}}),
        (success_rates, RATES, {}),
        (stages_by_family, STAGES, {"stages": (4, 8), "counts": "swaps"}),
        (exact_prefix_panels, PREFIXES, {"training_length": 8}),
    ],
)
def test_a_panel_of_the_callers_gets_the_same_drawing(draw, frame, more) -> None:
    (alone,) = draw(frame, **more).axes
    figure, panels = new_figure(2)
    assert draw(frame, **more, ax=panels[1]) is figure
    assert not panels[0].has_data()
    assert len(panels[1].get_lines()) == len(alone.get_lines())
    assert panels[1].get_xlabel() == alone.get_xlabel()
    assert panels[1].get_ylabel() == alone.get_ylabel()
    assert figure.legends == []


def test_a_lone_family_keeps_its_place() -> None:
    seeds = pd.concat([STAGES, STAGES.assign(seed=1)])
    (axes,) = stages_by_family(seeds, stages=(4, 8), counts="swaps").axes
    assert axes.get_xlim() == (-0.5, 0.5)


def test_the_legend_stays_beside_the_panels_own() -> None:
    _, panels = new_figure(2)
    effective_rank_by_loops(RANKS, ax=panels[0])
    texts = [[text.get_text() for text in one.get_texts()] for one in panels[0].findobj(Legend)]
    assert ["gdn"] in texts
    assert any("bound T" in one for one in texts)


def test_several_panels_are_given_together() -> None:
    figure, panels = new_figure(3)
    assert state_rank_over_time(STATES, ax=panels[:2]) is figure
    assert panels[1].has_data()
    with pytest.raises(ValueError, match=r"ax: 1 panels are not allowed \(must be 2\)"):
        state_rank_over_time(STATES, ax=panels[2])


def test_every_figure_function_takes_panels() -> None:
    functions = [f for _, f in inspect.getmembers(figures, inspect.isfunction)]
    assert len(functions) > 12
    assert [f.__name__ for f in functions if "ax" not in inspect.signature(f).parameters] == []
