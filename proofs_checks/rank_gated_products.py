"""R13: two orthogonal keys with one decay a channel, and the project's products."""

import math
import random

import torch
from flint import arb, fmpq, fmpq_mat
from sympy import Matrix, Symbol, eye, symbols

from lt2theory.analysis import compose_factors
from lt2theory.ops import linear_recurrence
from lt2theory.ops.factors import FactorOrder
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.rank_gated_wy import often_failing


@claim(
    "R13",
    "orthogonal keys never fail at T = 2",
    statement="Two orthogonal keys give rank(prod(D) - A_2 A_1) = 2, in both orders.",
    scope="all",
    source="derivation: At and B are [D k_1, k_2] or [k_1, D k_2] up to an invertible diagonal, "
    "and k^T D k > 0",
    evidence="symbolic",
    hypotheses={
        "T = 2": {"T = 3": {"third": True}},
        "keys orthogonal": {"keys of any angle": {"orthogonal": False}},
        "no key zero": {"a key may be zero": {"nonzero": False}},
        "all decays positive": {"a decay may be zero": {"positive": False}},
        "both beta non-zero": {"beta may be zero": {"zero_beta": True}},
    },
)
def orthogonal_pair(
    *,
    fast: bool,
    orthogonal: bool = True,
    positive: bool = True,
    nonzero: bool = True,
    third: bool = False,
    zero_beta: bool = False,
) -> Finding:
    """A combination that vanishes, multiplied by the key under D, has one term c k^T D k left.

    So At and B have full column rank, and the correction At M B^T has rank 2 if M is invertible.
    """
    k, kt, other, D, third_key = letters("k kt m D x")
    c, e, f = scalars("c e f")
    combination = c * D * k + e * other + (f * D * third_key if third else 0)
    rules = {(kt, other): 0, (kt, third_key): 0} if orthogonal else {}
    left = vanishes(kt * combination - c * kt * D * k, rules)
    # k^T D k = sum d_i k_i^2: no term is negative, and one with k_i non-zero is positive.
    d = Symbol("d", positive=True) if positive else Symbol("d", nonnegative=True)
    some = Symbol("s", real=True, nonzero=True) if nonzero else Symbol("s", real=True)
    any_entry = Symbol("y", real=True)
    definite = bool((d * some**2).is_positive) and bool((d * any_entry**2).is_nonnegative)
    # M = (I + diag(beta) L)^-1 diag(beta) has determinant b_1 b_2, whatever L_21.
    b = symbols("b1 b2", real=True, nonzero=None if zero_beta else True)
    strength, below = Matrix.diag(*b), Matrix([[0, 0], [Symbol("l"), 0]])
    core = (eye(2) + strength * below).inv() * strength
    return Finding(left and definite and bool(core.det().is_nonzero))


@claim(
    "R13",
    "the analyser and the op form these products",
    statement=(
        "compose_factors has diagonal prod(D) and correction At M B^T of the exact rank, and "
        "linear_recurrence from S = I with v = 0 ends in A_T...A_1, in both orders."
    ),
    scope="60 random instances, d <= 4, T <= 4, float64 against rationals, tolerance 1e-12",
    source="lt2theory.analysis, lt2theory.ops",
    evidence="float64",
    hypotheses={
        "the op's order named as in the product": {"the other order": {"same_order": False}},
        "later factors on the left": {"factors backwards": {"backwards": True}},
    },
    where="any decays, zero included",
)
def project_products(*, fast: bool, same_order: bool = True, backwards: bool = False) -> Finding:
    """The exact transition, rounded, beside both; ranks at a tolerance of 1e-9."""
    rng = random.Random(131)
    number = 20 if fast else 60
    worst = 0.0
    for _ in range(number):
        found = often_failing(rng)
        order: FactorOrder = "decay_first"
        if (found.order == "erase_first") == same_order:
            order = "erase_first"
        keys = torch.stack([_vector(k.entries()) for k in found.keys])
        betas, logs = (
            _vector(found.betas),
            torch.stack([_vector(_diagonal(decay)).log() for decay in found.decays]),
        )
        if backwards:
            keys, betas, logs = keys.flip(0), betas.flip(0), logs.flip(0)
        exact = torch.stack([_vector(row) for row in found.effective().tolist()])
        size = max(1.0, float(exact.abs().max()))
        composed = compose_factors(keys, betas, logs, order)
        _, state = linear_recurrence(
            keys.new_zeros(1, 1, 1, found.size),
            keys[None, None, :, None],
            keys.new_zeros(1, 1, found.count, 1, found.size),
            log_decay=logs[None, None, :, None],
            beta=betas[None, None, :, None],
            initial_state=torch.eye(found.size, dtype=torch.float64)[None, None],
            order=order,
            return_state=True,
        )
        for other in (composed.to_dense(), state[0, 0]):
            worst = max(worst, _largest(other - exact) / size)
        base = _vector(_diagonal(found.baseline()))
        worst = max(worst, _largest(composed.diagonal - base))
        if worst > 1e-12 or int(composed.rank(1e-9)) != found.correction().rank():
            return Finding(False, margin=1e-12 - worst, counterexample=found.written())
    scope = f"{number} random instances, d <= 4, T <= 4, float64 against rationals, 1e-12"
    return Finding(True, margin=1e-12 - worst, scope=scope)


def _largest(error: torch.Tensor) -> float:
    """The largest size; a decay of zero has the log -inf, and a NaN from it must not pass."""
    return float(error.abs().nan_to_num(nan=math.inf).max())


def _diagonal(decay: fmpq_mat) -> list[fmpq]:
    return [decay[i, i] for i in range(int(decay.nrows()))]


def _vector(entries: object) -> torch.Tensor:
    assert isinstance(entries, (list, tuple))
    return torch.tensor([float(arb(x).mid()) for x in entries], dtype=torch.float64)


CLAIMS: tuple[Claim, ...] = (orthogonal_pair, project_products)
