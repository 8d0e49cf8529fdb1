"""R3: the spectrum for orthogonal keys, and what the entropy rank makes of it."""

import random

import torch
from flint import fmpq
from sympy import diff, expand, limit, log

from lt2theory.analysis import compose_factors, effective_rank
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import identity, random_column
from proofs_checks.exact_vectors import from_roots, norm2
from proofs_checks.letters import letters, scalars, vanishes
from proofs_checks.loops import (
    Gates,
    Loops,
    loops,
    random_decays,
    random_orthogonal_columns,
    random_strength,
)


@claim(
    "R3",
    "orthogonal keys are singular vectors",
    statement=(
        "For orthogonal keys I - A_T...A_1 = sum beta_i k_i k_i^T, and k_i is a singular vector "
        "with singular value |beta_i| |k_i|^2; the rest of the space is its kernel."
    ),
    scope="all",
    source="derivation: R1 with stril(K^T K) = 0; LT2, App. B.1 has the rank",
    evidence="symbolic",
    hypotheses={
        "no gates": {"a gate": {"gated": True}},
        "keys pairwise orthogonal": {"keys of any angle": {"orthogonal": False}},
    },
    where="any beta and any lengths, zeros included",
    mutants={"lengths left out": {"length_counts": False}},
)
def orthogonal_keys(
    *, fast: bool, orthogonal: bool = True, length_counts: bool = True, gated: bool = False
) -> Finding:
    """Induction on T in letters: K, B stand for the keys so far, k for the next of them."""
    K, Kt, k, kt = letters("K Kt k kt")
    B = letters("B")[0]
    b, n = scalars("b n")
    gate = scalars("g")[0] if gated else 1
    rules = {(kt, k): n}
    if orthogonal:
        rules |= {(kt, K): 0, (Kt, k): 0}
    step = (1 - b * k * kt) * gate * (1 - K * B * Kt)
    total = K * B * Kt + b * k * kt
    sums = vanishes(1 - step - total, rules)
    # The sum is symmetric, so that its square decides both singular vectors of k.
    value = b * n if length_counts else b
    own = vanishes(total * total * k - value**2 * k, rules)
    x = letters("x")[0]
    kernel = vanishes(total * x, {(Kt, x): 0, (kt, x): 0})
    return Finding(sums and own and kernel)


@claim(
    "R3",
    "orthogonal keys: the whole spectrum",
    statement=(
        "The non-zero singular values of I - A_T...A_1 are exactly |beta_i| |k_i|^2, T of them."
    ),
    scope="2,000 random rational instances, d <= 5: characteristic polynomials compared",
    source="derivation; LT2, App. B.1 has the rank",
    evidence="exact",
    hypotheses={
        "no gates": {
            "a scalar gate": {"gates": "scalar"},
            "a gate by channel": {"gates": "diagonal"},
        },
        "keys pairwise orthogonal": {"keys of any angle": {"orthogonal": False}},
        "no key zero": {"a key may be zero": {"zero_key": True}},
        "all beta non-zero": {"beta may be zero": {"zero_beta": True}},
    },
    where="so T <= d_k",
    mutants={"lengths left out": {"length_counts": False}},
)
def orthogonal_spectrum(
    *,
    fast: bool,
    orthogonal: bool = True,
    zero_key: bool = False,
    zero_beta: bool = False,
    gates: Gates = "none",
    length_counts: bool = True,
) -> Finding:
    """The characteristic polynomial of X^T X has the claimed roots, and the rank is T."""
    rng = random.Random(3)
    number = 60 if fast else 2000
    for _ in range(number):
        found = _instance(rng, orthogonal=orthogonal, gates=gates)
        keys, betas = list(found.keys), list(found.betas)
        if zero_key:
            keys[-1] = keys[-1] * 0
        if zero_beta:
            betas[0] = fmpq(0)
        found = loops(keys, betas, found.decays)
        lengths = [norm2(k) if length_counts else fmpq(1) for k in keys]
        claimed = [(b * n) ** 2 for b, n in zip(betas, lengths, strict=True)]
        X = identity(found.size) - found.effective()
        whole = from_roots(claimed + [fmpq(0)] * (found.size - found.count))
        if (X.transpose() * X).charpoly() != whole or X.rank() != found.count:
            return Finding(False, counterexample=found.written())
    return Finding(True, scope=f"{number} random rational instances, d <= 5")


def _instance(rng: random.Random, *, orthogonal: bool, gates: Gates) -> Loops:
    size = rng.randint(1, 5)
    count = rng.randint(1, size)
    if orthogonal:
        keys = random_orthogonal_columns(rng, size, count)
    else:
        keys = [random_column(rng, size) for _ in range(count)]
    betas = [random_strength(rng) for _ in keys]
    return loops(keys, betas, random_decays(rng, size, count, gates))


@claim(
    "R3",
    "entropy rank is T only for equal values",
    statement=(
        "exp H(p) <= T for p_i = s_i / sum s, with equality if and only if the T values are equal."
    ),
    scope="all",
    source="derivation: T (log T - H) = sum f(T p_i), f(x) = x log x - x + 1 >= 0, 0 only at 1",
    evidence="symbolic",
    hypotheses={"p sums to one": {"p does not sum to one": {"normalised": False}}},
    where="s_i the T singular values, not all of them zero, and 0 log 0 = 0",
    mutants={
        "T - 1 is the most": {"least": True},
        "a function with other zeros": {"strict": False},
    },
)
def entropy_rank(
    *, fast: bool, normalised: bool = True, least: bool = False, strict: bool = True
) -> Finding:
    """Sums over i are linear, so a term is expanded and its parts replaced by their sums."""
    p, T, x, H, total = scalars("p T x H total", positive=True)
    term = expand(T * p * (log(p) + log(T)) - T * p + 1)
    # sum p log p = -H, sum p = 1, sum 1 = T; the first must go before p does.
    rest = expand(term - T * p * log(p))
    summed = -T * H + rest.coeff(p, 1) * (1 if normalised else total) + T * rest.coeff(p, 0)
    bound = log(T - 1) if least else log(T)
    identity_holds = expand(summed - T * (bound - H)) == 0
    f = x * log(x) - x + 1 if strict else x * log(x) - x + 2
    at_one = f.subs(x, 1) == 0 and diff(f, x).subs(x, 1) == 0
    convex = bool(diff(f, x, 2).is_positive) and limit(f, x, 0) > 0
    return Finding(bool(identity_holds and at_one and convex))


@claim(
    "R3",
    "the analyser on orthogonal keys",
    statement=(
        "compose_factors and effective_rank give |beta_i| |k_i|^2 and an entropy rank of T if the "
        "values are equal, below T if not."
    ),
    scope="random orthogonal keys in float64, d = 8, T <= 6, tolerance 1e-12",
    source="lt2theory.analysis",
    evidence="float64",
    hypotheses={
        "no gates": {"a gate": {"gated": True}},
        "keys pairwise orthogonal": {"keys of any angle": {"orthogonal": False}},
        "equal values (for a rank of T)": {"unequal values": {"equal": False}},
    },
)
def analyser_orthogonal(
    *, fast: bool, equal: bool = True, orthogonal: bool = True, gated: bool = False
) -> Finding:
    """Orthonormal keys from a QR factorisation, scaled to any length."""
    generator = torch.Generator().manual_seed(3)
    worst = 0.0
    for count in range(2, 7):
        draw = torch.randn(8, count, generator=generator, dtype=torch.float64)
        keys = (torch.linalg.qr(draw).Q if orthogonal else draw).mT
        length = 1 + torch.rand(count, generator=generator, dtype=torch.float64)
        keys = keys * length[:, None]
        betas = 1 / length**2
        log_decays = torch.full_like(betas, -0.1) if gated else None
        ideal = _entropy(keys, betas, log_decays)
        spread = 1 + torch.arange(count, dtype=torch.float64)
        uneven = _entropy(keys, betas * spread, log_decays)
        values = compose_factors(keys, betas * spread, log_decays).correction_singular_values()
        worst = max(worst, float((values - spread.flip(0)).abs().max()))
        worst = max(worst, abs((ideal if equal else uneven) - count))
        if not uneven < count - 0.1:
            return Finding(False, counterexample=f"T = {count}: {uneven}")
    return Finding(worst < 1e-12, margin=1e-12 - worst)


def _entropy(keys: torch.Tensor, betas: torch.Tensor, log_decays: torch.Tensor | None) -> float:
    found = compose_factors(keys, betas, log_decays)
    return float(effective_rank(found.correction_singular_values()))


CLAIMS: tuple[Claim, ...] = (
    orthogonal_keys,
    orthogonal_spectrum,
    entropy_rank,
    analyser_orthogonal,
)
