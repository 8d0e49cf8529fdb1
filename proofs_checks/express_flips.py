"""E5: how long a flip with beta = 2 - eps lasts, and where rounding makes beta exactly 2."""

import itertools
import math

import torch
from flint import arb, fmpq
from sympy import Symbol, exp, limit, log, oo, simplify, symbols
from torch import Tensor

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim

# Format, bits after the leading one, and where 2 sigmoid(x), correctly rounded, becomes 2.
FORMATS = ((torch.bfloat16, 7, "6.24"), (torch.float16, 10, "8.32"), (torch.float32, 23, "17.33"))


@claim(
    "E5",
    "usable length of a leaky flip, asymptotically",
    statement=(
        "At beta = 2 - eps one flip keeps 1 - eps of what lies along its key, n flips (1 - eps)^n, "
        "and the length until a threshold, ln(threshold) / ln(1 - eps), is ln(1/threshold) / eps "
        "in the limit. With beta = 2 sigmoid(x), eps = 2 sigmoid(-x), and the length over e^x "
        "tends to ln(1/threshold) / 2."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "unit keys": {"keys of length sqrt 2": {"norm": 2}},
        "no decay": {"a decay of 1/2": {"alpha": 0.5}},
        "eps -> 0": {"eps -> 1/2": {"eps_to": 0.5}},
        "x -> infinity": {"x -> 3": {"x_to": 3.0}},
    },
    where="any threshold in (0,1)",
    mutants={"beta = sigmoid(x)": {"most": 1}},
)
def flip_length(
    *,
    fast: bool,
    norm: int = 1,
    alpha: float = 1.0,
    eps_to: float = 0.0,
    x_to: float = math.inf,
    most: int = 2,
) -> Finding:
    """The factor on the key's line is alpha (1 - beta |k|^2)."""
    eps, margin = symbols("eps margin", positive=True)  # margin is ln(1/threshold)
    x = Symbol("x", real=True)
    keeps = simplify(alpha * (1 - (2 - eps) * norm) + (1 - eps)) == 0
    length = -margin / log(1 - eps)
    short = limit(length * eps / margin, eps, eps_to) == 1
    missing = 2 - most / (1 + exp(-x))
    sigmoid = simplify(missing - 2 / (1 + exp(x))) == 0
    grows = limit(missing * exp(x), x, oo if math.isinf(x_to) else x_to) == 2
    return Finding(bool(keeps and short and sigmoid and grows))


@claim(
    "E5",
    "usable length of a leaky flip, bounds",
    statement=(
        "The number n of flips after which at least the threshold is left obeys "
        "(1 - eps) ln(1/threshold) / eps - 1 < n <= ln(1/threshold) / eps."
    ),
    scope="eps = 1/2^j, j = 0..9, thresholds 1/2, 1/10, 1/100; n by exact powers, bounds by balls",
    source="derivation: eps <= -ln(1 - eps) <= eps / (1 - eps)",
    evidence="ball",
    hypotheses={
        "one flip keeps 1 - eps": {
            "a flip keeps 1 - 2 eps": {"leak": 2},
            "a flip keeps 1 - eps/2": {"leak": (1, 2)},
        },
        "eps above 0": {"eps = -1/2, which grows": {"smallest": (-1, 2)}},
        "eps at most 1": {"eps = 3/2, which flips back": {"largest": (3, 2)}},
        "the threshold below 1": {"a threshold of 2": {"threshold": 2}},
    },
    where="the size of what is left counts",
)
def flip_bounds(
    *,
    fast: bool,
    leak: int | tuple[int, int] = 1,
    smallest: tuple[int, int] | None = None,
    largest: tuple[int, int] = (1, 1),
    threshold: int | None = None,
) -> Finding:
    """Margin: the least distance of n from its upper bound."""
    margin = float("inf")
    rate = fmpq(*leak) if isinstance(leak, tuple) else fmpq(leak)
    every = [fmpq(*largest), *(fmpq(1, 2**power) for power in range(1, 6 if fast else 10))]
    every += [fmpq(*smallest)] if smallest else []
    thresholds = [fmpq(1, 2), fmpq(1, 10), fmpq(1, 100)]
    thresholds += [fmpq(threshold)] if threshold else []
    for eps, least in itertools.product(every, thresholds):
        flips = _exact_flips(1 - rate * eps, least)
        ideal = arb(1 / least).log() / arb(eps)
        upper, lower = ideal - flips, flips - (arb(1 - eps) * ideal - 1)
        if not (upper >= 0 and lower > 0):
            return Finding(False, counterexample=f"eps {eps}, threshold {least}: {flips} flips")
        margin = min(margin, float(upper.lower()))
    return Finding(True, margin=margin, scope="eps = 1/2^j, j = 0..5" if fast else None)


MOST_FLIPS = 5000
"""Where counting ends, should nothing be lost."""


def _exact_flips(kept: fmpq, threshold: fmpq) -> int:
    """Flips after which at least the threshold is left, in size."""
    left, flips = abs(kept), 0
    while left >= threshold and flips < MOST_FLIPS:
        left, flips = left * abs(kept), flips + 1
    return flips


@claim(
    "E5",
    "usable length in the recurrence",
    statement=(
        "A parity tracked by linear_recurrence with beta = 2 - eps falls below the threshold after "
        "the exact number of flips, and never with beta = 2."
    ),
    scope="d_k = d_v = k = 1; eps = 1/2^j, j = 1..9; threshold 1/10; 4,096 flips; both backends",
    source="derivation",
    evidence="float64",
    hypotheses={
        "v = 0": {"v = 1": {"value": 1.0}},
        "unit keys": {"keys of length 1/2": {"key": 0.5}},
        "no decay": {"a decay of 1/2": {"decay": 0.5}},
        "the state starts at 1": {"no start": {"given": 0.0}},
    },
    mutants={"beta rounds to 2": {"rounded": True}, "twice the leak": {"leak": 2}},
)
def measured_flips(
    *,
    fast: bool,
    value: float = 0.0,
    key: float = 1.0,
    decay: float = 1.0,
    given: float = 1.0,
    rounded: bool = False,
    leak: int = 1,
) -> Finding:
    """Count the states that are at least the threshold; the exact count by rational powers."""
    most, length = (5, 512) if fast else (9, 4096)
    powers = range(1, most + 1)
    eps = torch.tensor([0.0] + [0.0 if rounded else leak * 2.0**-j for j in powers])
    eps = eps.to(torch.float64)[:, None, None, None]
    ones = torch.ones(most + 1, length, 1, 1, dtype=torch.float64)
    wanted = [length] + [_exact_flips(fmpq(2**j - 1, 2**j), fmpq(1, 10)) for j in powers]
    for backend in ("reference", "chunked"):
        state = linear_recurrence(
            ones,
            key * ones,
            value * ones,
            log_decay=math.log(decay) * ones[..., 0],
            beta=(2 - eps).expand_as(ones)[..., 0],
            initial_state=given * ones[:, :1],
            scale=1.0,
            backend=backend,
        )
        counts = (state.abs() >= 0.1).sum((1, 2, 3)).tolist()
        if counts != wanted or not torch.equal(state[0, :, 0, 0], _alternating(length)):
            return Finding(False, counterexample=f"{backend}: {counts}, exact {wanted}")
    return Finding(True, scope="j = 1..5, 512 flips, both backends" if fast else None)


def _alternating(length: int) -> Tensor:
    return 1.0 - 2.0 * ((torch.arange(length, dtype=torch.float64) + 1) % 2)


@claim(
    "E5",
    "where a correctly rounded beta is exactly 2",
    statement=(
        "2 sigmoid(x) rounds to 2 from x = 6.24 in bfloat16, 8.32 in float16 and 16.64 in float32."
    ),
    scope="the three formats, all x, thresholds to 0.01",
    source="derivation: 2 - 2 sigmoid(x) is at most half the spacing 2^-p below 2",
    evidence="ball",
    expected="holds_with_conditions",
    hypotheses={
        "float32 evaluates 1 / (1 + e^-x), whose sum rounds to 1 from ln 2^24 = 16.64 on "
        "(correctly rounded, float32 needs 17.33)": {
            "float32 from 16.64 when correctly rounded": {"float32": "16.64"}
        },
        "rounding to nearest": {"rounding towards zero": {"half": 0}},
    },
    where="correctly rounded from ln(2^(p+2) - 1) on, p bits after the leading one",
)
def correctly_rounded(*, fast: bool, float32: str = "17.33", half: int = 1) -> Finding:
    """2 sigmoid(x) >= 2 - 2^-(p+1) iff x >= ln(2^(p+2) - 1), as sigmoid increases.

    Margin: the least distance of an interval's end from its threshold.
    """
    margin = 1.0
    for dtype, bits, said in FORMATS:
        spacing = arb(2) ** (-bits - half) if half else arb(0)
        value = arb(float32 if dtype == torch.float32 else said)
        low, high = value - arb("0.01"), value + arb("0.01")
        eps_low, eps_high = (2 / (1 + x.exp()) for x in (low, high))
        formula = (arb(2) ** (bits + 2) - 1).log()
        if not (eps_low > spacing and eps_high < spacing and low < formula < high):
            return Finding(False, counterexample=f"{dtype}: {value}")
        margin = min(margin, float((formula - low).lower()), float((high - formula).lower()))
    sum_rounds = (arb(2) ** 24).log()  # e^-x <= 2^-24, half the spacing above 1
    return Finding(bool(abs(sum_rounds - arb("16.64")) < arb("0.01")), margin=margin)


@claim(
    "E5",
    "where beta is exactly 2 as the mixers compute it",
    statement=(
        "2 * torch.sigmoid(x) in float32, kept or cast, equals 2 exactly from x = 6.24 (bfloat16), "
        "8.32 (float16) and 16.64 (float32), and nowhere below."
    ),
    scope="every multiple of 1/4096 in [0, 32], on the CPU that ran the check",
    source="measured; ln 511, ln 4095, ln 2^24",
    evidence="float64",
    hypotheses={"sigmoid in float32": {"float64 instead": {"inner": torch.float64}}},
    mutants={"beta = sigmoid(x)": {"most": 1.0}},
)
def measured_rounding(
    *, fast: bool, inner: torch.dtype = torch.float32, most: float = 2.0
) -> Finding:
    """Find the least x, and that the set above it has no hole."""
    x = (torch.arange(32 * 4096 + 1, dtype=torch.float64) / 4096).to(inner)
    beta = most * torch.sigmoid(x)
    for dtype, wanted in ((torch.bfloat16, 6.24), (torch.float16, 8.32), (torch.float32, 16.64)):
        cast = beta if dtype == torch.float32 else beta.to(dtype)
        exact = (cast == 2.0).nonzero()[:, 0]
        if len(exact) == 0 or len(exact) != len(x) - int(exact[0]):
            return Finding(False, counterexample=f"{dtype}: a hole, or never")
        least = float(x[exact[0]])
        if abs(least - wanted) > 0.01:
            return Finding(False, counterexample=f"{dtype}: from {least}")
    return Finding(True)


CLAIMS: tuple[Claim, ...] = (
    flip_length,
    flip_bounds,
    measured_flips,
    correctly_rounded,
    measured_rounding,
)
