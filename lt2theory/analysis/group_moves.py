"""What moves the code of a group: the transitions on the key directions that it lies in.

If they depend on the token alone they are a linear representation, with the commuting part of the
prefix a cascade (the semidirect product of Krohn and Rhodes), with the whole prefix a feedback.
"""

from itertools import chain

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int64

from lt2theory.analysis.group_codes import Code, carried_share
from lt2theory.analysis.group_words import GroupWords, Place
from lt2theory.analysis.rank import effective_rank
from lt2theory.analysis.representation import IDLE

WHOLE = 512
"""Tokens on which the rank over all key directions is taken."""

LEAST_TOKENS = 4
"""Tokens a cell, in the mean, below which nothing is said about cells."""

_STEADY = 1e-3
"""Share of their squares below which transitions count as all the same."""


def code_row(code: Code, place: Place, words: GroupWords) -> dict[str, float | int | str]:
    """What moves a code.

    Args:
        code: From `held_codes`.
        place: Where it was found.
        words: The words.

    Returns:
        `layer`, `loop`, `head`, `component` (names joined by "with"), `dimension`, `energy`,
        `share` (see `Code`), `directions` (r) and `key_width`; on the testing words `carried`, its
        `carried_std` and `landing` (see `carried_share`); `leak` (share of what the transitions
        make of the directions that lies outside); held-out explained variance of the transitions
        on the directions `by_token`, `by_commuting` (and the commuting part of the prefix) and
        `by_product` (and all of it; NaN where cells are too small); `character_error`, mean
        |trace / r - character / dimension| over elements; `start`, distance of the empty state
        from the identity's code within the directions, in radii of the code.
    """
    carried, deviation, landing = carried_share(code, place, words)
    inside = on_directions(code, place)
    seen = place.transition @ code.basis
    by_token = _traces(inside, words)
    expected, dimension = _characters(code, words), _dimension(code, words)
    return {
        "layer": place.layer,
        "loop": place.loop,
        "head": place.head,
        "component": _name(code, words),
        "dimension": dimension,
        "energy": code.energy,
        "share": code.share,
        "directions": code.basis.shape[1],
        "key_width": code.basis.shape[0],
        "carried": carried,
        "carried_std": deviation,
        "landing": landing,
        "leak": float(1 - np.square(inside).sum() / max(np.square(seen).sum(), 1e-300)),
        **_dependence(inside, words),
        "character_error": float(
            np.nanmean(np.abs(by_token / code.basis.shape[1] - expected / dimension))
        ),
        "start": _start(code, place, words),
    }


def code_elements(code: Code, place: Place, words: GroupWords) -> pd.DataFrame:
    """The transitions on a code's key directions, element by element.

    Args:
        code: From `held_codes`.
        place: Where it was found.
        words: The words.

    Returns:
        One row for each element that occurs as a token: `layer`, `loop`, `head`, `component`,
        `element`, `count`; `reference` (rank(I - rho(g)): n - cycles for the standard
        representation of S_n) beside mean and `std` over tokens of the entropy effective rank of
        `I - A` there (0 where idle), `rank_mean` and `rank_std`, and its mean over all key
        directions on some tokens, `whole_rank` (NaN where the element is not among them);
        `character` beside `trace_mean` and `trace_std`, a trace being divided by the copies
        r / dimension; `eigenvalues` of the mean transition beside the representation's,
        `expected`.
    """
    inside = on_directions(code, place)
    size = code.basis.shape[1]
    ranks = _ranks(inside)
    some = slice(None, None, max(1, len(inside) // WHOLE))
    whole = np.full(len(inside), np.nan)
    whole[some] = _ranks(place.transition[some])
    copies = size / _dimension(code, words)
    trace = np.trace(inside, axis1=1, axis2=2) / copies
    parts = [words.token_eigenvalues(index) for index in code.indices]
    roots = [[*chain.from_iterable(some)] for some in zip(*parts, strict=True)]
    characters = _characters(code, words)
    rows = []
    for element in np.unique(words.token):
        here = words.token == element
        rows.append(
            {
                "layer": place.layer,
                "loop": place.loop,
                "head": place.head,
                "component": _name(code, words),
                "element": words.group.names[element],
                "count": int(here.sum()),
                "reference": copies * sum(abs(root - 1) > 1e-6 for root in roots[element]),
                "rank_mean": ranks[here].mean(),
                "rank_std": ranks[here].std(),
                "whole_rank": pd.Series(whole[here]).mean(),
                "character": characters[element],
                "trace_mean": trace[here].mean(),
                "trace_std": trace[here].std(),
                "eigenvalues": _text(np.linalg.eigvals(inside[here].mean(0))),
                "expected": _text(roots[element]),
            }
        )
    return pd.DataFrame(rows)


def on_directions(code: Code, place: Place) -> Float64[np.ndarray, "n r r"]:
    """The transitions seen on a code's key directions alone.

    Args:
        code: The code.
        place: Where it was found.

    Returns:
        `basis^T A basis` of every token.
    """
    seen: Float64[np.ndarray, "n r r"] = code.basis.T @ place.transition @ code.basis
    return seen


def _dependence(inside: np.ndarray, words: GroupWords) -> dict[str, float]:
    """Held-out explained variance of the transitions by ever more of what came before."""
    classes = words.commuting[words.before]
    cells = {
        "by_token": words.token,
        "by_commuting": words.token * words.num_states + classes,
        "by_product": words.token * words.num_states + words.before,
    }
    flat = inside.reshape(len(inside), -1)
    return {name: _explained(flat, cell, words.fitted) for name, cell in cells.items()}


def _explained(values: np.ndarray, cells: Int64[np.ndarray, " n"], fitted: np.ndarray) -> float:
    """1 - squared error of the cells' means, from the fitting rows, over the testing variance."""
    _, cell = np.unique(cells, return_inverse=True)
    counts = np.bincount(cell[fitted], minlength=cell.max() + 1)
    if fitted.sum() < LEAST_TOKENS * len(counts):
        return float("nan")
    sums = np.zeros((len(counts), values.shape[1]))
    np.add.at(sums, cell[fitted], values[fitted])
    rows = ~fitted & (counts[cell] > 0)
    test = values[rows]
    error = np.square(test - (sums / np.maximum(counts, 1)[:, None])[cell[rows]]).sum()
    total = np.square(test - values[fitted].mean(0)).sum()
    if total <= _STEADY * np.square(test).sum():
        return 1.0  # nothing varies that would need an explanation
    return float(1 - error / total)


def _characters(code: Code, words: GroupWords) -> Float64[np.ndarray, " order"]:
    """The character at every element as a token, which also moves the clock."""
    character: Float64[np.ndarray, " g"] = np.sum(
        [words.components[index].character for index in code.indices], axis=0
    )
    return character[words.clock - 1 :: words.clock]


def _dimension(code: Code, words: GroupWords) -> int:
    return sum(words.components[index].dimension for index in code.indices)


def _name(code: Code, words: GroupWords) -> str:
    return " with ".join(words.components[index].name for index in code.indices)


def _ranks(transitions: np.ndarray) -> np.ndarray:
    """Entropy effective rank of I - A, 0 where it is idle."""
    gaps = torch.linalg.svdvals(torch.from_numpy(np.eye(transitions.shape[-1]) - transitions))
    return np.where(gaps[:, 0] > IDLE, effective_rank(gaps).numpy(), 0.0)


def _traces(inside: np.ndarray, words: GroupWords) -> Float64[np.ndarray, " order"]:
    """Mean trace of every element's transitions, NaN where it does not occur."""
    counts = np.bincount(words.token, minlength=words.group.order)
    trace = np.trace(inside, axis1=1, axis2=2)
    sums = np.bincount(words.token, weights=trace, minlength=words.group.order)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _start(code: Code, place: Place, words: GroupWords) -> float:
    """Distance of the empty state from the identity's code, in radii, within the directions."""
    own = code.halves.mean(0)
    center = place.after.mean(0)
    # At the start the position's parity is that after an even number of tokens.
    off = code.basis.T @ (center + own[0])
    radius = np.sqrt(np.square(own).sum((1, 2)).mean())
    return float(np.sqrt(np.square(off).sum()) / radius)


def _text(values: "np.ndarray | list[complex]") -> str:
    """Eigenvalues for reading, by real part; a conjugate pair is one entry."""
    pairs = sorted(
        (round(v.real, 2) + 0.0, round(abs(v.imag), 2)) for v in np.asarray(values, complex)
    )
    said = [f"{re:.2f}" if im < 0.005 else f"{re:.2f} ± {im:.2f}i" for re, im in reversed(pairs)]
    # Both members of a pair say the same; one of them is left out.
    kept: list[str] = []
    skip = False
    for one in said:
        skip = not skip and bool(kept) and "i" in one and kept[-1] == one
        if not skip:
            kept.append(one)
    return ", ".join(kept)
