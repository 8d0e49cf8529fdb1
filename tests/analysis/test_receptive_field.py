"""The reach laws against boolean propagation and against a search over paths."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lt2theory.analysis import layer_graph, reach, reach_graph, selection_graph, selection_reach
from lt2theory.analysis.receptive_field import _check_layer

PLACES = ("keys_or_values", "queries")


def path_search(length, hops, window, conv_width, convolved_on):
    """Tokens on which the last output depends, token set by token set, from the definition."""
    seen = {length - 1}
    for _ in range(hops):
        before = set(seen)
        for i in seen:
            attended = {j for j in range(length) if 0 <= i - j < (window or length)}
            convolve_from = attended if convolved_on == "keys_or_values" else {i}
            convolved = {j for a in convolve_from for j in range(length) if 0 <= a - j < conv_width}
            before |= attended | convolved
        seen = before
    return seen


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(1, 24),
    num_layers=st.integers(1, 3),
    num_loops=st.integers(1, 3),
    window=st.one_of(st.none(), st.integers(1, 6)),
    conv_width=st.integers(1, 7),
    convolved_on=st.sampled_from(PLACES),
    residual=st.booleans(),
)
def test_reach_equals_the_graph(
    length, num_layers, num_loops, window, conv_width, convolved_on, residual
):
    layer = layer_graph(length, window, conv_width, convolved_on=convolved_on, residual=residual)
    graph = reach_graph([layer] * num_layers, num_loops)
    assert not np.triu(graph, 1).any()
    for position in range(length):
        law = reach(
            num_layers,
            num_loops,
            window,
            conv_width,
            convolved_on=convolved_on,
            num_tokens=position + 1,
        )
        expected = np.arange(length) > position - law
        expected[position + 1 :] = False
        np.testing.assert_array_equal(graph[position], expected)
    searched = path_search(length, num_layers * num_loops, window, conv_width, convolved_on)
    assert set(np.flatnonzero(graph[-1])) == searched


@pytest.mark.parametrize("window", [1, 2, 3, 8, 64])
@pytest.mark.parametrize(("num_layers", "num_loops"), [(1, 1), (1, 4), (3, 2), (2, 5)])
def test_w1_without_convolution(window, num_layers, num_loops):
    far = num_layers * num_loops * (window - 1) + 1
    assert reach(num_layers, num_loops, window) == far
    assert reach(num_layers, num_loops, window, num_tokens=5) == min(5, far)
    graph = reach_graph([layer_graph(far + 3, window)] * num_layers, num_loops)
    assert graph[-1].sum() == far


def test_w2_convolutions_and_unbounded_layers():
    assert reach(2, 3, 4, 5) == 6 * 3 + 1 + 6 * 4
    assert reach(2, 3, 4, 5, convolved_on="queries") == 6 * 3 + 1 + 6 * 1
    assert reach(2, 3, 4, 4, convolved_on="queries") == 6 * 3 + 1
    assert reach(2, 3, None) == math.inf
    assert reach(2, 3, None, num_tokens=9) == 9
    mixed = reach_graph([layer_graph(9, 2), layer_graph(9, None)])
    np.testing.assert_array_equal(mixed, np.tri(9, dtype=bool))


def test_order_of_unequal_layers_matters_for_selection():
    first = selection_graph(np.array([[0], [0], [0], [0]]))
    second = layer_graph(4, 2)
    assert reach_graph([first, second])[3].tolist() == [True, False, True, True]
    other = np.array([[-1], [-1], [1], [1]])
    graph = reach_graph([second, selection_graph(other, residual=False)])
    assert graph[3].tolist() == [True, True, False, False]
    assert graph[0].tolist() == [False] * 4


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    budget=st.integers(1, 3),
    num_layers=st.integers(1, 2),
    num_loops=st.integers(1, 3),
)
def test_w6_selection_reaches_at_most_the_bound(seed, budget, num_layers, num_loops):
    rng = np.random.default_rng(seed)
    length = 40
    layers = []
    for _ in range(num_layers):
        draws = rng.integers(0, np.arange(1, length + 1)[:, None], (length, budget))
        layers.append(selection_graph(draws))
    graph = reach_graph(layers, num_loops)
    for position in range(length):
        bound = selection_reach(budget, num_layers, num_loops, num_tokens=position + 1)
        assert graph[position].sum() <= bound


def test_w6_the_bound_is_attained():
    """Strides 1, 3 and 9 (or 1, 2 and 4) spell every distance below 27 (8) exactly once."""

    def layer(*strides):
        indices = np.arange(32)[:, None] - np.array(strides)
        return selection_graph(np.where(indices < 0, -1, indices))

    beside_itself = reach_graph([layer(1, 2), layer(3, 6), layer(9, 18)])
    assert beside_itself[-1].sum() == selection_reach(2, 3, 1) == 27
    with_itself = reach_graph([layer(0, 1), layer(0, 2), layer(0, 4)])
    assert with_itself[-1].sum() == selection_reach(2, 3, 1, counts_itself=True) == 8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: reach(0, 1, 2), "num_layers: 0"),
        (lambda: reach(1, 0, 2), "num_loops: 0"),
        (lambda: reach(1, 1, 0), "window: 0"),
        (lambda: reach(1, 1, 2, 0), "conv_width: 0"),
        (lambda: reach(1, 1, 2, num_tokens=0), "num_tokens: 0"),
        (lambda: _check_layer(2, 1, "values"), "convolved_on: 'values'"),
        (lambda: layer_graph(-1, 2), "length: -1"),
        (lambda: reach_graph([]), "layers: none"),
        (lambda: reach_graph([layer_graph(3, 2), layer_graph(4, 2)]), r"layers: \[4, 4\]"),
        (lambda: reach_graph([layer_graph(3, 2)], 0), "num_loops: 0"),
        (lambda: selection_graph(np.array([[0], [2]])), "indices: 2 for query 1"),
        (lambda: selection_reach(0, 1, 1), "budget: 0"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
