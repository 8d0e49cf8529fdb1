"""R9: what one token can write over T loops."""

import random

import torch
from flint import arb, fmpq_mat
from sympy import Mul

from lt2theory.ops import linear_recurrence
from lt2theory.ops.factors import FactorOrder
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, factor
from proofs_checks.letters import letters, scalars, vanishes


@claim(
    "R9",
    "T columns of writes",
    statement=(
        "What one token adds to the state over T loops is U V^T with T columns each, and so of "
        "rank at most T: earlier columns of U go through the later transitions, those of V stay."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "one write a loop": {"a second write, of its own key and value": {"writes": 2}},
        "the write is an outer product w k v^T": {
            "a value of its own for every channel": {"outer": False}
        },
    },
    where="any transitions; a write before its loop's transition A has the column A k in U",
    mutants={
        "later loops leave earlier writes alone": {"carried": False},
        "no column for the new write": {"appended": False},
    },
)
def write_columns(
    *, fast: bool, writes: int = 1, outer: bool = True, carried: bool = True, appended: bool = True
) -> Finding:
    """Induction on T: the state is `P S + U V^T` before the last loop."""
    A, P, S, U, Vt, k, vt, X = letters("A P S U Vt k vt X")
    w = scalars("w")[0]
    written = w * k * vt if outer else X
    for other in range(1, writes):
        written += Mul(*letters(f"k{other} vt{other}"))
    step = A * (P * S + U * Vt) + written
    claimed = (A * U if carried else U) * Vt + (k * (w * vt) if appended else 0)
    return Finding(vanishes(step - A * P * S - claimed))


@claim(
    "R9",
    "rank of the write",
    statement=(
        "The write of one token over T loops has rank at most T, and min(T, d_k, d_v) is attained; "
        "linear_recurrence gives the same state, bit for bit on integers."
    ),
    scope="1,000 random integer instances, d_k, d_v <= 4, T <= 5, both orders; T <= 4 attained",
    source="derivation; lt2theory.ops",
    evidence="exact",
    hypotheses={
        "the image of an earlier state is taken off": {"a state from before": {"taken_off": False}},
        "one write a loop": {"two writes a loop": {"writes": 2}},
        "integers below 2^53 (for the last part)": {"keys of nine digits": {"most": 10**9}},
    },
    mutants={"rank T - 1": {"fewer": 1}, "T > d_v attained": {"beyond": True}},
)
def write_rank(
    *,
    fast: bool,
    taken_off: bool = True,
    writes: int = 1,
    most: int = 2,
    fewer: int = 0,
    beyond: bool = False,
) -> Finding:
    """Small integers are exact in float64, so both states must be equal.

    Half of the instances start at zero, where there is nothing to take off.
    """
    rng = random.Random(9)
    number = 150 if fast else 1000
    attained = set()
    for turn in range(number):
        d_k, d_v, count = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 5)
        order: FactorOrder = "decay_first" if rng.random() < 0.5 else "erase_first"
        keys = [_integers(rng, d_k, most) for _ in range(count * writes)]
        values = [_integers(rng, d_v, most) for _ in keys]
        betas = [rng.choice([-1, 1, 2]) for _ in keys]
        entries = [rng.randint(-2, 2) * (turn % 2) for _ in range(d_k * d_v)]
        before = state = image = fmpq_mat(d_k, d_v, entries)
        for key, value, beta in zip(keys, values, betas, strict=True):
            step = factor(key, beta, None, order=order)
            state, image = step * state + key * value.transpose() * beta, step * image
        found = _op_state(keys, values, betas, before, order)
        if found != [[float(arb(x).mid()) for x in row] for row in state.tolist()]:
            return Finding(False, counterexample="the op's state differs")
        rank = int((state - image if taken_off else state).rank())
        if rank > count - fewer:
            said = "; ".join(
                f"{k.entries()} {v.entries()}" for k, v in zip(keys, values, strict=True)
            )
            return Finding(False, counterexample=f"keys and values {said}, beta {betas}")
        full = count if beyond else min(count, d_k, d_v)
        if rank == full:
            attained.add((d_k, d_v, full))
    # Every pair of widths with every T that fits, or, for the wrong variant, with every T.
    sizes = range(1, 3 if fast else 5)
    wanted = {(a, b, t) for a in sizes for b in sizes for t in sizes if t <= min(a, b) or beyond}
    said = f"{number} random integer instances, d_k, d_v <= 4, T <= 5; attained to {sizes[-1]}"
    return Finding(wanted <= attained, scope=said)


def _integers(rng: random.Random, size: int, most: int) -> fmpq_mat:
    while True:
        vector = [rng.randint(-most, most) for _ in range(size)]
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


CLAIMS: tuple[Claim, ...] = (write_columns, write_rank)
