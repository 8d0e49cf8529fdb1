"""R6: with one decay a loop, everything said without gates holds beside the decays' product."""

import random
from typing import Literal

from flint import fmpq, fmpq_mat

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import identity, random_column
from proofs_checks.exact_vectors import from_roots, multiplied, norm2
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import (
    Loops,
    compact_core,
    loops,
    random_decays,
    random_orthogonal_columns,
    random_strength,
)
from proofs_checks.rank_bounds import bound_holds

Gates = Literal["scalar", "diagonal"]
"""No gates at all are scalar gates of 1, and leave every claim here true."""


@claim(
    "R6",
    "scalar gates factor out",
    statement=(
        "prod(alpha) I - A_T...A_1 = prod(alpha) (I - the same product without gates), so R1 to R5 "
        "hold for it, with the factor prod(alpha) in R1, R3 and R4."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "one decay a loop, equal for all channels": {"one decay a channel": {"scalar": False}},
        "the baseline is prod(alpha) I": {"baseline I": {"named_baseline": False}},
    },
    where="any decays, zero included",
    mutants={"the gate beside the erasure": {"gates_all": False}},
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
        "Of X = prod(alpha) I - A_T...A_1: X = prod(alpha) K M K^T (R1); rank T iff the keys are "
        "independent (R2); singular values prod(alpha) |beta_i| |k_i|^2 (R3); X = prod(alpha) "
        "(1 - prod(1 - beta_i |k_i|^2)) k k^T/|k|^2 (R5)."
    ),
    scope="1,500 random rational instances, d <= 4, T <= 5",
    source="derivation",
    evidence="exact",
    hypotheses={
        "one decay a loop": {"one decay a channel": {"gates": "diagonal"}},
        "later loops on the left (for R1)": {
            "later loops on the right": {"later_on_the_left": False}
        },
        "no decay zero (for R2)": {"a decay may be zero": {"zero_decay": True}},
        "all beta non-zero (for R2)": {"beta may be zero": {"zero_beta": True}},
        "keys orthogonal (for R3)": {"R3's values for any keys": {"orthogonal_for_r3": False}},
        "keys on one line (for R5)": {"R5's line for any keys": {"collinear_for_r5": False}},
    },
    mutants={"without the factor": {"with_factor": False}},
)
def with_scalar_gates(
    *,
    fast: bool,
    gates: Gates = "scalar",
    later_on_the_left: bool = True,
    zero_decay: bool = False,
    zero_beta: bool = False,
    orthogonal_for_r3: bool = True,
    collinear_for_r5: bool = True,
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
        acting = found
        if not later_on_the_left:
            acting = loops(found.keys[::-1], found.betas[::-1], found.decays[::-1])
        X = identity(found.size) * found.baseline()[0, 0] - acting.effective()
        fine = found.stacked * compact_core(found) * found.stacked.transpose() * scale == X
        fine = fine and (X.rank() == found.count) == (found.stacked.rank() == found.count)
        if turn % 3 == 1 or not orthogonal_for_r3:
            fine = fine and _has_values(X, [scale * e for e in found.erasures])
        if turn % 3 == 2 or not collinear_for_r5:
            key = found.keys[0]
            line = key * key.transpose() * (1 / norm2(key))
            fine = fine and line * (scale * (1 - multiplied([1 - e for e in found.erasures]))) == X
        if not fine:
            return Finding(False, counterexample=found.written())
    return Finding(True, scope=f"{number} random rational instances, d <= 4, T <= 5")


def _has_values(X: fmpq_mat, values: list[fmpq]) -> bool:
    """Whether these are the singular values of X, up to sign and besides zeros."""
    zeros = [fmpq(0)] * (int(X.nrows()) - len(values))
    return (X.transpose() * X).charpoly() == from_roots([value**2 for value in values] + zeros)


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
    scope="400 random rational instances, 2 <= T <= d <= 4, keys not orthogonal; T = 1 exactly",
    source="derivation",
    evidence="ball",
    hypotheses={
        "one decay a loop": {"one decay a channel": {"gates": "diagonal"}},
        "all beta non-zero": {"beta may be zero (its 1/beta left out)": {"zero_beta": True}},
    },
    where="any keys and decays: dependent ones, or a decay of zero, make the bound 0",
    mutants={"without the factor": {"with_gate": False}},
)
def bound_with_gates(
    *, fast: bool, with_gate: bool = True, gates: Gates = "scalar", zero_beta: bool = False
) -> Finding:
    """R4's check, with its factor and baseline."""
    number = 40 if fast else 400
    return bound_holds(number, gates=gates, with_gate=with_gate, zero_beta=zero_beta)


CLAIMS: tuple[Claim, ...] = (factors_out, with_scalar_gates, bound_with_gates)
