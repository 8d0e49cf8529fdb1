"""W3 to W5: how the influence of looped windows decays with distance, exactly."""

import itertools

import numpy as np
from flint import fmpq, fmpq_mat, fmpq_poly, fmpz_poly
from sympy import Expr, Function, Rational, Symbol, cancel, diff, summation

from lt2theory.analysis import distance_quantile, influence_law, influence_mean, influence_std
from proofs_checks.claim import Claim, Finding, claim

_SOURCE = "derivation; LT2, section 3.3, for windows under loops"


@claim(
    "W3",
    "the influence law",
    statement=(
        "With residual weight a and windows of w tokens, the influence at distance delta after "
        "K = N T applications is the coefficient of z^delta in "
        "(a + (1 - a)(1 + z + ... + z^(w-1))/w)^K."
    ),
    scope="a in {0, 1/3, 1/2, 19/20}, w <= 4, K <= 5: every row of the exact matrix power",
    source=_SOURCE,
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "t > K (w - 1), away from the start": {"one token nearer to the start": {"start": -1}},
        "uniform windows": {"windows in which the own token weighs twice": {"own_weight": 2}},
        "a window includes its own token": {"windows of w tokens before the own one": {"first": 1}},
        "one residual weight at all applications": {
            "half the rest at the first one": {"same_residual": False}
        },
    },
    mutants={
        "the residual not mixed in": {"residual_counts": False},
        "K - 1 applications": {"missing": 1},
    },
)
def exact_law(
    *,
    fast: bool,
    start: int = 0,
    own_weight: int = 1,
    first: int = 0,
    same_residual: bool = True,
    residual_counts: bool = True,
    missing: int = 0,
) -> Finding:
    """Rows of the K-th power of the banded matrix, whose first windows are cut at the start."""
    weights = (fmpq(0), fmpq(1, 3)) if fast else (fmpq(0), fmpq(1, 3), fmpq(1, 2), fmpq(19, 20))
    for a, window, K in itertools.product(weights, range(1, 5), range(1, 4 if fast else 6)):
        far = K * (window - 1)
        length = far + 3
        other = a if same_residual else (1 + a) / 2
        first_layer = _layer(length, window, other, first, own_weight)
        power = _layer(length, window, a, first, own_weight) ** (K - 1) * first_layer
        law = _law(window, a if residual_counts else fmpq(0), K - missing)
        # Token t is row t - 1, so that t > K (w - 1) are the rows from K (w - 1) on.
        for row in range(max(0, far + start), length):
            for distance in range(row + 1):
                if power[row, row - distance] != law[distance]:
                    said = f"a {a}, w {window}, K {K}, token {row + 1}, distance {distance}"
                    return Finding(False, counterexample=said)
    return Finding(True, scope="a in {0, 1/3}, w <= 4, K <= 3" if fast else None)


@claim(
    "W3",
    "mean of the influence law",
    statement="The influence law has mean distance K (1 - a)(w - 1)/2.",
    scope="all",
    source=_SOURCE,
    evidence="symbolic",
    mutants={"the mean of w": {"own_token": 0}, "K squared": {"power": 2}},
)
def law_mean(*, fast: bool, own_token: int = 1, power: int = 1) -> Finding:
    """The derivative at z = 1 of f(z)^K, where f(1) = 1."""
    a, w, K = Symbol("a"), Symbol("w", integer=True, positive=True), Symbol("K", positive=True)
    mean, _ = _moments(a, w, K)
    return Finding(bool(cancel(mean - K**power * (1 - a) * (w - own_token) / 2) == 0))


@claim(
    "W3",
    "influence_law in floating point",
    statement="influence_law agrees with the exact coefficients to relative accuracy 1e-12.",
    scope="a in {0, 1/2, 19/20}, w in {1, 2, 7, 100}, K in {1, 5, 25}: every coefficient",
    source="derivation",
    evidence="float64",
    hypotheses={
        "no coefficient underflows": {
            "200 applications, and coefficients down to 1e-429": {"more": 8}
        },
    },
    mutants={"another residual weight": {"shift": 1e-6}, "another window": {"wider": 1}},
)
def law_in_floats(*, fast: bool, more: int = 1, shift: float = 0.0, wider: int = 0) -> Finding:
    """Compare with exact fractions, the smallest coefficients included."""
    errors = [0.0]
    windows, counts = ((2, 7), (25 * more,)) if fast else ((1, 2, 7, 100), (1, 5, 25 * more))
    for (a, b), window, K in itertools.product(((0, 1), (1, 2), (19, 20)), windows, counts):
        exact = np.array([_float(x) for x in _law(window, fmpq(a, b), K).coeffs()])
        measured = influence_law(window + wider, min(1.0, a / b + shift), K)
        if len(measured) != len(exact):
            return Finding(False, counterexample=f"w {window}, K {K}: {len(measured)} weights")
        with np.errstate(invalid="ignore"):
            relative = np.abs(measured / exact - 1)
        # A coefficient that is 0 in floating point is lost altogether.
        errors.append(float(np.nan_to_num(relative, nan=1.0).max()))
        mean = float(exact @ np.arange(len(exact)))
        errors.append(abs(influence_mean(window, a / b, K) - mean) / max(1.0, mean))
    margin = 1e-12 - max(errors)
    return Finding(margin > 0, margin)


@claim(
    "W4",
    "'about 1.5 w whatever T'",
    statement="99 % of the influence lies within about 1.5 w tokens, whatever the number of loops.",
    correction=(
        "Corrected, at a = 0.95 and w = 100: within 107, 253, 587 tokens at K = 5, 25, 100; 1.5 w "
        "bounds the quantile up to K = 8 (147) and no longer from K = 9 on (155), because the "
        "number of hops is binomial; the mean alone, K (1 - a)(w - 1)/2, passes 1.5 w at K = 61."
    ),
    scope="a = 19/20, w = 100, K = 1..25 and 100; quantile: least distance that covers 99/100",
    source="LT2, section 3.3, on windows under loops",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "at most one hop in all": {"at most one hop in all": {"one_hop": True}},
        "at most 8 applications": {"up to K = 8": {"most": 8}},
    },
    mutants={
        "another residual weight": {"residual": (9, 10)},
        "half of the influence": {"share": (1, 2)},
    },
)
def quantile_grows(
    *,
    fast: bool,
    one_hop: bool = False,
    most: int = 25,
    residual: tuple[int, int] = (19, 20),
    share: tuple[int, int] = (99, 100),
) -> Finding:
    """All K in turn, in integers; the least that leaves 1.5 w, and the numbers of theory.md."""
    window, a, q = 100, fmpq(*residual), fmpq(*share)
    counts = [*range(1, most + 1), 100]
    by_count = {K: _quantile(_law(window, a, 1 if one_hop else K), q) for K in counts}
    broken = [K for K in counts[:-1] if by_count[K] > 3 * window // 2]
    if not broken or broken != list(range(9, most + 1)):
        return Finding(False, counterexample=f"beyond 1.5 w at {broken[:3]}")
    expected = {5: 107, 8: 147, 9: 155, 25: 253, 100: 587}
    numbers = {K: by_count[K] for K in expected}
    floats = {K: int(distance_quantile(influence_law(window, 0.95, K), 0.99)) for K in expected}
    mean = {K: K * (1 - a) * (window - 1) / 2 for K in (60, 61)}
    passes = mean[60] <= 3 * window // 2 < mean[61]
    within = {K: sum(_law(window, a, K).coeffs()[:151], fmpq(0)) for K in (8, 9)}
    said = (
        f"a = 0.95, w = 100, K = 9: distances 0..150 hold {_float(within[9]):.5f} of the influence "
        f"(K = 8: {_float(within[8]):.5f}), and 0.99 needs distance {by_count[9]}"
    )
    return Finding(numbers == expected == floats and bool(passes), counterexample=said)


@claim(
    "W5",
    "width of the influence law",
    statement=(
        "Without residuals the influence law has standard deviation sqrt(K (w^2 - 1)/12), so its "
        "width grows like sqrt(T), while its mean grows like T."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    expected="holds_with_conditions",
    hypotheses={"no residual, a = 0": {"with a residual": {"no_residual": False}}},
    mutants={
        "the width grows like T": {"power": 2},
        "a continuous window": {"discrete": 0},
    },
)
def law_width(
    *, fast: bool, no_residual: bool = True, power: int = 1, discrete: int = 1
) -> Finding:
    """First and second derivative at z = 1; the project's functions at some numbers too."""
    w, K = Symbol("w", integer=True, positive=True), Symbol("K", positive=True)
    a = Rational(0) if no_residual else Symbol("a", positive=True)
    mean, variance = _moments(a, w, K)
    holds = cancel(variance - K**power * (w**2 - discrete) / 12) == 0
    grows = cancel(mean.subs(K, 4 * K) - 4 * mean) == 0
    spread = cancel(variance.subs(K, 4 * K) - 4 * variance) == 0
    close = all(
        abs(influence_std(width, 0, count) ** 2 - count * (width**2 - 1) / 12) < 1e-9 * count
        for width, count in itertools.product((1, 2, 9), (1, 4, 30))
    )
    return Finding(bool(holds and grows and spread and close))


def _layer(length: int, window: int, a: fmpq, first: int, own_weight: int) -> fmpq_mat:
    """One application: residual and mean of the window, cut at the start of the sequence.

    Windows end `first` tokens before the own one, which counts `own_weight` times in the mean.
    """
    rows = [[fmpq(0)] * length for _ in range(length)]
    for i in range(length):
        seen = range(max(0, i - first - window + 1), i - first + 1)
        for j in seen:
            weight = own_weight if j == i else 1
            rows[i][j] += (1 - a) * weight / (len(seen) - 1 + own_weight)
        rows[i][i] += a
    return fmpq_mat(length, length, [x for row in rows for x in row])


def _law(window: int, a: fmpq, K: int) -> fmpq_poly:
    """The K-th power of the generating function, in integers over one denominator."""
    p, q = int(a.p), int(a.q)
    one = [(q - p)] * window
    one[0] += p * window
    return fmpq_poly(fmpz_poly(one) ** K, (q * window) ** K)


def _quantile(law: fmpq_poly, share: fmpq) -> int:
    """The least distance within which at least the share lies."""
    within = itertools.accumulate(law.coeffs())
    return next(distance for distance, total in enumerate(within) if total >= share)


def _moments(a: Expr, w: Expr, K: Expr) -> tuple[Expr, Expr]:
    """Mean and variance of the law, by differentiating f(z)^K at z = 1 with f(1) = 1."""
    z, j = Symbol("z"), Symbol("j", integer=True)
    f = Function("f")
    total = f(z) ** K
    one = (1 - a) / w
    first = one * summation(j, (j, 0, w - 1))
    second = one * summation(j * (j - 1), (j, 0, w - 1))

    def at_one(expression: Expr) -> Expr:
        return expression.subs([(diff(f(z), z, 2), second), (diff(f(z), z), first), (f(z), 1)])

    mean, falling = at_one(diff(total, z)), at_one(diff(total, z, 2))
    return mean, cancel(falling + mean - mean**2)


def _float(number: fmpq) -> float:
    return int(number.p) / int(number.q)


CLAIMS: tuple[Claim, ...] = (exact_law, law_mean, law_in_floats, quantile_grows, law_width)
