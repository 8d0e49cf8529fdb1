"""W6: what selected attention reaches, in counts, in span and through its indices."""

import itertools
import random
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

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
    mutants={
        "one more token a hop than in windows": {"law": "sum"},
        "the residual does not count": {"law": "budget"},
        "two tokens over the budget": {"excess": 2},
    },
)
def selection_count(*, fast: bool, law: str = "power", excess: int = 0) -> Finding:
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
                rows = [_draw(rng, i, budget + excess, itself) for i in range(longer)]
                layers.append(selection_graph(_picked(rows), residual=not itself))
            seen = reach_graph(layers).sum(-1)
            if (seen > np.array(most)).any():
                return Finding(False, counterexample=f"w {budget}, N T {K}: {seen.max()} tokens")
    return Finding(True)


@claim(
    "W6",
    "'O(T w)' is a statement about windows",
    statement="A budget of w tokens a query reaches at most N T w + 1 tokens, as N T windows do.",
    conditions=(
        "Corrected: min(t, (w + 1)^(N T)) tokens; N T w + 1 holds at N T = 1, and for windows of "
        "w + 1 tokens, whose selections overlap."
    ),
    scope="every selection, in the order N T, w, t, up to N T = 2, w = 1, t = 4: none smaller",
    source=_SOURCE,
    evidence="exact",
    expected="refuted_as_stated",
    mutants={"windows": {"windows": True}, "three tokens": {"most": 3}, "one loop": {"deepest": 1}},
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


@claim(
    "W6",
    "the indices depend on the whole prefix",
    statement=(
        "Through the selected indices the output depends on every token of the prefix already at "
        "T = 1, although the Jacobian is exactly zero outside the selection graph."
    ),
    conditions="indices chosen by score",
    scope=(
        "top-2 attention with a residual, random weights, L = 12, one and two applications: the "
        "Jacobian, and a finite change of every token outside its support"
    ),
    source=_SOURCE,
    evidence="float64",
    mutants={"indices chosen by position": {"by_score": False}, "all selected": {"budget": 12}},
)
def indices_see_the_prefix(*, fast: bool, by_score: bool = True, budget: int = 2) -> Finding:
    """Autograd for the Jacobian; each token outside it is then moved until the output jumps."""
    for applications in (2,) if fast else (1, 2):
        x = _normal(0, 12, 4).requires_grad_()
        out, layers = _select(x, applications, budget, by_score)
        graph = reach_graph(layers)
        support = _support(out[-1], x)
        if not np.array_equal(support, graph[-1]):
            return Finding(False, counterexample=f"support {support.astype(int).tolist()}")
        outside = np.flatnonzero(~support)
        if not len(outside):
            return Finding(False, counterexample="nothing is outside")
        for token in outside:
            moved = x.detach().repeat(40, 1, 1)
            moved[:, token] = 10 * _normal(1, 40, 4)
            outputs = [_select(row, applications, budget, by_score)[0][-1] for row in moved]
            if all(torch.allclose(o, out[-1].detach(), rtol=0, atol=1e-9) for o in outputs):
                return Finding(False, counterexample=f"token {token + 1} never matters")
    return Finding(True, scope="top-2 attention, L = 12, two applications" if fast else None)


@claim(
    "W6",
    "a compressed branch reads every past block",
    statement="NSA's compressed branch alone is unbounded at T = 1: it reads every past block.",
    conditions="blocks that are complete; all of them are attended",
    scope="mean-pooled blocks of 4 tokens, softmax over all of them, L = 16, 22 and 64",
    source="NSA, arXiv 2502.11089, section 3.3; derivation",
    evidence="float64",
    expected="holds_with_conditions",
    mutants={"the last two blocks": {"blocks": 2}, "incomplete blocks too": {"whole": False}},
)
def compressed_branch(*, fast: bool, blocks: int | None = None, whole: bool = True) -> Finding:
    """The derivative of the last token's output by every token's key and value input."""
    smallest = float("inf")
    for length in (16, 22, 64):
        x = _normal(2, length, 4).requires_grad_()
        complete = length // 4
        pooled = x[: 4 * complete].reshape(complete, 4, 4).mean(1)[-(blocks or complete) :]
        scores = pooled @ _normal(3, 4, 4) @ _normal(4, 4)
        out = scores.softmax(0) @ (pooled @ _normal(5, 4, 4))
        expected = np.arange(length) < (4 * complete if whole else length)
        support = _support(out, x)
        if not np.array_equal(support, expected):
            return Finding(False, counterexample=f"L {length}: {int(support.sum())} tokens")
        (gradient,) = torch.autograd.grad(out.sum(), x)
        smallest = min(smallest, float(gradient[: 4 * complete].abs().amax(-1).min()))
    return Finding(True, smallest)


def _picked(rows: list[list[int]]) -> Int[np.ndarray, "t n"]:
    """Indices with one row a token, filled up by -1 for none."""
    wide = max(map(len, rows))
    filled = [[max(x, -1) for x in row] + [-1] * (wide - len(row)) for row in rows]
    return np.array(filled, dtype=np.int64)


def _draw(rng: random.Random, token: int, budget: int, itself: bool) -> list[int]:
    """What a token selects at random: up to the budget, of all that is not later."""
    chosen = rng.sample(range(token + 1), min(budget, token + 1))
    return [token, *[x for x in chosen if x != token][: budget - 1]] if itself else chosen


def _selections(length: int, budget: int, windows: bool) -> Iterator[Int[np.ndarray, "t n"]]:
    """Every selection of every token; of windows, the one there is."""
    if windows:
        yield _picked([[i - 1 - j for j in range(budget)] for i in range(length)])
        return
    rows = [list(itertools.combinations(range(-1, i), budget)) for i in range(length)]
    for choice in itertools.product(*rows):
        yield _picked([list(row) for row in choice])


def _normal(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _select(
    x: Tensor, applications: int, budget: int, by_score: bool
) -> tuple[Tensor, list[Bool[np.ndarray, "t t"]]]:
    """Top-k attention with a residual, and the graph of what each application selected."""
    graphs = []
    length, width = x.shape
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    for application in range(applications):
        q, k, v = (x @ _normal(10 + 3 * application + i, width, width) / 2 for i in range(3))
        scores = (q @ k.T).masked_fill(later, float("-inf"))
        order = scores if by_score else torch.arange(length).expand(length, length)
        order = order.detach().double().masked_fill(later, float("-inf"))
        indices = order.topk(min(budget, length), -1).indices
        indices = torch.where(indices > torch.arange(length)[:, None], -1, indices)
        graphs.append(selection_graph(indices.numpy()))
        chosen = torch.tensor(selection_graph(indices.numpy(), residual=False))
        x = x + scores.masked_fill(~chosen, float("-inf")).softmax(-1) @ v
    return x, graphs


def _support(output: Tensor, x: Tensor) -> Bool[np.ndarray, "t"]:
    """Tokens with a non-zero derivative of any coordinate of the output."""
    touched = torch.zeros(x.shape[0], dtype=torch.bool)
    for coordinate in output:
        (gradient,) = torch.autograd.grad(coordinate, x, retain_graph=True)
        touched |= (gradient != 0).any(-1)
    return touched.numpy()


CLAIMS: tuple[Claim, ...] = (
    selection_count,
    not_linear,
    whole_span,
    indices_see_the_prefix,
    compressed_branch,
)
