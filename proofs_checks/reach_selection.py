"""W6: what selected attention reaches, in counts and in span."""

import itertools
import random
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int

from lt2theory.analysis import reach_graph, selection_graph, selection_reach
from proofs_checks.claim import Claim, Finding, claim

_SOURCE = "derivation; LT2, section 3.3, for O(T w)"


@claim(
    "W6",
    "tokens with a non-zero Jacobian under selection",
    statement=(
        "With a budget of w tokens beside the residual at most min(t, (w + 1)^(N T)) tokens can "
        "have a non-zero Jacobian, which holds the selected indices fixed, and w^(N T) where the "
        "token itself counts in the budget; both bounds are reached."
    ),
    scope="random selections, w <= 3, N T <= 3, t up to 20 past the bound; reached at each",
    source=_SOURCE,
    evidence="exact",
    hypotheses={
        "a query selects at most w tokens": {"two tokens over the budget": {"excess": 2}},
        "it selects none after itself": {"selections of later tokens": {"causal": False}},
        "for w^(N T) it selects itself": {
            "w others are selected beside the token itself": {"itself_selected": False}
        },
    },
    mutants={
        "one more token a hop than in windows": {"law": "sum"},
        "the residual does not count": {"law": "budget"},
    },
)
def selection_count(
    *,
    fast: bool,
    excess: int = 0,
    causal: bool = True,
    itself_selected: bool = True,
    law: str = "power",
) -> Finding:
    """Random selections stay below, and the digits of a distance in base w + 1 reach it.

    To reach it, application s selects the tokens at distances j (w + 1)^s, j = 1..w.
    """
    rng = random.Random(11)
    for budget, K, itself in itertools.product((1, 2, 3), (1, 2, 3), (False, True)):
        base = budget if itself else budget + 1
        bound = selection_reach(budget, K, 1, counts_itself=itself)
        claimed = {"power": base**K, "sum": K * budget + 1, "budget": budget**K}[law]
        length = int(bound)
        offsets = [[j * base**s for j in range(base)] for s in range(K)]
        reached = [_picked([[i - o for o in hop] for i in range(length)]) for hop in offsets]
        graph = reach_graph([selection_graph(x, residual=not itself) for x in reached])
        if graph[-1].sum() != bound or bound != claimed:
            return Finding(False, counterexample=f"w {budget}, N T {K}: reached {graph[-1].sum()}")
        longer = length + 20
        most = [
            selection_reach(budget, K, 1, num_tokens=t, counts_itself=itself)
            for t in range(1, longer + 1)
        ]
        for _ in range(3 if fast else 30):
            layers = []
            for _ in range(K):
                own = itself and itself_selected
                rows = [
                    _draw(rng, i, i + 1 if causal else longer, budget + excess, own)
                    for i in range(longer)
                ]
                graph = selection_graph(_picked(rows), residual=not own) if causal else _any(rows)
                layers.append(graph)
            seen = reach_graph(layers).sum(-1)
            if (seen > np.array(most)).any():
                return Finding(False, counterexample=f"w {budget}, N T {K}: {seen.max()} tokens")
    return Finding(True)


@claim(
    "W6",
    "'O(T w)' is a statement about windows",
    statement="A budget of w tokens a query reaches at most N T w + 1 tokens, as N T windows do.",
    correction=(
        "Corrected: min(t, (w + 1)^(N T)) tokens; N T w + 1 holds at N T = 1, and for windows of "
        "w + 1 tokens, whose selections overlap."
    ),
    scope="every selection, in the order N T, w, t, up to N T = 2, w = 1, t = 4: none smaller",
    source=_SOURCE,
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "every query selects the w tokens before it": {"windows": {"windows": True}},
        "N T = 1": {"one application": {"deepest": 1}},
        "t <= N T w + 1": {"three tokens": {"most": 3}},
    },
)
def not_linear(*, fast: bool, windows: bool = False, most: int = 4, deepest: int = 2) -> Finding:
    """Try every selection of every token in every application."""
    for K, budget in itertools.product(range(1, deepest + 1), (1,)):
        for length in range(1, most + 1):
            for layers in itertools.product(_selections(length, budget, windows), repeat=K):
                graph = reach_graph([selection_graph(layer) for layer in layers])
                count = int(graph[-1].sum())
                if count > K * budget + 1:
                    chosen = [[int(x) + 1 for x in layer[:, 0]] for layer in layers]
                    said = (
                        f"N T = {K}, w = {budget}, t = {length}: tokens 1..{length} select "
                        f"{' and then '.join(map(str, chosen))} (0: none), so that token {length} "
                        f"depends on {count} tokens, more than N T w + 1 = {K * budget + 1}"
                    )
                    return Finding((K, budget, length) == (2, 1, 4), counterexample=said)
    return Finding(False)


@claim(
    "W6",
    "the span can be everything at T = 1",
    statement="One selecting layer with w = 1 can depend on the first token from any position.",
    scope="t = 1..200; a closed construction: every token selects the first",
    source=_SOURCE,
    evidence="exact",
    mutants={"the token before": {"first": False}},
)
def whole_span(*, fast: bool, first: bool = True) -> Finding:
    """The furthest token read, against the number of tokens read."""
    for length in range(1, 50 if fast else 201):
        rows = [[0 if first else max(0, i - 1)] for i in range(length)]
        row = selection_graph(_picked(rows))[-1]
        if length - int(row.argmax()) != length or row.sum() > 2:
            return Finding(False, counterexample=f"t {length}: {int(row.argmax()) + 1}")
    return Finding(True)


def _picked(rows: list[list[int]]) -> Int[np.ndarray, "t n"]:
    """Indices with one row a token, filled up by -1 for none."""
    wide = max(map(len, rows))
    filled = [[max(x, -1) for x in row] + [-1] * (wide - len(row)) for row in rows]
    return np.array(filled, dtype=np.int64)


def _draw(rng: random.Random, token: int, among: int, budget: int, itself: bool) -> list[int]:
    """What a token selects at random: up to the budget, of the first so many tokens."""
    chosen = rng.sample(range(among), min(budget, among))
    return [token, *[x for x in chosen if x != token][: budget - 1]] if itself else chosen


def _any(rows: list[list[int]]) -> Bool[np.ndarray, "t t"]:
    """The graph of a selection with a residual, later tokens not refused."""
    graph = np.eye(len(rows), dtype=bool)
    for token, row in enumerate(rows):
        graph[token, row] = True
    return graph


def _selections(length: int, budget: int, windows: bool) -> Iterator[Int[np.ndarray, "t n"]]:
    """Every selection of every token; of windows, the one there is."""
    if windows:
        yield _picked([[i - 1 - j for j in range(budget)] for i in range(length)])
        return
    rows = [list(itertools.combinations(range(-1, i), budget)) for i in range(length)]
    for choice in itertools.product(*rows):
        yield _picked([list(row) for row in choice])


CLAIMS: tuple[Claim, ...] = (selection_count, not_linear, whole_span)
