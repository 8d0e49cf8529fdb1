"""S1 to S3: factors do not expand, how states grow, and the loop gate that starts shut."""

import itertools
from collections.abc import Callable, Sequence

import torch
from flint import fmpq
from sympy import Abs, Expr, Interval, Rational, Symbol, expand, minimum, simplify, symbols
from torch import Tensor, nn

from lt2theory.mixers import Stream
from lt2theory.models import LoopedModel, presets
from lt2theory.models.loop_state import LoopState
from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim


@claim(
    "S1",
    "no factor expands",
    statement="|A| <= 1 in spectral norm, in either factor order, and so for any product of them.",
    conditions="|k| = 1, beta in [0, 2], alpha in [0, 1]",
    scope="all",
    source="derivation",
    evidence="symbolic",
    mutants={
        "keys of squared length 2": {"squared_length": 2},
        "beta up to 5/2": {"greatest_beta": Rational(5, 2)},
        "negative beta": {"least_beta": -1},
        "alpha up to 2": {"greatest_alpha": 2},
        "alpha down to -2": {"least_alpha": -2},
    },
)
def contraction(
    *,
    fast: bool,
    squared_length: int = 1,
    least_beta: int = 0,
    greatest_beta: Rational | int = 2,
    least_alpha: int = 0,
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
        "max_i |k_i||v_i| / (1 - gamma), the maximum over the tokens so far; constant pairs attain "
        "the first bound."
    ),
    conditions="S_0 = 0, 0 <= gamma < 1",
    scope="all",
    source="derivation; RetNet, arXiv 2307.08621",
    evidence="symbolic",
    mutants={
        "one power too few": {"power": -1},
        "a state to start from": {"empty_start": False},
        "negative gamma": {"sign": -1},
        "gamma above 1": {"shrinks": False},
    },
)
def decaying_state(
    *, fast: bool, power: int = 0, empty_start: bool = True, sign: int = 1, shrinks: bool = True
) -> Finding:
    """Induction on t: the bound B_t must satisfy `B_0 >= |S_0|` and `|gamma| B_t + M <= B_{t+1}`.

    With `S_{t+1} = gamma S_t + k v^T`, the triangle inequality does the rest; for a constant pair
    `S_t = B_t k v^T / M`, whose induction is the same equation without the absolute value.
    """
    # Every decay in (0, 1) is 1 / (1 + x); at 0 the claim reads |S_t| <= |k_t||v_t|.
    x = Symbol("x", positive=True)
    g = sign / (1 + x) if shrinks else 1 + x
    t, M = Symbol("t", integer=True, nonnegative=True), Symbol("M", positive=True)
    start = 0 if empty_start else Symbol("s", positive=True)

    def bound(steps: Expr) -> Expr:
        return M * (1 - g ** (steps + power)) / (1 - g)

    begins = simplify(bound(t).subs(t, 0) - start) == 0
    goes_on = simplify(Abs(g) * bound(t) + M - bound(t + 1)) == 0
    attained = simplify(g * bound(t) + M - bound(t + 1)) == 0
    stays = simplify(M / (1 - g) - bound(t)).is_nonnegative
    return Finding(bool(begins and goes_on and attained and stays))


@claim(
    "S2",
    "a constant pair grows linearly without decay",
    statement="Plain linear attention fed one pair for ever has S_t = t k v^T, so |S_t| = t|k||v|.",
    conditions="S_0 = 0, no decay, no erasure",
    scope="the op itself on k = (3, 4), v = (1, 2, 2), t = 1..64; integers are exact in float64",
    source="derivation",
    evidence="exact",
    mutants={
        "a decay": {"decay": 0.5},
        "an erasure": {"beta": 1.0},
        "a state to start from": {"start": 1.0},
    },
)
def constant_pair(
    *, fast: bool, decay: float | None = None, beta: float | None = None, start: float = 0.0
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
            value[None, None, None],
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
    conditions=(
        "the pairs of different tokens are independent and alike, and E[k v^T] = 0. That k and v "
        "have mean zero each is not enough: in general E|S_t|_F^2 = t E|k|^2|v|^2 + "
        "t(t-1)|E[k v^T]|_F^2, and v = k = +-1 gives S_t = t"
    ),
    scope="every sequence of t <= 5 pairs from four equally likely integer pairs, d_k = d_v = 2",
    source="derivation",
    evidence="exact",
    expected="holds_with_conditions",
    mutants={
        "zero-mean but v = k": {"pairs": _SAME},
        "the same pair again": {"independent": False},
        "a first pair of twice the size": {"first": 2},
    },
)
def random_pairs(
    *,
    fast: bool,
    pairs: Sequence[Pair] = _UNCORRELATED,
    independent: bool = True,
    first: int = 1,
) -> Finding:
    """The mean over all sequences, summed state by state; the general formula on `v = k` too."""
    longest = 3 if fast else 5
    for t in range(1, longest + 1):
        energy, correlated = _moments(pairs)
        if _mean_energy(pairs, t, independent=independent, first=first) != t * energy:
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
    pairs: Sequence[Pair], length: int, *, independent: bool = True, first: int = 1
) -> fmpq:
    """E|S_t|_F^2 over all sequences, or over those that repeat one pair."""
    repeated = ((pair,) * length for pair in pairs)
    drawn = itertools.product(pairs, repeat=length) if independent else repeated
    total = count = 0
    for sequence in drawn:
        count += 1
        sizes = (first,) + (1,) * (length - 1)
        for i, j in itertools.product((0, 1), repeat=2):
            entry = sum(c * k[i] * v[j] for c, (k, v) in zip(sizes, sequence, strict=True))
            total += entry**2
    return fmpq(total, count)


class _Keep(nn.Module):
    """A block that changes nothing, so that the loop can be fed what a norm would spoil."""

    def forward(self, h: Tensor, mix: Callable[[nn.Module, Tensor], Tensor]) -> Tensor:
        return h


@claim(
    "S3",
    "a shut loop gate is the plain loop",
    statement=(
        "With rho = 0, where it starts, h^(tau) = F(h^(tau-1)) + rho h^(tau-1) is the plain loop."
    ),
    conditions="rho = 0, finite h: 0 times an infinity is not a number",
    scope="every preset, in float32 and float64, bit for bit; T = 2, one batch of random tokens",
    source="LT2, section 3.1",
    evidence="float64",
    mutants={"an open gate": {"rho": 1e-3}, "an infinite h": {"entry": float("inf")}},
)
def shut_gate(*, fast: bool, rho: float = 0.0, entry: float = 2.0) -> Finding:
    """The model against a loop written out here from its own blocks, which has no gate in it."""
    tokens = torch.randint(256, (2, 9), generator=torch.Generator().manual_seed(3))
    named = presets()
    for name in sorted(named)[:: 3 if fast else 1]:
        for dtype in (torch.float32, torch.float64):
            model = LoopedModel(named[name]).to(dtype).eval()
            with torch.no_grad():
                if rho:
                    model.loop_gate.fill_(rho)
                if not torch.equal(model(tokens), _plain_loop(model, tokens)):
                    return Finding(False, counterexample=f"{name} in {dtype}")
    model = LoopedModel(named["toy-gdn"])
    model.blocks = nn.ModuleList([_Keep()])
    h = torch.full((1, 1, 64), entry)
    with torch.no_grad():
        same = torch.equal(model.run_embedded(h), h)
    said = "every third preset" if fast else None
    return Finding(same, scope=said, counterexample=None if same else f"h = {entry}")


def _plain_loop(model: LoopedModel, tokens: Tensor) -> Tensor:
    positions = torch.arange(tokens.shape[1]).expand(tokens.shape)
    state = LoopState(model.config, Stream(positions))
    h = model.embed(tokens)
    for loop in range(model.config.num_loops):
        for layer, block in enumerate(model.blocks):
            h = block(h, state.mix_at(layer, loop))
    return model.read_out(h)


CLAIMS: tuple[Claim, ...] = (
    contraction,
    decaying_state,
    constant_pair,
    random_pairs,
    shut_gate,
)
