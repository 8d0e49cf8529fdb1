"""M4: a fixed decay forgets like a power."""

import torch
from sympy import Expr, Integer, Rational, Symbol, expand, symbols

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim


@claim(
    "M4",
    "a fixed decay forgets like gamma^s",
    statement="A pair stored s tokens ago is read back as gamma^s v.",
    scope="all",
    source="derivation",
    evidence="symbolic",
    expected="holds_with_conditions",
    hypotheses={
        "|k| = 1": {"keys of squared length 2": {"squared_length": 2}},
        "the pair is written with strength one": {"written with 1/2": {"strength": Rational(1, 2)}},
        "one decay for all tokens": {
            "another decay at the next token": {"next_decay": Rational(1, 3)}
        },
        "one decay for all channels": {"a decay a channel": {"by_channel": True}},
        "later keys orthogonal to k": {"a later key that is not orthogonal": {"overlap": 1}},
        "k does not see the state before": {"a state that k sees": {"seen": 1}},
    },
    where="any other later key adds its own value and, under the delta rule, erases",
    mutants={"one power too many": {"power": 1}},
)
def forgetting(
    *,
    fast: bool,
    squared_length: int = 1,
    strength: Expr = Integer(1),  # noqa: B008 - a number
    next_decay: Expr | None = None,
    by_channel: bool = False,
    overlap: int = 0,
    seen: int = 0,
    power: int = 0,
) -> Finding:
    """Induction on s in letters, with an erasure of strength b (b = 0 is RetNet, w its write)."""
    S, j, jt, kt, vt, ut = (
        Symbol(x, commutative=False) for x in ("S", "j", "jt", "kt", "vt", "ut")
    )
    g, b, w = symbols("g b w", positive=True)
    s = Symbol("s", integer=True, nonnegative=True)
    # At age 0: the state before, as far as k sees it, and the pair itself.
    stored = expand(seen * S + strength * squared_length * vt - vt * g**power) == 0
    alpha = g if next_decay is None else next_decay
    alpha = Symbol("D", commutative=False) if by_channel else alpha
    later = alpha * S - b * alpha * j * jt * S + w * j * ut
    read = expand(expand(kt * later).subs(kt * j, overlap).subs(kt * S, g**s * vt))
    # g^(s + 1) is written as g^s g, which is what expanding leaves.
    return Finding(bool(stored and expand(read - g**s * g * vt) == 0))


@claim(
    "M4",
    "the op forgets so",
    statement="The op reads a pair stored s tokens ago back as gamma^s v.",
    scope=(
        "16 Hadamard keys of d_k = 16, gamma = 0.5, 0.9, 0.99, with and without erasure; the "
        "backends reference and chunked; error below 1e-12 for values of 1 to 7"
    ),
    source="lt2theory.ops.linear_recurrence",
    evidence="float64",
    hypotheses={
        "unit keys": {"keys of length 2": {"length": 2.0}},
        "each orthogonal to the others": {"each with half of the next": {"mixed": 0.5}},
        "under erasure beta = 1": {"beta = 1/2, erased and written": {"strength": 0.5}},
        "one decay for all tokens": {"a decay that changes once": {"changed": 0.1}},
        "one decay for all channels": {"one channel that decays faster": {"uneven": 0.1}},
        "S_0 = 0": {"a state to start from": {"start": 1.0}},
    },
    mutants={"one power too many": {"power": 1}},
)
def op_forgets(
    *,
    fast: bool,
    length: float = 1.0,
    mixed: float = 0.0,
    strength: float = 1.0,
    changed: float = 0.0,
    uneven: float = 0.0,
    start: float = 0.0,
    power: int = 0,
) -> Finding:
    """All ages at once from one state; the margin is the tolerance less the largest error."""
    hadamard = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(4):
        hadamard = torch.kron(torch.tensor([[1, 1], [1, -1]], dtype=torch.float64), hadamard)
    keys = length * (hadamard + mixed * hadamard.roll(1, 0)) / (4 * (1 + mixed**2) ** 0.5)
    values = (torch.arange(48, dtype=torch.float64).remainder(7) + 1).view(16, 3)
    k, v = keys[None, :, None], values[None, :, None]
    state = torch.full((1, 1, 16, 3), start, dtype=torch.float64)
    ages = torch.arange(15, -1, -1, dtype=torch.float64) + power
    worst = 0.0
    for gamma in (0.5, 0.9, 0.99):
        log_decay = torch.full((1, 16, 1), gamma, dtype=torch.float64).log()
        log_decay[0, 7] -= changed
        if uneven:
            log_decay = log_decay[..., None].repeat(1, 1, 1, 16)
            log_decay[..., 0] -= uneven
        for erase in (None, torch.full((1, 16, 1), strength, dtype=torch.float64)):
            for backend in ("reference", "chunked"):
                _, after = linear_recurrence(
                    k,
                    k,
                    v,
                    log_decay=log_decay,
                    beta=erase,
                    initial_state=state,
                    backend=backend,
                    return_state=True,
                )
                told = gamma ** ages[:, None] * values
                worst = max(worst, float((keys @ after[0, 0] - told).abs().max()))
    margin = 1e-12 - worst
    return Finding(margin > 0, margin=margin)


CLAIMS: tuple[Claim, ...] = (forgetting, op_forgets)
