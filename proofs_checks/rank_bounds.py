"""R3 and R4: the spectrum for orthogonal keys, and how small the last singular value can be."""

import random

import torch
from flint import arb, fmpq, fmpq_mat
from sympy import diff, expand, limit, log

from lt2theory.analysis import compose_factors, effective_rank
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, diagonal, identity, random_column
from proofs_checks.letters import letters, reduced, scalars, vanishes
from proofs_checks.loops import (
    Gates,
    Loops,
    from_roots,
    loops,
    norm2,
    random_decays,
    random_orthogonal_columns,
    random_strength,
    squared_singular_values,
)


@claim(
    "R3",
    "orthogonal keys are singular vectors",
    statement=(
        "For orthogonal keys I - A_T...A_1 = sum beta_i k_i k_i^T, and k_i is a singular vector "
        "with singular value |beta_i| |k_i|^2; the rest of the space is its kernel."
    ),
    conditions="no gates; keys pairwise orthogonal",
    scope="all",
    source="derivation: R1 with stril(K^T K) = 0; LT2, App. B.1 has the rank",
    evidence="symbolic",
    mutants={
        "keys of any angle": {"orthogonal": False},
        "lengths left out": {"length_counts": False},
        "a gate": {"gated": True},
    },
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
    conditions="no gates; keys pairwise orthogonal and non-zero (so T <= d_k); all beta non-zero",
    scope="2000 random rational instances, d <= 5: characteristic polynomials compared",
    source="derivation; LT2, App. B.1 has the rank",
    evidence="exact",
    mutants={
        "keys of any angle": {"orthogonal": False},
        "a key may be zero": {"zero_key": True},
        "beta may be zero": {"zero_beta": True},
        "a gate": {"gates": "scalar"},
        "lengths left out": {"length_counts": False},
    },
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
    conditions="p sums to one",
    scope="all",
    source="derivation: T (log T - H) = sum f(T p_i), f(x) = x log x - x + 1 >= 0, 0 only at 1",
    evidence="symbolic",
    mutants={
        "p does not sum to one": {"normalised": False},
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
    conditions="keys pairwise orthogonal; no gates; equal values for a rank of T",
    scope="random orthogonal keys in float64, d = 8, T <= 6, tolerance 1e-12",
    source="lt2theory.analysis",
    evidence="float64",
    mutants={
        "unequal values": {"equal": False},
        "keys of any angle": {"orthogonal": False},
        "a gate": {"gated": True},
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
    conditions="no gates; all beta non-zero; later loops on the left",
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
            N = N + _strictly_lower(G)
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
        orthogonal = _strictly_lower(found.stacked.transpose() * found.stacked).rank() == 0
        if found.stacked.rank() == count and not orthogonal:
            return found


def _strictly_lower(G: fmpq_mat) -> fmpq_mat:
    size = int(G.nrows())
    entries = [G[i, j] if j < i else fmpq(0) for i in range(size) for j in range(size)]
    return fmpq_mat(size, size, entries)


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


CLAIMS: tuple[Claim, ...] = (
    orthogonal_keys,
    orthogonal_spectrum,
    entropy_rank,
    analyser_orthogonal,
    pseudo_inverse,
    last_singular_value,
    invisible_rank,
)
