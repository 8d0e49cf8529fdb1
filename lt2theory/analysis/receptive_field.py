"""How far a looped window model can see: the closed form, and the graph that it must equal.

Counts include the token itself. N layers a loop, T loops, windows of w tokens, short convolutions
of c taps (theory W1, W2, W6).
"""

import math
from collections.abc import Iterable
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from lt2theory.analysis._checks import check_at_least
from tasks.names import unknown_name

ConvolvedOn = Literal["keys_or_values", "queries"]


def reach(
    num_layers: int,
    num_loops: int,
    window: int | None,
    conv_width: int = 1,
    *,
    convolved_on: ConvolvedOn = "keys_or_values",
    num_tokens: int | None = None,
) -> int | float:
    """Tokens that one output can depend on: `min(t, N T (w - 1) + 1)` for plain windows.

    A short convolution of c taps on keys or values adds `N T (c - 1)`, one on queries alone
    `N T max(c - w, 0)` (theory W1, W2). Residuals change nothing, because a window contains its
    own token. This counts what is read; at w = 1 a convolution on keys or queries alone is read
    without effect, since a softmax over one score is 1 (W2).

    Args:
        num_layers: Layers N a loop, each with the same window.
        num_loops: Loops T.
        window: Tokens w that a layer sees, itself included; None where any layer is linear or
            full attention, which makes the reach unbounded.
        conv_width: Taps c, 1 for no convolution.
        convolved_on: What is convolved; "keys_or_values" also where queries are convolved too.
        num_tokens: Tokens t up to and including the output's; None for far from the start.

    Returns:
        The number of tokens, `math.inf` if it is unbounded and `num_tokens` is None.

    Raises:
        ValueError: If an argument is out of range, naming it.
    """
    check_at_least("num_layers", num_layers, 1)
    check_at_least("num_loops", num_loops, 1)
    _check_layer(window, conv_width, convolved_on)
    if num_tokens is not None:
        check_at_least("num_tokens", num_tokens, 1)
    available = math.inf if num_tokens is None else num_tokens
    if window is None:
        return available
    hops = num_layers * num_loops
    extra = conv_width - 1 if convolved_on == "keys_or_values" else max(conv_width - window, 0)
    return min(available, hops * (window - 1 + extra) + 1)


def layer_graph(
    length: int,
    window: int | None,
    conv_width: int = 1,
    *,
    convolved_on: ConvolvedOn = "keys_or_values",
    residual: bool = True,
) -> Bool[np.ndarray, "t t"]:
    """Which inputs (columns) one layer's outputs (rows) depend on, from its definition.

    A query at i attends keys i - w + 1 .. i; a convolved key at j reads tokens j - c + 1 .. j, and
    a convolved query at i reads tokens i - c + 1 .. i.

    Args:
        length: Tokens t.
        window: Tokens w that a query sees, itself included, or None for all of its past.
        conv_width: Taps c, 1 for no convolution.
        convolved_on: What is convolved.
        residual: Whether the layer's input is added to its output.

    Returns:
        The boolean graph.

    Raises:
        ValueError: If an argument is out of range, naming it.
    """
    check_at_least("length", length, 0)
    _check_layer(window, conv_width, convolved_on)
    attended = _band(length, length if window is None else window)
    convolved = _band(length, conv_width)
    on_keys = convolved_on == "keys_or_values"
    graph = _then(convolved, attended) if on_keys else attended | convolved
    return graph | np.eye(length, dtype=bool) if residual else graph


def selection_graph(
    indices: Int[np.ndarray, "t n"], *, residual: bool = True
) -> Bool[np.ndarray, "t t"]:
    """Which inputs a top-k attention layer's outputs depend on *through the values it selected*.

    The choice of the indices itself depends on the whole prefix (theory W6); it has no Jacobian.

    Args:
        indices: Tokens that each query selected `[t n]`, negative for none.
        residual: Whether the layer's input is added to its output.

    Returns:
        The boolean graph.

    Raises:
        ValueError: If a query selects its future or a token that does not exist.
    """
    length = indices.shape[0]
    later = indices > np.arange(length)[:, None]
    if later.any():
        query, slot = np.argwhere(later)[0]
        raise ValueError(
            f"indices: {indices[query, slot]} for query {query} is not allowed (must be <= {query})"
        )
    graph = np.eye(length, dtype=bool) if residual else np.zeros((length, length), dtype=bool)
    query, slot = np.nonzero(indices >= 0)
    graph[query, indices[query, slot]] = True
    return graph


def reach_graph(
    layers: Iterable[Bool[np.ndarray, "t t"]], num_loops: int = 1
) -> Bool[np.ndarray, "t t"]:
    """Which embeddings (columns) the outputs (rows) of a looped stack depend on.

    Args:
        layers: One graph a layer, the first layer first (`layer_graph`, `selection_graph`).
        num_loops: Loops T that run the stack one after another.

    Returns:
        The boolean product of all layers over all loops.

    Raises:
        ValueError: If there is no layer, the lengths differ, or `num_loops` is below 1.
    """
    check_at_least("num_loops", num_loops, 1)
    stack = list(layers)
    if not stack:
        raise ValueError("layers: none is not allowed (must be at least one graph)")
    length = stack[0].shape[0]
    graph: NDArray[np.bool_] = np.eye(length, dtype=bool)
    for layer in stack * num_loops:
        if layer.shape != (length, length):
            expected = [length, length]
            raise ValueError(f"layers: {list(layer.shape)} is not allowed (must be {expected})")
        graph = _then(graph, layer)
    return graph


def selection_reach(
    budget: int,
    num_layers: int,
    num_loops: int,
    *,
    num_tokens: int | None = None,
    counts_itself: bool = False,
) -> int | float:
    """Most tokens with a non-zero Jacobian under top-k selection: `min(t, (w + 1)^(N T))`.

    Args:
        budget: Tokens w that a query selects.
        num_layers: Layers N a loop.
        num_loops: Loops T.
        num_tokens: Tokens t up to and including the output's, or None.
        counts_itself: Whether the query's own token is part of the budget; the bound is then
            `w^(N T)` (theory W6).

    Returns:
        The bound.

    Raises:
        ValueError: If an argument is out of range, naming it.
    """
    check_at_least("budget", budget, 1)
    check_at_least("num_layers", num_layers, 1)
    check_at_least("num_loops", num_loops, 1)
    branches = budget if counts_itself else budget + 1
    bound: int = branches ** (num_layers * num_loops)
    return bound if num_tokens is None else min(num_tokens, bound)


def _band(length: int, width: int) -> NDArray[np.bool_]:
    """Return the graph in which i depends on i - width + 1 .. i."""
    distance = np.arange(length)[:, None] - np.arange(length)
    band: NDArray[np.bool_] = (distance >= 0) & (distance < width)
    return band


def _then(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the dependence of `second`'s outputs on `first`'s inputs."""
    # float32 counts up to 2^24 exactly, and only their being positive matters.
    product: NDArray[np.bool_] = (second.astype(np.float32) @ first.astype(np.float32)) > 0
    return product


def _check_layer(window: int | None, conv_width: int, convolved_on: str) -> None:
    """Refuse sizes that no layer has.

    Raises:
        ValueError: Naming the argument.
    """
    if window is not None:
        check_at_least("window", window, 1)
    check_at_least("conv_width", conv_width, 1)
    if convolved_on not in get_args(ConvolvedOn):
        raise ValueError(unknown_name("convolved_on", convolved_on, get_args(ConvolvedOn)))
