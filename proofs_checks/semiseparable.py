"""L1: what rescan really expands is the semiseparable order, not the rank on one state."""

import random

from flint import fmpq_mat
from sympy import Expr, Symbol, expand

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import identity, kronecker, product, random_column, random_rational
from proofs_checks.loop_departures import on_one_line, reading_values
from proofs_checks.loop_states import Step, block, cut_ranks, map_of, random_frozen, run
from proofs_checks.loops import random_strength

Head = tuple[list[Step], fmpq_mat]
"""The steps of one head in one place, and what it does to the channels that it carries."""

_SOURCE = "derivation; LT2, section 3 and App. B.1, for the sentence that this replaces"


@claim(
    "L1",
    "rescan: the order grows by d_k a loop and layer",
    statement=(
        "Every past-to-future block of a rescanning stack on one scalar value channel, its H heads "
        "summed by scalars, factors through N T H d_k numbers, residuals or not."
    ),
    scope="all",
    source=_SOURCE,
    evidence="symbolic",
    hypotheses={
        "frozen keys, queries and gates": {"keys that read the values": {"frozen": False}},
        "one scalar value channel": {"d_v value channels": {"scalar_values": False}},
        "every place passes the cut through its state alone": {
            "a place that passes more than its state": {"through_the_state": False}
        },
    },
    mutants={
        "the blocks multiply": {"blocks_multiply": True},
        "the earlier places add no width": {"widths_add": False},
    },
)
def order_bound(
    *,
    fast: bool,
    frozen: bool = True,
    scalar_values: bool = True,
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
    a, c, u, q, s, p, x, y = (Symbol(name, commutative=False) for name in "acuqspxy")
    A, C, U, X, Y = (Symbol(name, commutative=False) for name in "ACUXY")

    def passes(past: Expr) -> Expr:
        return q * s * past * (1 if frozen else 1 + past)

    holds = expand(passes(x + y) - passes(x) - passes(y)) == 0  # else there are no blocks
    for own in (0, 1):
        place = [[own + a, u], [q * s if through_the_state else p, own + c]]
        before = [[own + A, U], [X * Y, own + C]]
        lower = place[1][0] * before[0][0] + place[1][1] * before[1][0]
        if blocks_multiply:
            lower = place[1][0] * before[1][0]
        through = q * (s * before[0][0]) + (place[1][1] * X) * Y
        holds = holds and expand(lower - through) == 0
    places, heads, width = Symbol("n"), Symbol("H"), Symbol("d_k")
    state = heads * width * (1 if scalar_values else Symbol("d_v"))
    inner = (places * heads * width if widths_add else 0) + state
    return Finding(bool(holds and expand(inner - (places + 1) * heads * width) == 0))


@claim(
    "L1",
    "generically the block has rank exactly min(c, L - c, N T H d_k)",
    statement=(
        "The past-to-future block of a rescanning stack at cut c, on one scalar value channel and "
        "with its H heads summed by scalars, has rank at most min(c, L - c, N T H d_k), residuals "
        "or not, and generically exactly that."
    ),
    scope=(
        "every cut of random rational delta-rule stacks: (d_k, H, N, T) from (1,1,1,1) to "
        "(2,1,2,2) and (1,2,2,2), L = 2 N T H d_k + 3, with and without residual; a rank reached "
        "once is reached by all but a null set"
    ),
    source=_SOURCE,
    evidence="exact",
    hypotheses={
        "frozen keys, queries and gates": {"keys that read the values": {"frozen": False}},
        "one scalar value channel": {"two value channels": {"channels": 2}},
        "factors in general position (for the equality)": {
            "all keys on one line": {"general": False}
        },
    },
    mutants={"the order stays d_k H": {"grows": False}},
)
def generic_order(
    *, fast: bool, grows: bool = True, frozen: bool = True, channels: int = 1, general: bool = True
) -> Finding:
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
                stack = [
                    [
                        (_steps(rng, length, width, general), identity(channels) * weight)
                        for weight in (random_strength(rng) for _ in range(heads))
                    ]
                    for _ in range(places)
                ]
                whole = product([_map(place, residual) for place in stack])
                if not _is_the_map(rng, stack, whole, residual, frozen):
                    return Finding(False, counterexample="the map is not linear in the values")
                ranks = cut_ranks(whole, channels)
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
        "A rescanning model with value and output projections acts on L d numbers, and its "
        "past-to-future block at cut c has rank at most min(c d, (L - c) d, N T H d_k d_v), and "
        "generically exactly that."
    ),
    scope="random rational stacks, (d_k, d_v, H, N T) up to (2,2,1,2) and (1,2,2,2), with residual",
    source=_SOURCE,
    evidence="exact",
    hypotheses={
        "frozen keys, queries and gates": {"keys that read the values": {"frozen": False}},
        "d = H d_v (for the equality)": {"a wider stream": {"wider": 1}},
        "projections of rank d_v in every head (for the equality)": {
            "value projections of rank 1": {"full_rank_values": False}
        },
        "factors in general position (for the equality)": {
            "all keys on one line": {"general": False}
        },
    },
    mutants={"N T H d_k as on a scalar channel": {"counts_values": False}},
)
def projected_order(
    *,
    fast: bool,
    counts_values: bool = True,
    frozen: bool = True,
    wider: int = 0,
    full_rank_values: bool = True,
    general: bool = True,
) -> Finding:
    """A head maps token s to token t by `O[t, s] W_o W_v`; the places multiply."""
    rng = random.Random(4)
    sizes = [(1, 2, 1, 2), (2, 2, 1, 1)]
    if not fast:
        sizes += [(2, 2, 1, 2), (1, 2, 2, 2), (2, 1, 2, 2)]
    for width, value_width, heads, places in sizes:
        model_width = heads * value_width + wider
        order = places * heads * width * (value_width if counts_values else 1)
        length = 2 * (order // model_width + 1) + 1
        inner = value_width if full_rank_values else 1
        most = [0] * (length - 1)
        for _ in range(2):
            stack = [
                [
                    (
                        _steps(rng, length, width, general),
                        _random_matrix(rng, model_width, inner)
                        * _random_matrix(rng, inner, model_width),
                    )
                    for _ in range(heads)
                ]
                for _ in range(places)
            ]
            whole = product([_map(place, True) for place in stack])
            if not _is_the_map(rng, stack, whole, True, frozen):
                return Finding(False, counterexample="the map is not linear in the values")
            most = [max(pair) for pair in zip(most, cut_ranks(whole, model_width), strict=True)]
        sides = [model_width * min(c, length - c) for c in range(1, length)]
        if most != [min(side, order) for side in sides]:
            said = f"d_k {width}, d_v {value_width}, H {heads}, N T {places}: ranks {most}"
            return Finding(False, counterexample=said)
    return Finding(True)


def _steps(rng: random.Random, length: int, width: int, general: bool) -> list[Step]:
    """One place's steps of a head."""
    drawn = random_frozen(rng, 1, length, width)
    return drawn[0] if general else on_one_line(drawn)[0]


def _map(place: list[Head], residual: bool) -> fmpq_mat:
    """The map of one place, whose heads are summed, on all channels of all tokens."""
    steps, mixing = place[0]
    size = len(steps) * mixing.nrows()
    total = identity(size) if residual else fmpq_mat(size, size)
    for steps, mixing in place:
        total += kronecker(map_of("rescan", [steps]), mixing)
    return total


def _is_the_map(
    rng: random.Random, stack: list[list[Head]], whole: fmpq_mat, residual: bool, frozen: bool
) -> bool:
    """Whether a run of the recurrence on random values agrees with the map."""
    channels = stack[0][0][1].nrows()
    values = random_column(rng, whole.nrows())
    rows = [
        block(values, range(at, at + channels), range(1)).transpose()
        for at in range(0, whole.nrows(), channels)
    ]
    for place in stack:
        read = rows if residual else [0 * row for row in rows]
        for steps, mixing in place:
            own = [steps] if frozen else reading_values([steps], rows)
            outputs = run("rescan", own, rows).outputs[-1]
            read = [row + o * mixing.transpose() for row, o in zip(read, outputs, strict=True)]
        rows = read
    return [x for row in rows for x in row.entries()] == (whole * values).entries()


def _random_matrix(rng: random.Random, rows: int, columns: int) -> fmpq_mat:
    entries = [random_rational(rng) for _ in range(rows * columns)]
    return fmpq_mat(rows, columns, entries)


CLAIMS: tuple[Claim, ...] = (order_bound, generic_order, projected_order)
