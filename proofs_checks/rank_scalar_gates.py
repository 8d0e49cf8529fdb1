"""R6: with one decay a loop, everything said without gates holds beside the decays' product."""

import random

from flint import fmpq

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import identity, random_column
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import (
    Gates,
    Loops,
    compact_core,
    from_roots,
    loops,
    multiplied,
    norm2,
    random_decays,
    random_orthogonal_columns,
    random_strength,
)
from proofs_checks.rank_bounds import bound_holds


@claim(
    "R6",
    "scalar gates factor out",
    statement=(
        "prod(alpha) I - A_T...A_1 = prod(alpha) (I - the same product without gates), so R1 to R5 "
        "hold for it, with the factor prod(alpha) in R1, R3 and R4."
    ),
    conditions="one decay a loop, equal for all channels; the baseline is prod(alpha) I",
    scope="all",
    source="derivation",
    evidence="symbolic",
    mutants={
        "one decay a channel": {"scalar": False},
        "baseline I": {"named_baseline": False},
        "the gate beside the erasure": {"gates_all": False},
    },
)
def factors_out(
    *, fast: bool, scalar: bool = True, named_baseline: bool = True, gates_all: bool = True
) -> Finding:
    """Induction on T: P is the product without gates, g that of the earlier decays."""
    k, kt, P, D = letters("k kt P D")
    a, g, b = scalars("a g b")
    gate = a if scalar else D
    step = ((1 - b * k * kt) * gate if gates_all else gate - b * k * kt) * g * P
    baseline = gate * g if named_baseline else 1
    return Finding(vanishes(baseline - step - baseline * (1 - (1 - b * k * kt) * P)))


@claim(
    "R6",
    "the statements of R1, R2, R3 and R5 with scalar gates",
    statement=(
        "Of X = prod(alpha) I - A_T...A_1: X = prod(alpha) K M K^T; rank T iff the keys are "
        "independent; singular values prod(alpha) |beta_i| |k_i|^2 for orthogonal keys; "
        "prod(alpha) (1 - prod(1 - beta_i |k_i|^2)) k k^T/|k|^2 for collinear ones."
    ),
    conditions="one decay a loop, none of them zero (for R2); all beta non-zero (for R2)",
    scope="1,500 random rational instances, d <= 4, T <= 5",
    source="derivation",
    evidence="exact",
    mutants={
        "one decay a channel": {"gates": "diagonal"},
        "a decay may be zero": {"zero_decay": True},
        "beta may be zero": {"zero_beta": True},
        "without the factor": {"with_factor": False},
    },
)
def with_scalar_gates(
    *,
    fast: bool,
    gates: Gates = "scalar",
    zero_decay: bool = False,
    zero_beta: bool = False,
    with_factor: bool = True,
) -> Finding:
    """Independent, orthogonal and collinear keys in turn."""
    rng = random.Random(6)
    number = 90 if fast else 1500
    for turn in range(number):
        found = _keys_of_kind(rng, turn % 3, gates)
        if zero_decay:
            found = loops(found.keys, found.betas, [found.decays[0] * 0, *found.decays[1:]])
        if zero_beta:
            found = loops(found.keys, [0, *found.betas[1:]], found.decays)
        scale = found.baseline()[0, 0] if with_factor else fmpq(1)
        X = identity(found.size) * found.baseline()[0, 0] - found.effective()
        fine = found.stacked * compact_core(found) * found.stacked.transpose() * scale == X
        fine = fine and (X.rank() == found.count) == (found.stacked.rank() == found.count)
        lengths = list(found.erasures)
        if turn % 3 == 1:
            roots = [(scale * e) ** 2 for e in lengths]
            whole = from_roots(roots + [fmpq(0)] * (found.size - found.count))
            fine = fine and (X.transpose() * X).charpoly() == whole
        elif turn % 3 == 2:
            key = found.keys[0]
            line = key * key.transpose() * (1 / norm2(key))
            fine = fine and line * (scale * (1 - multiplied([1 - e for e in lengths]))) == X
        if not fine:
            return Finding(False, counterexample=found.written())
    return Finding(True, scope=f"{number} random rational instances, d <= 4, T <= 5")


def _keys_of_kind(rng: random.Random, kind: int, gates: Gates) -> Loops:
    size = rng.randint(1, 4)
    count = rng.randint(1, 5)
    if kind == 1:
        keys = random_orthogonal_columns(rng, size, min(count, size))
    elif kind == 2:
        line = random_column(rng, size)
        keys = [line * random_strength(rng) for _ in range(count)]
    else:
        keys = [random_column(rng, size) for _ in range(count)]
    betas = [random_strength(rng) for _ in keys]
    return loops(keys, betas, random_decays(rng, size, len(keys), gates))


@claim(
    "R6",
    "the bound of R4 with scalar gates",
    statement=(
        "sigma_T(prod(alpha) I - A_T...A_1) >= prod(alpha) sigma_min(K)^2 / "
        "|diag(1/beta) + stril(K^T K)|_2."
    ),
    conditions="one decay a loop; all beta non-zero",
    scope="400 random rational instances, 2 <= T <= d <= 4, keys not orthogonal; T = 1 exactly",
    source="derivation",
    evidence="ball",
    mutants={
        "without the factor": {"with_gate": False},
        "one decay a channel": {"gates": "diagonal"},
        "beta may be zero (its 1/beta left out)": {"zero_beta": True},
    },
)
def bound_with_gates(
    *, fast: bool, with_gate: bool = True, gates: Gates = "scalar", zero_beta: bool = False
) -> Finding:
    """R4's check, with its factor and baseline."""
    number = 40 if fast else 400
    return bound_holds(number, gates=gates, with_gate=with_gate, zero_beta=zero_beta)


CLAIMS: tuple[Claim, ...] = (factors_out, with_scalar_gates, bound_with_gates)
