"""How a head's state codes the running product of a group.

A code is the mean state after every product, less the mean of all. Its isotypic decomposition
under the group says which representations it holds; transitions carry it if that of g takes the
code of h to that of gh.

Means over one half of the words are compared with the other half's, so that what is no code has
energy zero in the mean, however few the words.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from lt2theory.analysis.characters import TRIVIAL
from lt2theory.analysis.group_words import GroupWords, Place

HELD = 0.05
"""Least share of a state's variance at which a component counts as held by it."""

CARRIES = 0.8
"""Least share of the next product's code that transitions must put in place to carry a code."""

LANDS = 0.8
"""Least landing of a component that is looked at by itself, or of several together."""

KEPT = 0.95
"""Share of a code that its key directions must hold."""


@dataclass(frozen=True, eq=False)
class Code:
    """Components of one head's code, with the key directions that they lie in.

    Attributes:
        indices: Numbers of the components in `GroupWords.components`.
        halves: The code by the fitting and by the testing words, `[2 g k v]`.
        basis: Orthonormal key directions `[k r]`.
        energy: Share of the state's variance.
        share: Share of the variance between products.
    """

    indices: tuple[int, ...]
    halves: Float64[np.ndarray, "2 g k v"]
    basis: Float64[np.ndarray, "k r"]
    energy: float
    share: float


def held_codes(place: Place, words: GroupWords, *, held: float = HELD) -> list[Code]:
    """The components that a head's state holds.

    Transitions that depend on the prefix may carry the sum of two components and neither of them
    alone (theory L6); the sum then takes the place of those that miss.

    Args:
        place: The head in one loop.
        words: The words that it read.
        held: Least share of the state's variance.

    Returns:
        The components, without the trivial one; none if a product does not occur in both halves.
    """
    means = _means(place.after, words)
    if means is None:
        return []
    codes = means - means.mean(1, keepdims=True)
    parts = np.einsum("cgh,sh...->csg...", words.projections, codes)
    inner = (parts[:, 0] * parts[:, 1]).sum((1, 2, 3)) / words.num_states
    spread = float(np.square(place.after - place.after.mean(0)).sum((1, 2)).mean())
    found = []
    for index, component in enumerate(words.components):
        energy = float(inner[index]) / max(spread, 1e-300)
        if component.name == TRIVIAL or energy < held:
            continue
        share = float(inner[index] / inner.sum())
        found.append(Code((index,), parts[index], _directions(parts[index]), energy, share))
    alone = [code for code in found if carried_share(code, place, words)[2] < LANDS]
    if len(alone) < 2:
        return found
    halves = np.sum([code.halves for code in alone], axis=0)
    together = Code(
        tuple(index for code in alone for index in code.indices),
        halves,
        _directions(halves),
        sum(code.energy for code in alone),
        sum(code.share for code in alone),
    )
    if carried_share(together, place, words)[2] < LANDS:
        return found
    return [*(code for code in found if code not in alone), together]


def _means(states: np.ndarray, words: GroupWords) -> np.ndarray | None:
    """The mean state after every product, by both halves `[2 g k v]`; None if one is missing."""
    tables = []
    for half in (words.fitted, ~words.fitted):
        counts = np.bincount(words.after[half], minlength=words.num_states)
        if counts.min() == 0:
            return None
        sums = np.zeros((words.num_states, *states.shape[1:]))
        np.add.at(sums, words.after[half], states[half])
        tables.append(sums / counts[:, None, None])
    return np.stack(tables)


def _directions(halves: np.ndarray) -> Float64[np.ndarray, "k r"]:
    """The fewest key directions that hold almost all of a code."""
    code = halves.mean(0)
    values, vectors = np.linalg.eigh(np.einsum("gkv,glv->kl", code, code))
    values, vectors = values[::-1].clip(0), vectors[:, ::-1]
    count = int(np.searchsorted(values.cumsum(), KEPT * values.sum())) + 1
    kept: Float64[np.ndarray, "k r"] = vectors[:, :count]
    return kept


def carried_share(code: Code, place: Place, words: GroupWords) -> tuple[float, float, float]:
    """How much of the next product's code the transitions alone put in place.

    Args:
        code: The code.
        place: Where it was found.
        words: The words; the origin is the fitting half's code, the target the testing half's.

    Returns:
        The projection onto the target (1 where all of it is carried, 0 where it is erased), its
        deviation over tokens, and 1 - relative squared distance from the target.
    """
    test = ~words.fitted
    origin, target = code.halves[0][words.before[test]], code.halves[1][words.after[test]]
    moved = place.transition[test] @ origin
    size = np.square(target).sum((1, 2))
    onto = (moved * target).sum((1, 2))
    landing = 1 - np.square(moved - target).sum() / size.sum()
    deviation = (onto / np.maximum(size, 1e-300)).std()
    return float(onto.sum() / size.sum()), float(deviation), float(landing)
