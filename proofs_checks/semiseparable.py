"""L1: what rescan really expands is the semiseparable order, not the rank on one state."""

import random
from dataclasses import replace

import torch
from flint import fmpq, fmpq_mat
from sympy import Symbol, expand

from lt2theory.analysis import received_factors
from lt2theory.models import LoopedConfig, LoopedModel
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, factor, identity, random_column, random_rational
from proofs_checks.loop_states import (
    Frozen,
    Step,
    block,
    cut_ranks,
    map_of,
    random_frozen,
    run,
)

_SOURCE = "derivation; LT2, section 3 and App. B.1, for the sentence that this replaces"


@claim(
    "L1",
    "rescan: the order grows by d_k a loop and layer",
    statement=(
        "With frozen factors every past-to-future block of a rescanning stack on one scalar value "
        "channel factors through N T H d_k numbers, residuals or not."
    ),
    conditions=(
        "every place passes the cut through its H d_k state numbers: frozen keys, queries and "
        "gates, one scalar value channel, heads summed by scalars"
    ),
    scope="all",
    source=_SOURCE,
    evidence="symbolic",
    mutants={
        "a place that passes more than its state": {"through_the_state": False},
        "the blocks multiply": {"blocks_multiply": True},
        "the earlier places add no width": {"widths_add": False},
    },
)
def order_bound(
    *,
    fast: bool,
    through_the_state: bool = True,
    blocks_multiply: bool = False,
    widths_add: bool = True,
) -> Finding:
    """Induction on the places, with the blocks of a cut as letters that do not commute.

    One place is `[[a, u], [q s, c]]`, where s fills its H d_k states and q reads them, and the
    places before it are `[[A, U], [X Y, C]]`. The lower block of the product must be
    `[q, c X] [[s A], [Y]]`, whose inner width is the sum of both. Causality (u = U = 0) is not
    needed. A residual turns the diagonal blocks into 1 + a and 1 + c, and nothing else.
    """
    a, c, u, q, s, p = (Symbol(name, commutative=False) for name in "acuqsp")
    A, C, U, X, Y = (Symbol(name, commutative=False) for name in "ACUXY")
    holds = True
    for own in (0, 1):
        place = [[own + a, u], [q * s if through_the_state else p, own + c]]
        before = [[own + A, U], [X * Y, own + C]]
        lower = place[1][0] * before[0][0] + place[1][1] * before[1][0]
        if blocks_multiply:
            lower = place[1][0] * before[1][0]
        through = q * (s * before[0][0]) + (place[1][1] * X) * Y
        holds = holds and expand(lower - through) == 0
    places, width = Symbol("n"), Symbol("w")
    inner = (places * width if widths_add else 0) + width
    return Finding(bool(holds and expand(inner - (places + 1) * width) == 0))


@claim(
    "L1",
    "generically the block has rank exactly min(c, L - c, N T H d_k)",
    statement=(
        "The past-to-future block of a rescanning stack at cut c, on one scalar value channel and "
        "with its H heads summed by scalars, has rank at most N T H d_k, residuals or not, and "
        "generically exactly min(c, L - c, N T H d_k)."
    ),
    conditions="frozen keys, queries and gates",
    scope=(
        "every cut of random rational delta-rule stacks: (d_k, H, N, T) from (1,1,1,1) to "
        "(2,1,2,2) and (1,2,2,2), L = 2 N T H d_k + 3, with and without residual; a rank reached "
        "once is reached by all but a null set"
    ),
    source=_SOURCE,
    evidence="exact",
    mutants={
        "the order stays d_k H": {"grows": False},
        "keys that read the values": {"frozen": False},
    },
)
def generic_order(*, fast: bool, grows: bool = True, frozen: bool = True) -> Finding:
    """Exact ranks of exact maps; the map itself is compared with one run of the recurrence."""
    rng = random.Random(1)
    sizes = [(1, 1, 1, 1), (2, 1, 1, 2), (1, 2, 1, 2)]
    if not fast:
        sizes += [(1, 1, 2, 2), (2, 1, 1, 3), (2, 1, 2, 2), (1, 2, 2, 2), (3, 1, 1, 2)]
    for width, heads, layers, loops in sizes:
        places = layers * loops
        order = width * heads * (places if grows else 1)
        length = 2 * places * heads * width + 3
        for residual in (False, True):
            most = [0] * (length - 1)
            for _ in range(2):
                stack = [random_frozen(rng, places, length, width) for _ in range(heads)]
                whole = _stacked(stack, residual=residual)
                values = random_column(rng, length)
                if heads == 1 and not _is_the_map(stack[0], whole, values, residual, frozen):
                    return Finding(False, counterexample="the map is not linear in the values")
                ranks = cut_ranks(whole)
                most = [max(pair) for pair in zip(most, ranks, strict=True)]
            expected = [min(c, length - c, order) for c in range(1, length)]
            if most != expected:
                said = f"d_k {width}, H {heads}, N {layers}, T {loops}: ranks {most}"
                return Finding(False, counterexample=said)
    return Finding(True)


@claim(
    "L1",
    "value and output projections widen the state",
    statement=(
        "With frozen factors a rescanning model with value and output projections acts on L d "
        "numbers, and its past-to-future blocks have rank at most N T H d_k d_v, which is reached."
    ),
    conditions="reached where the projections of every head have rank d_v",
    scope="random rational stacks, (d_k, d_v, H, N T) up to (2,2,1,2) and (1,2,2,2), with residual",
    source=_SOURCE,
    evidence="exact",
    mutants={
        "N T H d_k as on a scalar channel": {"counts_values": False},
        "value projections of rank 1": {"full_rank_values": False},
    },
)
def projected_order(
    *, fast: bool, counts_values: bool = True, full_rank_values: bool = True
) -> Finding:
    """A head maps token s to token t by `O[t, s] W_o W_v`; the places multiply."""
    rng = random.Random(4)
    sizes = [(1, 2, 1, 2), (2, 2, 1, 1)]
    if not fast:
        sizes += [(2, 2, 1, 2), (1, 2, 2, 2), (2, 1, 2, 2)]
    for width, value_width, heads, places in sizes:
        model_width = heads * value_width
        order = places * heads * width * (value_width if counts_values else 1)
        length = 2 * (order // model_width + 1) + 1
        size = length * model_width
        whole = identity(size)
        for _ in range(places):
            total = identity(size)
            for _ in range(heads):
                scan = map_of("rescan", random_frozen(rng, 1, length, width))
                inner = value_width if full_rank_values else 1
                into = _random_matrix(rng, inner, model_width)
                out = _random_matrix(rng, model_width, inner)
                total += _kronecker(scan, out * into)
            whole = total * whole
        if max(cut_ranks(whole, model_width)) != order:
            said = f"d_k {width}, d_v {value_width}, H {heads}, N T {places}: not {order}"
            return Finding(False, counterexample=said)
    return Finding(True)


@claim(
    "L1",
    "on the factors that a model received",
    statement=(
        "The factors that a rescanning DeltaNet received, read as the exact fractions that their "
        "floating-point numbers are, give past-to-future blocks of rank min(c, L - c, T d_k) on "
        "one scalar value channel with a residual."
    ),
    scope="one LoopedModel at its start, N = H = 1, d_k = 2, L = 11, T <= 3",
    source=_SOURCE,
    evidence="exact",
    mutants={"the order stays d_k": {"grows": False}, "one loop left out": {"drop": 1}},
)
def order_of_a_model(*, fast: bool, grows: bool = True, drop: int = 0) -> Finding:
    """Take the trace's keys, queries and betas over into exact arithmetic."""
    length, width = 11, 2
    for loops in (1, 2) if fast else (1, 2, 3):
        frozen = _received(loops, length, width)
        ranks = cut_ranks(map_of("rescan", frozen[drop:] or frozen, residual=True))
        order = width * (loops if grows else 1)
        if ranks != [min(c, length - c, order) for c in range(1, length)]:
            return Finding(False, counterexample=f"T {loops}: ranks {ranks}")
    return Finding(
        True, scope=f"one LoopedModel at its start, N = H = 1, d_k = 2, L = 11, T <= {loops}"
    )


def _stacked(heads: list[list[list[Step]]], *, residual: bool) -> fmpq_mat:
    """The map of a rescanning stack whose heads are summed at every place."""
    length = len(heads[0][0])
    whole = identity(length)
    for place in range(len(heads[0])):
        total = identity(length) if residual else fmpq_mat(length, length)
        for head in heads:
            total += map_of("rescan", [head[place]])
        whole = total * whole
    return whole


def _is_the_map(
    stack: Frozen, whole: fmpq_mat, values: fmpq_mat, residual: bool, frozen: bool
) -> bool:
    """Whether a run of the recurrence on these values agrees with the map."""
    length = values.nrows()
    rows = [block(values, range(t, t + 1), range(1)) for t in range(length)]
    if not frozen:
        stack = [
            [replace(s, write=s.write * (1 + v[0, 0])) for s, v in zip(place, rows, strict=True)]
            for place in stack
        ]
    outputs = run("rescan", stack, rows, residual=residual).outputs[-1]
    expected = whole * values
    return all(row[0, 0] == expected[t, 0] for t, row in enumerate(outputs))


def _random_matrix(rng: random.Random, rows: int, columns: int) -> fmpq_mat:
    entries = [random_rational(rng) for _ in range(rows * columns)]
    return fmpq_mat(rows, columns, entries)


def _kronecker(outer: fmpq_mat, inner: fmpq_mat) -> fmpq_mat:
    m, n = outer.nrows(), inner.nrows()
    entries = [
        outer[i // n, j // n] * inner[i % n, j % n] for i in range(m * n) for j in range(m * n)
    ]
    return fmpq_mat(m * n, m * n, entries)


def _received(loops: int, length: int, width: int) -> list[list[Step]]:
    """The steps of a model's only layer and head, in every loop."""
    config = LoopedConfig(
        vocab_size=7,
        width=width,
        num_layers=1,
        num_loops=loops,
        num_heads=1,
        pattern="deltanet",
        conv_width=0,
        init_std=0.5,
        backend="reference",
    )
    tokens = torch.randint(7, (1, length), generator=torch.Generator().manual_seed(0))
    places = []
    for _, _, factors in received_factors(LoopedModel(config).double().trace(tokens)):
        assert factors.beta is not None, "a delta rule erases"
        steps = []
        for t in range(length):
            key = column([_fraction(x) for x in factors.k[0, t, 0, 0].tolist()])
            query = column([_fraction(x) for x in factors.q[0, t, 0].tolist()])
            beta = _fraction(float(factors.beta[0, t, 0, 0]))
            steps.append(Step(factor(key, beta, None, order="decay_first"), key * beta, query))
        places.append(steps)
    return places


def _fraction(number: float) -> fmpq:
    return fmpq(*number.as_integer_ratio())


CLAIMS: tuple[Claim, ...] = (order_bound, generic_order, projected_order, order_of_a_model)
