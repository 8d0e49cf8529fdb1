"""Products along words, read-outs, and places against a slow recurrence."""

import numpy as np
import pytest
import torch

from lt2theory.analysis import group_words, places, products_of_two, readable
from lt2theory.models import LoopedConfig, LoopedModel
from tasks import create
from tasks.groups import group
from tests.analysis.group_places import words_of


def test_products_are_the_labels_of_the_task():
    batch = create("group_word", group="S4").batch(stage=9, split="test", seed=0, index=0, size=6)
    words = group_words(batch.inputs, group("S4"), clock=True)
    assert (words.first, words.clock, words.num_states) == (2, 2, 48)
    np.testing.assert_array_equal(words.after // 2, batch.targets[:, 2:].reshape(-1))
    np.testing.assert_array_equal(words.before // 2, batch.targets[:, 1:-1].reshape(-1))
    assert (words.after % 2 != words.before % 2).all()
    assert words.fitted.reshape(6, 7).all(1).tolist() == [True, False] * 3


def test_large_groups_have_no_clock():
    _, words = words_of("A5", size=4)
    assert words.clock == 1
    assert len(words.components) == 5


@pytest.mark.parametrize("name", ["S3", "S4"])
def test_projections_with_the_clock_split_all_tables(name):
    _, words = words_of(name, size=4)
    size = words.num_states
    np.testing.assert_allclose(words.projections.sum(0), np.eye(size), atol=1e-10)
    for one in words.projections:
        np.testing.assert_allclose(one @ one, one, atol=1e-10)


@pytest.mark.parametrize("pattern", ["deltanet", "gdn", "kda"])
@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
def test_transitions_and_states_are_those_of_the_recurrence(pattern, loop_state):
    """S_t = A_t S_{t-1} + what was written, with the writes taken from the factors one by one."""
    config = LoopedConfig(
        vocab_size=6, width=8, num_heads=2, num_layers=1, num_loops=2,
        pattern=pattern, loop_state=loop_state,
    )  # fmt: skip
    model = LoopedModel(config, generator=torch.Generator().manual_seed(1)).double()
    tokens = torch.randint(6, (3, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        trace = model.trace(tokens)
    words = group_words(tokens.numpy(), group("S3"), clock=False)
    found = list(places(trace, words))
    assert [(one.loop, one.head) for one in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    last = found[-1]
    parts = [trace.factors[0, loop] for loop in range(2)]
    parts = parts if loop_state == "accumulate" else parts[1:]
    identity = np.broadcast_to(np.eye(4), (18, 4, 4))
    np.testing.assert_allclose(applied(parts, last.before, write=True), last.after, atol=1e-12)
    np.testing.assert_allclose(applied(parts, identity, write=False), last.transition, atol=1e-12)


def applied(parts, state, *, write):
    """Head 1 of every loop's factors, one after the other, on the states before each token."""
    for part in parts:
        key = part.k[:, 1:, 0, 1].numpy().reshape(18, 4, 1)
        value = part.v[:, 1:, 0, 1].numpy().reshape(18, 1, 4)
        beta = part.beta[:, 1:, 0, 1].numpy().reshape(18, 1, 1)
        if part.log_decay is not None:
            state = part.log_decay[:, 1:, 0, 1].exp().numpy().reshape(18, -1, 1) * state
        state = state - beta * key * (key.swapaxes(1, 2) @ state)
        if write:
            state = state + beta * key * value
    return state


def test_what_is_linear_is_readable_and_what_is_relative_needs_products():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 2000)
    start = rng.choice([-1.0, 1.0], 2000)
    fitted = np.arange(2000) % 2 == 0
    linear = np.stack([2.0 * labels - 1, start], 1) + 0.1 * rng.standard_normal((2000, 2))
    relative = linear * np.stack([start, np.ones(2000)], 1)
    assert readable(linear, labels, fitted) == 1.0
    assert readable(relative, labels, fitted) < 0.6
    assert readable(products_of_two(relative), labels, fitted) == 1.0


def test_wide_features_are_narrowed():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    wide = np.repeat(np.eye(3)[labels], 400, axis=1)
    assert readable(wide, labels, np.arange(600) < 300) == 1.0
    assert products_of_two(wide).shape[1] < 12 + 79
