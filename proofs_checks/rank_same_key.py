"""R7: what the same key in every loop gains from one decay a channel."""

import itertools
import random
from functools import reduce
from typing import Any

from flint import fmpq
from sympy import ring
from sympy.polys.domains import QQ

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, random_column
from proofs_checks.loops import ORDERS, Gates, Loops, loops, random_decays, random_strength


@claim(
    "R7",
    "identical keys and gates: the determinant",
    statement=(
        "With one key and one gate for all T = d loops, det(D^T - A_T...A_1) = (-1)^(T(T-1)/2) "
        "prod(beta) prod(k_i^2 d_i) prod_{i<j} (d_i - d_j)^2 in both orders: non-zero iff all d "
        "decays differ, k has no zero and no beta and no decay is zero."
    ),
    scope="closed identity in all beta, k and D for T = d = 1 to 4",
    source="derivation: U and V are Krylov matrices of D, and so Vandermonde",
    evidence="symbolic",
    hypotheses={
        "one key for all loops": {"keys differ": {"same_key": False}},
        "one gate for all loops": {"gates differ": {"same_gate": False}},
        "T = d": {"a loop more than channels": {"more_loops": 1}},
        "the baseline is D^T": {"baseline I": {"named_baseline": False}},
    },
    where="any beta, each loop its own",
    mutants={"no square on the differences": {"power": 1}},
)
def determinant_of_identical(
    *,
    fast: bool,
    same_key: bool = True,
    same_gate: bool = True,
    more_loops: int = 0,
    named_baseline: bool = True,
    power: int = 2,
) -> Finding:
    """Polynomials in all entries; T > 2 is left to the full run."""
    sizes = (1, 2) if fast else (1, 2, 3, 4)
    for size, order in itertools.product(sizes, ORDERS):
        count = size + more_loops
        _, *rest = ring([f"x{i}" for i in range(4 * size + count)], QQ)
        k, d, other_k, other_d = (rest[i * size : (i + 1) * size] for i in range(4))
        betas = rest[4 * size :]
        total, base = _eye(size, betas[0]), _eye(size, betas[0])
        for step, b in enumerate(betas):
            key = k if same_key or step == 0 else other_k
            gate = d if same_gate or step == 0 else other_d
            erase = [[(i == j) - b * key[i] * key[j] for j in range(size)] for i in range(size)]
            decay = [[gate[i] if i == j else 0 * b for j in range(size)] for i in range(size)]
            parts = (erase, decay) if order == "decay_first" else (decay, erase)
            total = _times(parts[0], _times(parts[1], total))
            base = _times(decay, base) if named_baseline else base
        found = _det([[base[i][j] - total[i][j] for j in range(size)] for i in range(size)])
        pairs = itertools.combinations(d, 2)
        strengths = reduce(lambda a, c: a * c, betas)
        gaps = reduce(lambda a, c: a * (c[0] - c[1]) ** power, pairs, strengths)
        sign = (-1) ** (count * (count - 1) // 2)
        claimed = reduce(lambda a, c: a * c[0] ** 2 * c[1], zip(k, d, strict=True), sign * gaps)
        if found != claimed:
            return Finding(False, counterexample=f"T = {count}, d = {size}, {order}")
    return Finding(True, scope=f"closed identity in all beta, k and D for T = d in {sizes}")


def _eye(size: int, like: Any) -> list[list[Any]]:
    return [[(i == j) + 0 * like for j in range(size)] for i in range(size)]


def _times(a: Any, b: Any) -> list[list[Any]]:
    size = range(len(a))
    return [[sum(a[i][m] * b[m][j] for m in size) for j in size] for i in size]


def _det(a: list[list[Any]]) -> Any:
    if len(a) == 1:
        return a[0][0]
    minors = ([row[:j] + row[j + 1 :] for row in a[1:]] for j in range(len(a)))
    return sum((-1) ** j * a[0][j] * _det(minor) for j, minor in enumerate(minors))


@claim(
    "R7",
    "identical keys and gates: the rank",
    statement=(
        "With one key and one gate for all loops, rank(D^T - A_T...A_1) = T if and only if D has "
        "at least T different non-zero decays on the support of k, in both orders."
    ),
    scope="3,000 random rational instances, d <= 5, T <= 5, few decays",
    source="derivation: Krylov spaces of D on k",
    evidence="exact",
    hypotheses={
        "one key for all loops": {"keys differ": {"same_key": False}},
        "one gate for all loops": {"gates differ": {"same_gate": False}},
        "all beta non-zero": {"beta may be zero": {"zero_beta": True}},
    },
    where="each loop its own beta",
    mutants={
        "a decay of zero counts": {"zero_counts": True},
        "decays anywhere count": {"on_support": False},
    },
)
def rank_of_identical(
    *,
    fast: bool,
    zero_beta: bool = False,
    same_key: bool = True,
    same_gate: bool = True,
    zero_counts: bool = False,
    on_support: bool = True,
) -> Finding:
    """Decays from few values, and keys with zeros, so that both answers occur."""
    rng = random.Random(7)
    number = 200 if fast else 3000
    decays = [fmpq(0), *(fmpq(1, i) for i in (1, 2, 3, 4, 5))]
    seen = set()
    for _ in range(number):
        size, count = rng.randint(1, 5), rng.randint(1, 5)
        key = column([rng.choice([0, 1, 2, -1]) for _ in range(size)])
        gate = [rng.choice(decays) for _ in range(size)]
        keys = [key] + [key if same_key else random_column(rng, size) for _ in range(count - 1)]
        gates = [diagonal(gate)] * count
        if not same_gate:
            gates = gates[:1] + random_decays(rng, size, count - 1, "diagonal")
        betas = [random_strength(rng) for _ in keys]
        if zero_beta:
            betas[0] = fmpq(0)
        found = loops(keys, betas, gates, order=rng.choice(ORDERS))
        support = [d for d, x in zip(gate, key.entries(), strict=True) if x != 0 or not on_support]
        different = len({str(d) for d in support if d != 0 or zero_counts})
        full = found.correction().rank() == count
        seen.add((full, count > 1))
        if full != (different >= count):
            return Finding(False, counterexample=found.written())
    return Finding(
        len(seen) == 4, scope=f"{number} random rational instances, d <= 5, T <= 5, few decays"
    )


@claim(
    "R7",
    "identical keys, other gates each loop",
    statement=(
        "With one key for all loops and gates of their own, rank(prod(D) - A_T...A_1) is at most "
        "min(T, number of channels on the support of k), with equality in general."
    ),
    scope="every support up to 5 of d = 5 channels, every T <= 6, both orders",
    source="derivation: minors are polynomials in the decays",
    evidence="exact",
    hypotheses={
        "one key for all loops": {"keys of their own": {"same_key": False}},
        "gates by channel (for equality)": {
            "scalar gates": {"gates": "scalar"},
            "no gates": {"gates": "none"},
        },
        "gates in general position (for equality)": {"equality for any gates": {"always": True}},
        "all beta non-zero (for equality)": {"beta may be zero": {"zero_beta": True}},
    },
    where="one instance that attains the bound shows that most do: minors are polynomials",
    mutants={"channels off the support count": {"on_support": False}},
)
def other_gates_each_loop(
    *,
    fast: bool,
    same_key: bool = True,
    gates: Gates = "diagonal",
    always: bool = False,
    zero_beta: bool = False,
    on_support: bool = True,
) -> Finding:
    """The bound holds for few decays, that often agree, and is attained by those that differ."""
    rng = random.Random(72)
    for support in range(1, 4 if fast else 6):
        key = column([i + 1 if i < support else 0 for i in range(5)])
        for count, order in itertools.product(range(1, 7), ORDERS):
            most = min(count, support if on_support else 5)
            others = [key if same_key else random_column(rng, 5) for _ in range(count - 1)]
            betas = [fmpq(0 if zero_beta else 1)] + [fmpq(1)] * (count - 1)
            ranks = []
            for _ in range(6):
                few = random_decays(rng, 5, count, gates)
                many = few
                if gates == "diagonal":
                    many = [diagonal([fmpq(1, rng.randint(1, 200)) for _ in range(5)]) for _ in few]
                for decays in (few, many):
                    found = loops([key, *others], betas, decays, order=order)
                    ranks.append(int(found.correction().rank()))
            if max(ranks) != most or (always and min(ranks) != most):
                return Finding(False, counterexample=f"support {support}, T = {count}: {ranks}")
    return Finding(True, scope=f"every support up to {support} of 5, every T <= 6, both orders")


@claim(
    "R7",
    "the same key every loop gives no gain",
    statement="With the same key in every loop the erasure stays of rank 1.",
    scope="search over d <= 2, T <= 2, both orders: unit keys (1), (1,0), (0,1), (3/5,4/5), "
    "(4/5,3/5); beta 1/2, 1, 2; decays 1, 1/2",
    source="LT2, App. B.1",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "no gates or scalar gates": {"scalar gates": {"scalar": True}},
        "a single loop": {"no second loop": {"count": 1}},
    },
    correction=(
        "true without gates and with scalar gates (R5, R6); with diagonal gates T factors of one "
        "key and one gate reach rank T iff D has T different non-zero decays on the support of k"
    ),
)
def same_key_no_gain(*, fast: bool, scalar: bool = False, count: int = 2) -> Finding:
    """The search ends at the first exception in order of d; d = 1 and T = 1 have none."""
    exceptions: list[Loops] = []
    for key in ([1], [1, 0], [0, 1], [(3, 5), (4, 5)], [(4, 5), (3, 5)]):
        size = len(key)
        gates = list(itertools.product((fmpq(1, 2), fmpq(1)), repeat=size))
        for gate, beta, order in itertools.product(gates, (fmpq(1), fmpq(1, 2), fmpq(2)), ORDERS):
            if scalar and len({str(g) for g in gate}) > 1:
                continue
            found = loops(
                [column(key)] * count, [beta] * count, [diagonal(gate)] * count, order=order
            )
            if found.correction().rank() > 1:
                exceptions.append(found)
    if not exceptions:
        return Finding(False)
    both = {found.order for found in exceptions if found.written().startswith(_FIRST)}
    first = exceptions[0]
    entries = ", ".join(str(x) for x in first.correction().entries())
    said = f"d = 2, T = 2: {first.written()} (and the other order): D^2 - A^2 = ({entries}), rank 2"
    return Finding(first.size == 2 and both == set(ORDERS), counterexample=said)


_FIRST = "keys (3/5, 4/5), (3/5, 4/5); beta 1, 1; decays diag(1/2, 1), diag(1/2, 1)"


CLAIMS: tuple[Claim, ...] = (
    determinant_of_identical,
    rank_of_identical,
    other_gates_each_loop,
    same_key_no_gain,
)
