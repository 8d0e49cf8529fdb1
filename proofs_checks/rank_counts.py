"""R9 and R11: what one token can write over T loops, and what n tokens can erase."""

import random

import torch
from flint import arb, fmpq_mat

from lt2theory.ops import linear_recurrence
from lt2theory.ops.factors import FactorOrder
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, factor, identity, product, random_column
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import ORDERS, Gates, loops, random_decays, random_strength


@claim(
    "R9",
    "T columns of writes",
    statement=(
        "What one token adds to the state over T loops is U V^T with T columns each, and so of "
        "rank at most T: earlier columns of U go through the later transitions, those of V stay."
    ),
    conditions="any transitions; each loop writes w k v^T after its transition",
    scope="all",
    source="derivation",
    evidence="symbolic",
    mutants={
        "later loops leave earlier writes alone": {"carried": False},
        "no column for the new write": {"appended": False},
        "a value of its own for every channel": {"outer": False},
    },
)
def write_columns(
    *, fast: bool, carried: bool = True, appended: bool = True, outer: bool = True
) -> Finding:
    """Induction on T: the state is `P S + U V^T` before the last loop."""
    A, P, S, U, Vt, k, vt, X = letters("A P S U Vt k vt X")
    w = scalars("w")[0]
    step = A * (P * S + U * Vt) + (w * k * vt if outer else X)
    claimed = (A * U if carried else U) * Vt + (k * (w * vt) if appended else 0)
    return Finding(vanishes(step - A * P * S - claimed))


@claim(
    "R9",
    "rank of the write",
    statement=(
        "The write of one token over T loops has rank at most T, and min(T, d_k, d_v) is attained; "
        "linear_recurrence gives the same state, bit for bit on integers."
    ),
    conditions="the state starts at zero, or its image is taken off; one write a loop",
    scope="1,000 random integer instances, d_k, d_v <= 4, T <= 5, both orders; T <= 4 attained",
    source="derivation; lt2theory.ops",
    evidence="exact",
    mutants={
        "a state from before": {"start": True},
        "two writes a loop": {"writes": 2},
        "rank T - 1": {"fewer": 1},
        "T > d_v attained": {"beyond": True},
    },
)
def write_rank(
    *,
    fast: bool,
    start: bool = False,
    writes: int = 1,
    fewer: int = 0,
    beyond: bool = False,
) -> Finding:
    """Small integers are exact in float64, so both states must be equal."""
    rng = random.Random(9)
    number = 150 if fast else 1000
    attained = set()
    for _ in range(number):
        d_k, d_v, count = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 5)
        order: FactorOrder = "decay_first" if rng.random() < 0.5 else "erase_first"
        keys = [_integers(rng, d_k) for _ in range(count * writes)]
        values = [_integers(rng, d_v) for _ in keys]
        betas = [rng.choice([-1, 1, 2]) for _ in keys]
        state = fmpq_mat(d_k, d_v, [rng.randint(-2, 2) for _ in range(d_k * d_v)]) * int(start)
        before = state
        for key, value, beta in zip(keys, values, betas, strict=True):
            state = factor(key, beta, None, order=order) * state + key * value.transpose() * beta
        found = _op_state(keys, values, betas, before, order)
        if found != [[float(arb(x).mid()) for x in row] for row in state.tolist()]:
            return Finding(False, counterexample="the op's state differs")
        rank, most = int(state.rank()), min(count, d_k, d_v)
        if rank > count - fewer:
            said = "; ".join(
                f"{k.entries()} {v.entries()}" for k, v in zip(keys, values, strict=True)
            )
            return Finding(False, counterexample=f"keys and values {said}, beta {betas}")
        if rank == (count if beyond else most):
            attained.add((d_k, d_v, count if beyond else most))
    # Every pair of widths with every T that fits, or, for the wrong variant, with every T.
    sizes = range(1, 3 if fast else 5)
    wanted = {(a, b, t) for a in sizes for b in sizes for t in sizes if t <= min(a, b) or beyond}
    said = f"{number} random integer instances, d_k, d_v <= 4, T <= 5; attained to {sizes[-1]}"
    return Finding(wanted <= attained, scope=said)


def _integers(rng: random.Random, size: int) -> fmpq_mat:
    while True:
        vector = [rng.randint(-2, 2) for _ in range(size)]
        if any(vector):
            return column(vector)


def _op_state(
    keys: list[fmpq_mat],
    values: list[fmpq_mat],
    betas: list[int],
    before: fmpq_mat,
    order: FactorOrder,
) -> list[list[float]]:
    k = torch.tensor([[float(x) for x in _ints(key)] for key in keys], dtype=torch.float64)
    v = torch.tensor([[float(x) for x in _ints(value)] for value in values], dtype=torch.float64)
    start = torch.tensor([[float(int(x.p)) for x in row] for row in before.tolist()])
    _, state = linear_recurrence(
        k.new_zeros(1, 1, 1, k.shape[-1]),
        k[None, None, :, None],
        v[None, None, :, None],
        beta=torch.tensor(betas, dtype=torch.float64)[None, None, :, None],
        initial_state=start.double()[None, None],
        order=order,
        backend="reference",
        return_state=True,
    )
    found: list[list[float]] = state[0, 0].tolist()
    return found


def _ints(vector: fmpq_mat) -> list[int]:
    return [int(x.p) for x in vector.entries()]


@claim(
    "R11",
    "corrections of successive spans add columns",
    statement=(
        "With A = P_A - C_A and B = P_B - C_B, P_B P_A - B A = B C_A + C_B P_A: the columns of two "
        "spans add up, and n tokens of T loops have rank at most min(nT, d_k)."
    ),
    conditions="the baseline is the product of the baselines; later spans on the left",
    scope="all",
    source="derivation, with R7 for one token",
    evidence="symbolic",
    mutants={
        "baseline I": {"named_baseline": False},
        "later spans on the right": {"later_on_the_left": False},
        "the later span does not act on the earlier correction": {"carried": False},
    },
)
def spans_add(
    *,
    fast: bool,
    named_baseline: bool = True,
    later_on_the_left: bool = True,
    carried: bool = True,
) -> Finding:
    """Induction on n: `[B U_A, U_B] [V_A, P_A^T V_B]^T` has the columns of both."""
    PA, PB, UA, UB, VA, VB = letters("PA PB UA UB VA VB")
    A, B = PA - UA * VA, PB - UB * VB
    baseline = PB * PA if named_baseline else 1
    total = B * A if later_on_the_left else A * B
    claimed = (B if carried else PB) * UA * VA + UB * (VB * PA)
    return Finding(vanishes(baseline - total - claimed))


@claim(
    "R11",
    "rank over tokens and loops",
    statement=(
        "Over n tokens the accumulated correction has rank at most min(nT, d_k), attained for "
        "independent keys without gates and in general with them."
    ),
    conditions="the baseline is prod(D) over all n tokens; attained in general position only",
    scope="every n <= 3, T <= 3, d_k <= 7: an instance that attains it, and 20 degenerate ones",
    source="derivation",
    evidence="exact",
    mutants={
        "T alone bounds it": {"tokens_count": False},
        "baseline I": {"named_baseline": False},
        "for any keys": {"generic": False},
    },
)
def tokens_times_loops(
    *,
    fast: bool,
    tokens_count: bool = True,
    named_baseline: bool = True,
    generic: bool = True,
) -> Finding:
    """Both orders, all three kinds of gates; token by token, and loop by loop within a token."""
    rng = random.Random(11)
    widths = range(1, 5 if fast else 8)
    kinds: tuple[Gates, ...] = ("none", "scalar", "diagonal")
    for size in widths:
        for tokens in (1, 2, 3):
            for count in (1, 2, 3):
                most = min(size, (tokens if tokens_count else 1) * count)
                for gates, order in ((g, o) for g in kinds for o in ORDERS):
                    rank = _span_rank(rng, size, (tokens, count), gates, order, named_baseline)
                    if rank != most:
                        said = f"n = {tokens}, T = {count}, d = {size}, {gates}, {order}: {rank}"
                        return Finding(False, counterexample=said)
                for _ in range(4 if fast else 20):
                    gates, order = rng.choice(kinds), rng.choice(ORDERS)
                    rank = _span_rank(rng, size, (tokens, count), gates, order, True, pool=2)
                    if rank > most or (not generic and rank < most):
                        return Finding(False, counterexample=f"two keys only: rank {rank}")
    said = f"every n <= 3, T <= 3, d_k <= {widths[-1]}, all gates, both orders"
    return Finding(True, scope=said)


def _span_rank(
    rng: random.Random,
    size: int,
    shape: tuple[int, int],
    gates: Gates,
    order: str,
    named_baseline: bool,
    *,
    pool: int | None = None,
) -> int:
    """Rank of the correction over n tokens of T loops; keys from a pool, or all different."""
    tokens, count = shape
    some = [random_column(rng, size) for _ in range(pool or 0)]
    spans = []
    baselines = []
    for _ in range(tokens):
        keys = [
            rng.choice(some) if some else column([rng.randint(-60, 60) for _ in range(size)])
            for _ in range(count)
        ]
        betas = [random_strength(rng) for _ in keys]
        found = loops(keys, betas, random_decays(rng, size, count, gates), order=order)
        spans.append(found.effective())
        baselines.append(found.baseline())
    base = product(baselines) if named_baseline else identity(size)
    return int((base - product(spans)).rank())


CLAIMS: tuple[Claim, ...] = (write_columns, write_rank, spans_add, tokens_times_loops)
