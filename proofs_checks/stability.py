"""S1 and S2: factors do not expand, and how states grow."""

import itertools
from collections.abc import Sequence

import torch
from flint import fmpq
from sympy import Abs, Expr, Interval, Rational, Symbol, expand, minimum, simplify, symbols

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim


@claim(
    "S1",
    "no factor expands",
    statement="|A| <= 1 in spectral norm, in either factor order, and so for any product of them.",
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "|k| = 1": {"keys of squared length 2": {"squared_length": 2}},
        "beta in [0, 2]": {
            "beta up to 5/2": {"greatest_beta": Rational(5, 2)},
            "negative beta": {"least_beta": -1},
        },
        "alpha in [-1, 1]": {
            "alpha up to 2": {"greatest_alpha": 2},
            "alpha down to -2": {"least_alpha": -2},
        },
    },
)
def contraction(
    *,
    fast: bool,
    squared_length: int = 1,
    least_beta: int = 0,
    greatest_beta: Rational | int = 2,
    least_alpha: int = -1,
    greatest_alpha: int = 1,
) -> Finding:
    """A sum of squares, with E = I - b k k^T and D as letters that do not commute.

    `x^T (I - A^T A) x = x^T (I - D^2) x + b (2 - b |k|^2) (k^T D x)^2` for A = E D; for A = D E the
    same holds of A A^T, which has the same norm. So both weights must not be negative, and those
    of D are `1 - alpha^2` on its diagonal.
    """
    k, kt, D = (Symbol(name, commutative=False) for name in ("k", "kt", "D"))
    b, a = symbols("b a", real=True)
    n = squared_length
    erase = 1 - b * k * kt
    # A^T A of E D, and A A^T of D E: in both D E E D.
    square = expand(D * erase * erase * D).subs(k * kt * k * kt, n * k * kt)
    certificate = (1 - D * D) + b * (2 - b * n) * D * k * kt * D
    identity_holds = expand(1 - square - certificate) == 0
    of_beta = minimum(b * (2 - b * n), b, Interval(least_beta, greatest_beta))
    of_alpha = minimum(1 - a**2, a, Interval(least_alpha, greatest_alpha))
    return Finding(bool(identity_holds and of_beta >= 0 and of_alpha >= 0))


@claim(
    "S2",
    "RetNet's state is bounded",
    statement=(
        "With a fixed decay gamma, |S_t| <= max_i |k_i||v_i| (1 - gamma^t)/(1 - gamma) <= "
        "max_i |k_i||v_i| / (1 - gamma), the maximum over the tokens so far; a constant pair "
        "attains the first bound."
    ),
    scope="all",
    source="derivation; RetNet, arXiv 2307.08621",
    evidence="symbolic",
    hypotheses={
        "S_0 = 0": {"a state to start from": {"empty_start": False}},
        "0 <= gamma < 1": {
            "negative gamma": {"sign": -1},
            "gamma above 1": {"shrinks": False},
        },
        "one gamma at all tokens": {"another gamma at the next token": {"fixed": False}},
        "one pair at all tokens, for the bound to be attained": {
            "a pair of the other sign next": {"constant": False}
        },
    },
    where="spectral or Frobenius norm, in which |k v^T| = |k||v|",
    mutants={"one power too few": {"power": -1}},
)
def decaying_state(
    *,
    fast: bool,
    empty_start: bool = True,
    sign: int = 1,
    shrinks: bool = True,
    fixed: bool = True,
    constant: bool = True,
    power: int = 0,
) -> Finding:
    """Induction on t: the bound B_t must satisfy `B_0 >= |S_0|` and `|gamma| B_t + M <= B_{t+1}`.

    With `S_{t+1} = gamma S_t + k v^T`, the triangle inequality does the rest; for a constant pair
    `S_t = B_t k v^T / M`, whose induction is the same equation without the absolute value.
    """
    # Every decay in (0, 1) is 1 / (1 + x); at 0 the claim reads |S_t| <= |k_t||v_t|.
    x, y = symbols("x y", positive=True)
    g = sign / (1 + x) if shrinks else 1 + x
    following = g if fixed else sign / (1 + y)
    t, M = Symbol("t", integer=True, nonnegative=True), Symbol("M", positive=True)
    start = 0 if empty_start else Symbol("s", positive=True)

    def bound(steps: Expr) -> Expr:
        return M * (1 - g ** (steps + power)) / (1 - g)

    begins = simplify(bound(t).subs(t, 0) - start) == 0
    goes_on = simplify(Abs(following) * bound(t) + M - bound(t + 1)) == 0
    attained = simplify(g * bound(t) + (M if constant else -M) - bound(t + 1)) == 0
    stays = simplify(M / (1 - g) - bound(t)).is_nonnegative
    return Finding(bool(begins and goes_on and attained and stays))


@claim(
    "S2",
    "a constant pair grows linearly without decay",
    statement="Plain linear attention fed one pair for ever has S_t = t k v^T, so |S_t| = t|k||v|.",
    scope="the op itself on k = (3, 4), v = (1, 2, 2), t = 1..64; integers are exact in float64",
    source="derivation",
    evidence="exact",
    hypotheses={
        "S_0 = 0": {"a state to start from": {"start": 1.0}},
        "no decay": {"a decay": {"decay": 0.5}},
        "no erasure": {"an erasure": {"beta": 1.0}},
        "the same pair at all tokens": {"its sign changed at every token": {"sign": -1}},
    },
)
def constant_pair(
    *,
    fast: bool,
    start: float = 0.0,
    decay: float | None = None,
    beta: float | None = None,
    sign: int = 1,
) -> Finding:
    """Both |k| = 5 and |v| = 3 are whole, so the norm `15 t` of the rank-one state is exact too."""
    key, value = torch.tensor([3.0, 4.0]).double(), torch.tensor([1.0, 2.0, 2.0]).double()
    state = torch.full((1, 1, 2, 3), start, dtype=torch.float64)
    log_decay = None if decay is None else torch.tensor([[[decay]]]).double().log()
    erase = None if beta is None else torch.tensor([[[beta]]]).double()
    for t in range(1, 17 if fast else 65):
        _, state = linear_recurrence(
            key[None, None, None],
            key[None, None, None],
            sign ** (t - 1) * value[None, None, None],
            log_decay=log_decay,
            beta=erase,
            initial_state=state,
            backend="reference",
            return_state=True,
        )
        # S v = t k |v|^2: its length over |v| is the norm of a rank-one S.
        along = (state[0, 0] @ value) / 9
        rank_one = torch.equal(state[0, 0], torch.outer(along, value))
        if not (rank_one and along.square().sum().item() == (5 * t) ** 2):
            return Finding(False, counterexample=f"t = {t}: S = {state[0, 0].tolist()}")
    return Finding(True, scope="t = 1..16" if fast else None)


Pair = tuple[tuple[int, int], tuple[int, int]]
_UNCORRELATED: tuple[Pair, ...] = (
    ((1, 2), (1, 0)), ((1, 2), (-1, 0)), ((-1, -2), (3, 1)), ((-1, -2), (-3, -1)),
)  # fmt: skip
_SAME: tuple[Pair, ...] = (((1, 2), (1, 2)), ((-1, -2), (-1, -2)), ((2, 0), (2, 0)), ((-2, 0),) * 2)


@claim(
    "S2",
    "independent zero-mean pairs grow like sqrt(t)",
    statement=(
        "For independent zero-mean pairs E|S_t|_F^2 = t E|k|^2|v|^2 under plain linear attention."
    ),
    scope="every sequence of t <= 5 pairs from four equally likely integer pairs, d_k = d_v = 2",
    source="derivation",
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "the pairs of different tokens are independent": {
            "the same pair again": {"independent": False}
        },
        "they are alike in distribution": {"a first pair of twice the size": {"first": 2}},
        "E[k v^T] = 0": {"zero-mean but v = k": {"pairs": _SAME}},
        "S_0 = 0": {"a state to start from": {"start": 1}},
    },
    where=(
        "that k and v have mean zero each is not enough: in general E|S_t|_F^2 = t E|k|^2|v|^2 + "
        "t(t-1)|E[k v^T]|_F^2, and v = k = +-1 gives S_t = t"
    ),
)
def random_pairs(
    *,
    fast: bool,
    pairs: Sequence[Pair] = _UNCORRELATED,
    independent: bool = True,
    first: int = 1,
    start: int = 0,
) -> Finding:
    """The mean over all sequences, summed state by state; the general formula on `v = k` too."""
    longest = 3 if fast else 5
    for t in range(1, longest + 1):
        energy, correlated = _moments(pairs)
        found = _mean_energy(pairs, t, independent=independent, first=first, start=start)
        if found != t * energy:
            return Finding(False, counterexample=f"t = {t}, pairs {pairs}")
        energy, correlated = _moments(_SAME)
        general = t * energy + t * (t - 1) * correlated
        if _mean_energy(_SAME, t) != general:
            return Finding(False, counterexample=f"the general formula, t = {t}")
    return Finding(True, scope=f"every sequence of t <= {longest} pairs from four, d_k = d_v = 2")


def _moments(pairs: Sequence[Pair]) -> tuple[fmpq, fmpq]:
    """E|k|^2|v|^2 and |E[k v^T]|_F^2."""
    energy = sum(sum(x * x for x in k) * sum(y * y for y in v) for k, v in pairs)
    mean = [fmpq(sum(k[i] * v[j] for k, v in pairs), len(pairs)) for i in (0, 1) for j in (0, 1)]
    return fmpq(energy, len(pairs)), sum((x * x for x in mean), fmpq(0))


def _mean_energy(
    pairs: Sequence[Pair],
    length: int,
    *,
    independent: bool = True,
    first: int = 1,
    start: int = 0,
) -> fmpq:
    """E|S_t|_F^2 over all sequences, or those that repeat one pair; every entry begins at start."""
    repeated = ((pair,) * length for pair in pairs)
    drawn = itertools.product(pairs, repeat=length) if independent else repeated
    total = count = 0
    for sequence in drawn:
        count += 1
        sizes = (first,) + (1,) * (length - 1)
        for i, j in itertools.product((0, 1), repeat=2):
            entry = start + sum(c * k[i] * v[j] for c, (k, v) in zip(sizes, sequence, strict=True))
            total += entry**2
    return fmpq(total, count)


CLAIMS: tuple[Claim, ...] = (contraction, decaying_state, constant_pair, random_pairs)
