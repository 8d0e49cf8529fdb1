"""R4: how small the last singular value can be."""

import random

import torch
from flint import arb, fmpq

from lt2theory.analysis import compose_factors, effective_rank
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, identity, random_column
from proofs_checks.letters import letters, reduced, vanishes
from proofs_checks.loops import (
    Gates,
    Loops,
    from_roots,
    loops,
    lower_part,
    random_decays,
    random_strength,
    squared_singular_values,
)


@claim(
    "R4",
    "the pseudo-inverse behind the bound",
    statement=(
        "(K M K^T)^+ = K G^-1 N G^-1 K^T with G = K^T K and N = M^-1, and K G^-1 has norm "
        "1 / sigma_min(K); so sigma_T(I - A_T...A_1) >= sigma_min(K)^2 / |N|."
    ),
    conditions=(
        "keys independent (else the bound is 0), all beta non-zero, N = diag(1/beta) + "
        "stril(K^T K); sigma_T = 1 / |pseudo-inverse|"
    ),
    scope="all",
    source="derivation from R1; Penrose 1955 for the four equations",
    evidence="symbolic",
    mutants={
        "keys dependent, G without inverse": {"independent": False},
        "beta zero, M without inverse": {"invertible": False},
        "the Gram matrix left out": {"gram": False},
    },
)
def pseudo_inverse(
    *, fast: bool, independent: bool = True, invertible: bool = True, gram: bool = True
) -> Finding:
    """Penrose's equations, and (K G^-1)^T (K G^-1) = G^-1, by rewriting letters."""
    K, Kt, G, R, M, N = letters("K Kt G R M N")
    rules = {(Kt, K): G}
    if independent:
        rules |= {(G, R): 1, (R, G): 1}
    if invertible:
        rules |= {(M, N): 1, (N, M): 1}
    Mt, Nt = letters("Mt Nt")
    if invertible:
        rules |= {(Mt, Nt): 1, (Nt, Mt): 1}
    X, Xt = K * M * Kt, K * Mt * Kt
    P, Pt = K * R * N * R * Kt, K * R * Nt * R * Kt
    if not gram:
        P, Pt = K * N * Kt, K * Nt * Kt
    norm_of_KR = vanishes(R * Kt * K * R - R, rules)
    penrose = (
        vanishes(X * P * X - X, rules)
        and vanishes(P * X * P - P, rules)
        and vanishes(X * P - Pt * Xt, rules)
        and vanishes(P * X - Xt * Pt, rules)
    )
    # A last guard: X P is the projection on the keys, and not a rule's accident.
    projects = vanishes(reduced(X * P, rules) - K * R * Kt)
    return Finding(norm_of_KR and penrose and projects)


@claim(
    "R4",
    "lower bound of the last singular value",
    statement=(
        "sigma_T(I - A_T...A_1) >= sigma_min(K)^2 / |diag(1/beta) + stril(K^T K)|_2, an equality "
        "at T = 1."
    ),
    conditions="no gates; all beta non-zero",
    scope="400 random rational instances, 2 <= T <= d <= 4, keys not orthogonal; T = 1 exactly",
    source="derivation",
    evidence="ball",
    mutants={
        "beta may be zero (its 1/beta left out)": {"zero_beta": True},
        "the largest value of K": {"largest": True},
        "the coupling left out": {"coupled": False},
        "a gate": {"gates": "scalar"},
        "no square": {"squared": False},
    },
)
def last_singular_value(
    *,
    fast: bool,
    zero_beta: bool = False,
    largest: bool = False,
    coupled: bool = True,
    gates: Gates = "none",
    squared: bool = True,
) -> Finding:
    """All three numbers are roots of rational polynomials, enclosed in balls."""
    return bound_holds(
        40 if fast else 400,
        zero_beta=zero_beta,
        largest=largest,
        coupled=coupled,
        gates=gates,
        squared=squared,
    )


def bound_holds(
    number: int,
    *,
    zero_beta: bool = False,
    largest: bool = False,
    coupled: bool = True,
    gates: Gates = "none",
    squared: bool = True,
    with_gate: bool = False,
) -> Finding:
    """Compare both sides of R4 on random instances.

    Args:
        number: How many.
        zero_beta: Let the first beta be zero.
        largest: Use the largest singular value of K.
        coupled: Whether stril(K^T K) is there.
        gates: Gates of the instances.
        squared: Whether the value of K is squared.
        with_gate: Whether the bound carries the product of the (scalar) decays, and the baseline.
    """
    rng = random.Random(4)
    margin = arb("inf")
    for _ in range(number):
        found = _independent(rng, zero_beta=zero_beta, gates=gates)
        scale = found.baseline()[0, 0] if with_gate else fmpq(1)
        X = identity(found.size) * scale - found.effective()
        G = found.stacked.transpose() * found.stacked
        N = diagonal([1 / b if b != 0 else 0 for b in found.betas])
        if coupled:
            N = N + lower_part(G)
        of_keys = squared_singular_values(found.stacked)
        of_key = of_keys[0 if largest else -1]
        power = of_key if squared else of_key.sqrt()
        bound = scale * power / squared_singular_values(N)[0].sqrt()
        last = squared_singular_values(X)[found.count - 1]
        ratio = last.sqrt() / bound if last > 0 else arb(0)
        if not ratio > 1:
            return Finding(False, counterexample=found.written())
        margin = ratio - 1 if ratio - 1 < margin else margin
    key = column([1, 2])
    one = identity(2) - loops([key], [fmpq(1, 3)]).effective()
    at_one = (one.transpose() * one).charpoly() == from_roots([fmpq(0), fmpq(5, 3) ** 2])
    said = (
        f"{number} random rational instances, 2 <= T <= d <= 4, keys not orthogonal; T = 1 exactly"
    )
    return Finding(at_one, margin=float(margin.lower()), scope=said)


def _independent(rng: random.Random, *, zero_beta: bool, gates: Gates) -> Loops:
    while True:
        size = rng.randint(2, 4)
        count = rng.randint(2, size)
        keys = [random_column(rng, size) for _ in range(count)]
        betas = [random_strength(rng) for _ in keys]
        if zero_beta:
            betas[0] = fmpq(0)
        found = loops(keys, betas, random_decays(rng, size, count, gates))
        # Orthogonal keys can attain the bound, and balls cannot tell equality.
        orthogonal = lower_part(found.stacked.transpose() * found.stacked).rank() == 0
        if found.stacked.rank() == count and not orthogonal:
            return found


@claim(
    "R4",
    "rank T can be invisible",
    statement=(
        "Two unit keys 0.1 degrees apart have rank 2 exactly, but sigma_2 / sigma_1 < 1e-5: the "
        "threshold rank is 1 and the entropy rank below 1.001."
    ),
    conditions="keys nearly parallel",
    scope="keys (1, 0) and (999999, 2000)/1000001, beta = 1",
    source="derivation: sigma_1 sigma_2 = |det| = beta_1 beta_2 sin^2 (R12)",
    evidence="exact",
    mutants={"keys far apart": {"tangent": (1, 2)}, "the same key": {"tangent": (0, 1)}},
)
def invisible_rank(*, fast: bool, tangent: tuple[int, int] = (1, 1000)) -> Finding:
    """`sigma_1^2 sigma_2^2 = det^2` and `sigma_1^2 >= |X|_F^2 / 2` bound the ratio rationally."""
    t = fmpq(*tangent)
    second = column([(1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)])
    X = identity(2) - loops([column([1, 0]), second], [1, 1]).effective()
    frobenius = sum((x * x for x in X.entries()), fmpq(0))
    ratio2 = 4 * X.det() ** 2 / frobenius**2
    keys = [[1.0, 0.0], [float(arb(x)) for x in second.entries()]]
    tensor = torch.tensor(keys, dtype=torch.float64)
    values = compose_factors(tensor, torch.ones(2, dtype=torch.float64))
    spectrum = values.correction_singular_values()
    blind = float(effective_rank(spectrum, "threshold")) == 1
    blind = blind and float(effective_rank(spectrum)) < 1.001
    exact = X.rank() == 2 and ratio2 < fmpq(1, 10**5) ** 2
    return Finding(exact and blind, margin=float(arb(fmpq(1, 10**5) ** 2 - ratio2)))


CLAIMS: tuple[Claim, ...] = (pseudo_inverse, last_singular_value, invisible_rank)
