"""Words of a group beside what a model did with them: the material of `group_codes`.

Axes: n tokens of all words together, k and v key and value width, g elements.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from lt2theory.analysis.characters import (
    Component,
    commuting_part,
    components,
    eigenvalues,
    ratios,
    with_clock,
)
from lt2theory.analysis.composition import compose_factors
from lt2theory.analysis.received import received_factors, states_over_time, token_range
from lt2theory.models import LoopTrace
from tasks.groups import Group

LEADING = 12
"""Leading principal components of which all products of two are read."""

LARGEST_CLOCK = 24
"""Largest group whose codes may alternate with the position: it takes twice as many tokens."""

MOST_FEATURES = 512
"""Numbers from which something is read; more are first projected at random onto so many."""


@dataclass(frozen=True, eq=False)
class GroupWords:
    """Tokens of some words with the products around them.

    A state is an element, or (element, parity of the position) where `clock` is 2, numbered
    `clock * element + parity`.

    Attributes:
        group: The group.
        clock: 1, or 2 where codes may alternate with the position.
        token: The element that each token is `[n]`.
        before: The state before the token `[n]`.
        after: The state after it `[n]`.
        fitted: Which tokens are for fitting; the others test. Words are not divided `[n]`.
        first: Tokens at the start of every word that are left out.
    """

    group: Group
    clock: int
    token: Int64[np.ndarray, " n"]
    before: Int64[np.ndarray, " n"]
    after: Int64[np.ndarray, " n"]
    fitted: Bool[np.ndarray, " n"]
    first: int

    @property
    def num_states(self) -> int:
        """Elements, times the clock."""
        return self.group.order * self.clock

    @cached_property
    def components(self) -> tuple[Component, ...]:
        """Real irreducible representations of the group, with the clock."""
        own = components(self.group)
        return own if self.clock == 1 else with_clock(own)

    @cached_property
    def projections(self) -> Float64[np.ndarray, "c g g"]:
        """Projection of a table of states onto every component."""
        table = ratios(self.group)
        if self.clock == 2:
            parity = np.arange(2)
            table = 2 * table[:, None, :, None] + (parity[:, None] ^ parity)[None, :, None, :]
            table = table.reshape(self.num_states, self.num_states)
        return np.stack([one.projection(table) for one in self.components])

    @cached_property
    def commuting(self) -> Int64[np.ndarray, " g"]:
        """Of every state, the class modulo commutators (with the parity of the position)."""
        part = commuting_part(self.group)
        if self.clock == 1:
            return part
        return (2 * part[:, None] + np.arange(2)).reshape(-1)

    def token_eigenvalues(self, index: int) -> list[list[complex]]:
        """What the tokens' eigenvalues are under a component.

        Args:
            index: Which component.

        Returns:
            For every element the eigenvalues of what it does to the code.
        """
        own = components(self.group)
        sign = 1 if index < len(own) else -1
        roots = eigenvalues(own[index % len(own)], self.group)
        return [[sign * root for root in some] for some in roots]


@dataclass(frozen=True, eq=False)
class Place:
    """What one head did in one loop.

    Attributes:
        layer: Counted from 0.
        loop: Counted from 0; under `accumulate` it applies the factors of the loops before too.
        head: Counted from 0.
        before: State before each token `[n k v]`.
        after: State after it `[n k v]`.
        transition: What the token did to the state, without what it wrote `[n k k]`.
    """

    layer: int
    loop: int
    head: int
    before: Float64[np.ndarray, "n k v"]
    after: Float64[np.ndarray, "n k v"]
    transition: Float64[np.ndarray, "n k k"]


def group_words(tokens: Int64[np.ndarray, "b t"], group: Group, *, clock: bool) -> GroupWords:
    """The products along some words; the first quarter of every word is left out.

    Args:
        tokens: Element numbers; every other word is for fitting.
        group: The group.
        clock: Whether codes may alternate with the position (small groups only).

    Returns:
        The words.
    """
    size, length = tokens.shape
    ticks = 2 if clock and group.order <= LARGEST_CLOCK else 1
    products = np.zeros((size, length + 1), dtype=np.int64)
    for t in range(length):
        products[:, t + 1] = group.cayley[products[:, t], tokens[:, t]]
    states = products * ticks + np.arange(length + 1) % ticks
    first = length // 4
    return GroupWords(
        group=group,
        clock=ticks,
        token=tokens[:, first:].reshape(-1).astype(np.int64),
        before=states[:, first:-1].reshape(-1),
        after=states[:, first + 1 :].reshape(-1),
        fitted=np.repeat(np.arange(size) % 2 == 0, length - first),
        first=first,
    )


def places(trace: LoopTrace, words: GroupWords) -> Iterator[Place]:
    """What every head of every recurrence did, loop by loop.

    Args:
        trace: What `LoopedModel.trace` returned for the tokens of `words`.
        words: The words.

    Yields:
        One place for each (layer, loop, head), in float64. Under `rescan` every loop has a state
        of its own, and its transitions are that loop's alone.
    """
    for layer, loop, factors in received_factors(trace):
        states = torch.stack([state for _, state in states_over_time(factors)], 1)
        before = torch.cat([torch.zeros_like(states[:, :1]), states[:, :-1]], 1)
        late = token_range(factors, words.first, factors.k.shape[1])
        for head in range(late.k.shape[-2]):
            beta = None if late.beta is None else late.beta[..., head]
            decays = None if late.log_decay is None else late.log_decay[:, :, :, head]
            operator = compose_factors(late.k[..., head, :], beta, decays, late.order)
            yield Place(
                layer,
                loop,
                head,
                _flat(before[:, words.first :, head]),
                _flat(states[:, words.first :, head]),
                _flat(operator.to_dense()),
            )


def readable(
    features: Float64[np.ndarray, "n d"],
    labels: Int64[np.ndarray, " n"],
    fitted: Bool[np.ndarray, " n"],
) -> float:
    """Held-out accuracy of a linear read-out, by ridge regression on one-hot labels.

    Args:
        features: What is read.
        labels: What should be read out of it.
        fitted: Which rows fit; the others test.

    Returns:
        The share of test rows whose largest output is their label.
    """
    features = _narrowed(features)
    mean, scale = features[fitted].mean(0), features[fitted].std()
    ones = np.ones((len(features), 1))
    x = np.concatenate([(features - mean) / (scale + 1e-30), ones], axis=1)
    known = x[fitted]
    gram = known.T @ known / len(known) + 1e-6 * np.eye(x.shape[1])
    targets = np.eye(labels.max() + 1)[labels[fitted]]
    weights = np.linalg.solve(gram, known.T @ targets / len(known))
    said = (x[~fitted] @ weights).argmax(1)
    return float((said == labels[~fitted]).mean())


def products_of_two(features: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n m"]:
    """All products of two leading principal components, beside the components themselves.

    A read-out of these finds what a state holds only relative to another part of itself, such as
    a sign against a start that differs from word to word.

    Args:
        features: Numbers `[n d]`.

    Returns:
        The `LEADING` components, scaled to variance one, and their products.
    """
    narrow = _narrowed(features)
    narrow = narrow - narrow.mean(0)
    values, vectors = np.linalg.eigh(narrow.T @ narrow / len(narrow))
    values, vectors = values[::-1][:LEADING], vectors[:, ::-1][:, :LEADING]
    kept = values > 1e-12 * max(float(values[0]), 1e-300)
    leading = narrow @ (vectors[:, kept] / np.sqrt(values[kept]))
    row, column = np.triu_indices(leading.shape[1])
    return np.concatenate([leading, leading[:, row] * leading[:, column]], axis=1)


def _narrowed(features: np.ndarray) -> np.ndarray:
    """At most `MOST_FEATURES` numbers a row."""
    width = features.shape[1]
    if width <= MOST_FEATURES:
        return features
    draw = np.random.default_rng(0).standard_normal((width, MOST_FEATURES))
    narrow: Float64[np.ndarray, "n m"] = features @ (draw / np.sqrt(MOST_FEATURES))
    return narrow


def _flat(x: Tensor) -> np.ndarray:
    """Join batch and time, in float64."""
    flat: np.ndarray = x.detach().flatten(0, 1).to(torch.float64).cpu().numpy()
    return flat
