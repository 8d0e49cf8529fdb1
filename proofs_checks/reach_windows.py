"""W1 and W2: how far looped windows and short convolutions reach, as a graph and in closed form."""

import itertools

import numpy as np
from flint import fmpz_poly
from jaxtyping import Bool
from sympy import Expr, Function, Integer, Max, Min, Symbol, expand, rsolve, simplify

from lt2theory.analysis import layer_graph, reach, reach_graph
from lt2theory.analysis.receptive_field import ConvolvedOn
from proofs_checks.claim import Claim, Finding, claim

_ON: tuple[ConvolvedOn, ...] = ("keys_or_values", "queries")


@claim(
    "W1",
    "every application adds w - 1 tokens",
    statement="N T windows of w tokens reach exactly the distances 0 .. N T (w - 1).",
    scope="all",
    source="derivation; LT2, section 3.3",
    evidence="symbolic",
    hypotheses={
        "a window includes its own token": {
            "windows of w tokens before the own one": {"includes_itself": False}
        },
    },
    mutants={"every application adds w": {"hop": "w"}},
)
def window_hops(*, fast: bool, includes_itself: bool = True, hop: str = "w - 1") -> Finding:
    """`{0..a} + {0..b} = {0..a + b}`, and the recurrence for the furthest distance.

    Every distance s up to a + b is min(a, s) of the first and the rest of the second; the rest is
    s - a <= b where s >= a, and 0 elsewhere. With the own token left out the distances are 1..w,
    and K applications leave 0 .. K - 1 out.
    """
    N, T, w = (Symbol(x, integer=True, positive=True) for x in "NTw")
    near = _iterated(Integer(0 if includes_itself else 1), N * T)
    sums = _interval_sums() and expand(near) == 0
    far = _iterated(w - 1 if hop == "w - 1" else w, N * T)
    return Finding(bool(sums and expand(far + 1 - (N * T * (w - 1) + 1)) == 0))


@claim(
    "W1",
    "reach of looped windows",
    statement=(
        "After N layers and T loops of windows of w tokens (self included) token t depends on "
        "exactly the last min(t, N T (w - 1) + 1) tokens, residuals or not."
    ),
    scope="all N, T <= 3, w <= 5 and t <= N T (w - 1) + 3, with and without residual",
    source="derivation; LT2, section 3.3",
    evidence="exact",
    hypotheses={
        "a window includes its own token": {
            "windows without the own token": {"includes_itself": False}
        },
    },
    mutants={
        "loops do not add": {"loops_add": False},
        "every application adds w": {"hop": 0},
    },
)
def window_reach(
    *, fast: bool, includes_itself: bool = True, loops_add: bool = True, hop: int = -1
) -> Finding:
    """Closed form, boolean graph, and the support of `(1 + z + ... + z^(w-1))^(N T)`."""
    sizes = range(1, 3 if fast else 4)
    for layers, loops, window in itertools.product(sizes, sizes, range(1, 6)):
        applications = layers * loops
        law = fmpz_poly([1] * window) ** applications
        length = law.length() + 2
        counted = layers * (loops if loops_add else 1) * (window + hop) + 1
        for residual in (False, True):
            one = layer_graph(length, window, residual=residual)
            if not (includes_itself or residual):
                one = one & ~np.eye(length, dtype=bool)
            graph = reach_graph([one] * layers, loops)
            for t in range(1, length + 1):
                seen = [bool(law[t - 1 - s]) for s in range(t)] + [False] * (length - t)
                claimed = reach(layers, loops, window, num_tokens=t)
                tokens = min(t, counted)
                if graph[t - 1].tolist() != seen or not sum(seen) == claimed == tokens:
                    said = f"N {layers}, T {loops}, w {window}, t {t}, residual {residual}"
                    return Finding(False, counterexample=said)
    return Finding(True, scope="all N, T <= 2, w <= 5" if fast else None)


@claim(
    "W2",
    "what a short convolution adds, all parameters",
    statement=(
        "In the graph of what is read a convolution of c taps on keys or values adds N T (c - 1) "
        "tokens, and one on queries N T max(c - w, 0)."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "a window includes its own token": {
            "windows of w tokens before the own one": {"window_includes_itself": False}
        },
        "the first tap of a convolution is on the own token": {
            "taps on the c tokens before": {"taps_include_itself": False}
        },
        "where queries are convolved, keys and values are not": {
            "keys are convolved too": {"queries_alone": False}
        },
    },
    mutants={"a convolution adds c": {"told_extra": 1}},
)
def convolution_hops(
    *,
    fast: bool,
    window_includes_itself: bool = True,
    taps_include_itself: bool = True,
    queries_alone: bool = True,
    told_extra: int = 0,
) -> Finding:
    """Distances add where keys are convolved, and join where queries are."""
    N, T, w, c = (Symbol(x, integer=True, positive=True) for x in "NTwc")
    K = N * T
    seen = w - 1 if window_includes_itself else w
    tap = c - 1 if taps_include_itself else c
    keys = _iterated(seen + tap, K) - _iterated(seen, K)
    joined = Max(seen, tap) if queries_alone else seen + tap
    queries = _iterated(joined, K) - _iterated(seen, K)
    # max(w - 1, c - 1) = w - 1 + max(c - w, 0), in both cases: c = w + d, and w = c + d.
    d = Symbol("d", integer=True, nonnegative=True)
    gap = queries - K * Max(c - w, 0)
    cases = (gap.subs(c, w + d), gap.subs(w, c + d))
    holds = expand(keys - K * (c - 1 + told_extra)) == 0 and all(
        simplify(case) == 0 for case in cases
    )
    return Finding(bool(_interval_sums() and holds))


@claim(
    "W2",
    "reach with short convolutions",
    statement=(
        "A convolution of c taps on keys or values adds N T (c - 1) tokens to the graph of what is "
        "read, one on queries N T max(c - w, 0); one linear or full layer anywhere makes it the "
        "whole past."
    ),
    scope="all N, T <= 2, w, c <= 4, with and without residual, t up to 3 past the reach",
    source="derivation",
    evidence="exact",
    hypotheses={
        "a window includes its own token": {"windows of w tokens before the own one": {"first": 1}},
        "the first tap of a convolution is on the own token": {
            "taps on the c tokens before": {"first_tap": 1}
        },
        "where queries are convolved, keys and values are not": {
            "keys are convolved too": {"queries_alone": False}
        },
        "for the whole past, one layer that is linear or full": {
            "a window instead": {"unbounded_layer": False}
        },
    },
    mutants={"a convolution adds once, not at every application": {"adds_once": True}},
)
def convolution_reach(
    *,
    fast: bool,
    first: int = 0,
    first_tap: int = 0,
    queries_alone: bool = True,
    adds_once: bool = False,
    unbounded_layer: bool = True,
) -> Finding:
    """Closed form, boolean graph, and sets of distances added up one application at a time."""
    sizes = range(1, 3)
    taps = range(1, 4 if fast else 5)
    for layers, loops, window, c in itertools.product(sizes, sizes, taps, taps):
        hops = layers * loops
        for on in _ON:
            read, tapped = range(first, first + window), range(first_tap, first_tap + c)
            far = max(_distances(read, tapped, on if queries_alone else "keys_or_values", hops))
            length = far + 3
            extra = c - 1 if on == "keys_or_values" else max(c - window, 0)
            claimed = hops * (window - 1) + extra * (1 if adds_once else hops)
            same = reach(layers, loops, window, c, convolved_on=on) == far + 1 == claimed + 1
            for residual in (False, True):
                one = layer_graph(length, window, c, convolved_on=on, residual=residual)
                graph = reach_graph([one] * layers, loops)
                whole = layer_graph(length, None if unbounded_layer else window)
                mixed = reach_graph([one] * layers + [whole], loops)
                if not (same and _is_band(graph, far + 1) and _is_band(mixed, length)):
                    said = f"N {layers}, T {loops}, w {window}, c {c}, {on}"
                    return Finding(False, counterexample=said)
    return Finding(True, scope="all N, T <= 2, w, c <= 3" if fast else None)


def _interval_sums() -> bool:
    """Whether {0..a} + {0..b} = {0..a+b}, by the choice of summands in either case."""
    a, b, s = (Symbol(x, integer=True, nonnegative=True) for x in "abs")
    inside = Symbol("r", integer=True, nonnegative=True)
    first = Min(a, s)
    above = first.subs(s, a + inside)  # s = a + r: the summands are a and r, and r <= b
    below = first.subs(a, s + inside)  # a = s + r: the summands are s and 0
    return bool(simplify(above - a) == 0 and simplify(below - s) == 0 and a + b - a == b)


def _iterated(hop: Expr, applications: Expr) -> Expr:
    """The furthest distance after so many applications, from its recurrence."""
    n = Symbol("n", integer=True)
    far = Function("far")
    h = Symbol("h")
    return rsolve(far(n + 1) - far(n) - h, far(n), {far(0): 0}).subs({h: hop, n: applications})


def _distances(read: range, tapped: range, on: ConvolvedOn, hops: int) -> set[int]:
    """Distances after so many windows that read those given, each with a convolution."""
    if on == "keys_or_values":
        one = {i + j for i in read for j in tapped}
    else:
        one = set(read) | set(tapped)
    total = {0}
    for _ in range(hops):
        total = {i + j for i in total for j in one}
    return total


def _is_band(graph: Bool[np.ndarray, "t t"], width: int) -> bool:
    """Whether every token depends on exactly the last so many."""
    length = len(graph)
    rows = [[0 <= i - j < width for j in range(length)] for i in range(length)]
    return bool((graph == np.array(rows)).all())


CLAIMS: tuple[Claim, ...] = (window_hops, window_reach, convolution_hops, convolution_reach)
