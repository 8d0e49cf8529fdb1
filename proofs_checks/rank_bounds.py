"""R4: how small the last singular value can be."""

import random

import torch
from flint import arb, fmpq

from lt2theory.analysis import compose_factors, effective_rank
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, identity, random_column
from proofs_checks.exact_vectors import from_roots, squared_singular_values
from proofs_checks.letters import letters, reduced, scalars, vanishes
from proofs_checks.loops import (
    Gates,
    Loops,
    loops,
    lower_part,
    random_decays,
    random_strength,
)


@claim(
    "R4",
    "the pseudo-inverse behind the bound",
    statement=(
        "(K M K^T)^+ = K G^-1 N G^-1 K^T with G = K^T K and N = M^-1, and K G^-1 has norm "
        "1 / sigma_min(K); so sigma_T(I - A_T...A_1) >= sigma_min(K)^2 / |N|."
    ),
    scope="all",
    source="derivation from R1; Penrose 1955 for the four equations",
    evidence="symbolic",
    hypotheses={
        "no gates": {"a gate": {"gated": True}},
        "keys independent": {"keys dependent, G without inverse": {"independent": False}},
        "all beta non-zero": {"beta zero, M without inverse": {"invertible": False}},
    },
    where=(
        "N = diag(1/beta) + stril(K^T K), sigma_T = 1 / |pseudo-inverse|; dependent keys make the "
        "bound 0"
    ),
    mutants={"the Gram matrix left out": {"gram": False}},
)
def pseudo_inverse(
    *,
    fast: bool,
    gated: bool = False,
    independent: bool = True,
    invertible: bool = True,
    gram: bool = True,
) -> Finding:
    """Penrose's equations, and (K G^-1)^T (K G^-1) = G^-1, by rewriting letters."""
    K, Kt, G, R, M, N = letters("K Kt G R M N")
    Mt, Nt = letters("Mt Nt")
    rules = {(Kt, K): G}
    if independent:
        rules |= {(G, R): 1, (R, G): 1}
    if invertible:
        rules |= {(M, N): 1, (N, M): 1, (Mt, Nt): 1, (Nt, Mt): 1}
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
    # I - A is X, by R1; with a gate g it is 1 - g (1 - X).
    gate = scalars("g")[0] if gated else 1
    is_correction = vanishes(1 - gate * (1 - X) - X)
    return Finding(norm_of_KR and penrose and projects and is_correction)


@claim(
    "R4",
    "lower bound of the last singular value",
    statement=(
        "sigma_T(I - A_T...A_1) >= sigma_min(K)^2 / |diag(1/beta) + stril(K^T K)|_2, an equality "
        "at T = 1."
    ),
    scope="400 random rational instances, 2 <= T <= d <= 4, keys not orthogonal; T = 1 exactly",
    source="derivation",
    evidence="ball",
    hypotheses={
        "no gates": {
            "a scalar gate": {"gates": "scalar"},
            "a gate by channel": {"gates": "diagonal"},
        },
        "all beta non-zero": {"beta may be zero (its 1/beta left out)": {"zero_beta": True}},
    },
    where="any keys: dependent ones make the bound 0",
    mutants={
        "the largest value of K": {"largest": True},
        "the coupling left out": {"coupled": False},
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
        "I - A_2 A_1 of two unit keys 0.1 degrees apart has rank 2 exactly, but "
        "sigma_2 / sigma_1 < 1e-5: the threshold rank is 1 and the entropy rank below 1.001."
    ),
    scope="keys (1, 0) and (999999, 2000)/1000001, beta = 1",
    source="derivation: sigma_1 sigma_2 = |det| = beta_1 beta_2 sin^2 (R12)",
    evidence="exact",
    hypotheses={
        "no gates": {"a gate by channel": {"gated": True}},
        "keys nearly parallel": {"keys far apart": {"tangent": (1, 2)}},
        "keys not equal": {"the same key": {"same_key": True}},
        "both beta 1": {"two reflections, a small turn": {"beta": 2}},
    },
)
def invisible_rank(
    *,
    fast: bool,
    gated: bool = False,
    tangent: tuple[int, int] = (1, 1000),
    same_key: bool = False,
    beta: int = 1,
) -> Finding:
    """`sigma_1^2 sigma_2^2 = det^2` and `sigma_1^2 >= |X|_F^2 / 2` bound the ratio rationally.

    Both singular values of a small turn, the product of two reflections, are equal.
    """
    t = fmpq(0) if same_key else fmpq(*tangent)
    second = column([(1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)])
    gate = [fmpq(1), fmpq(1, 2) if gated else fmpq(1)]
    found = loops([column([1, 0]), second], [beta] * 2, [diagonal(gate)] * 2)
    X = identity(2) - found.effective()
    frobenius = sum((x * x for x in X.entries()), fmpq(0))
    ratio2 = 4 * X.det() ** 2 / frobenius**2
    keys = [[1.0, 0.0], [float(arb(x)) for x in second.entries()]]
    tensor = torch.tensor(keys, dtype=torch.float64)
    betas = torch.full((2,), float(beta), dtype=torch.float64)
    logs = torch.tensor([[float(arb(x).log()) for x in gate]] * 2, dtype=torch.float64)
    spectrum = compose_factors(tensor, betas, logs).correction_singular_values()
    blind = float(effective_rank(spectrum, "threshold")) == 1
    blind = blind and float(effective_rank(spectrum)) < 1.001
    exact = X.rank() == 2 and ratio2 < fmpq(1, 10**5) ** 2
    return Finding(exact and blind, margin=float(arb(fmpq(1, 10**5) ** 2 - ratio2)))


CLAIMS: tuple[Claim, ...] = (pseudo_inverse, last_singular_value, invisible_rank)
