"""G1 and G2: when a softmax head is silent, and the output gate that starts half open."""

import itertools
import math

import torch
from sympy import (
    Eq,
    Expr,
    Rational,
    Symbol,
    diff,
    exp,
    limit,
    oo,
    simplify,
    solve,
    symbols,
    sympify,
)

from lt2theory.mixers.softmax import SoftmaxAttention
from lt2theory.models import LoopedModel, presets
from lt2theory.models.block import Block
from lt2theory.ops import softmax_attention
from proofs_checks.claim import Claim, Finding, claim

_GRID = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)]


@claim(
    "G1",
    "outputs lie in the convex hull of the values",
    statement="A softmax head's output is sum p_i v_i with p_i > 0 and sum p_i = 1.",
    scope="all",
    source="derivation; LT2, section 3.4 for the sink",
    evidence="symbolic",
    hypotheses={
        "finite scores": {"a score of minus infinity": {"finite": False}},
        "exact arithmetic": {"a score of -800, rounded to float64": {"rounded": -800.0}},
    },
    mutants={
        "one more term below the line": {"extra": 1},
        "signed weights": {"sign": -1},
    },
)
def convex_hull(
    *,
    fast: bool,
    finite: bool = True,
    rounded: float | None = None,
    extra: int = 0,
    sign: int = 1,
) -> Finding:
    """Induction on the keys seen, the way an online softmax goes.

    With Z the sum of the n exponentials so far, the output after one more key is
    `(Z o + e^s v) / (Z + e^s)`: a point strictly between the last output and the new value. One
    key gives its own value.
    """
    Z, o, v = symbols("Z o v", positive=True)
    s = Symbol("s", real=True)
    new = exp(s) if finite else exp(-oo)
    # In float64 the exponential of -800 is 0.
    added = sign * (new if rounded is None else math.exp(rounded))
    output = (Z * o + added * v) / (Z + added + extra)
    past, own = (simplify(diff(output, x)) for x in (o, v))
    inside = bool(past.is_positive and own.is_positive and simplify(past + own - 1) == 0)
    begins = simplify(output.subs(Z, 0) - v) == 0
    return Finding(bool(inside and begins))


@claim(
    "G1",
    "silent if and only if 0 is inside the hull",
    statement=(
        "A head can be silent only if 0 lies in the convex hull of the values that it sees; and "
        "exactly silent if and only if 0 lies in the relative interior (cancelling values)."
    ),
    scope="all 729 triples of values in {-1, 0, 1}^2; the op in float64 on the silent ones",
    source="derivation; Stiemke's lemma for the alternative",
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "for exactly silent, finite scores": {
            "scores of minus infinity, so that a sink at the edge is enough": {"finite": False}
        },
    },
    where=(
        "at the edge of the hull, as with a sink v = 0 beside others on one side, the output only "
        "tends to 0 as the sink's score grows"
    ),
    mutants={"weights of any sign": {"least": -3}},
)
def silent(*, fast: bool, finite: bool = True, least: int = 1) -> Finding:
    """Of each triple exactly one is true, each shown by a witness in whole numbers.

    Positive weights cancel the values; or some direction u has u.v >= 0 for all and > 0 for one,
    so that u.o > 0 for any positive weights. Weights up to 4 and directions up to 2 suffice here.
    """
    directions = list(itertools.product(range(-2, 3), repeat=2))
    choices = list(itertools.product(range(least if finite else 0, 5), repeat=3))
    for values in itertools.product(_GRID, repeat=3):
        cancels = next((p for p in choices if any(p) and _mix(p, values) == (0, 0)), None)
        separates = any(_one_sided([u[0] * x + u[1] * y for x, y in values]) for u in directions)
        if (cancels is not None) == separates:
            return Finding(False, counterexample=f"values {values}, weights {cancels}")
        if cancels is not None and _norm(values, cancels) > 1e-15:
            return Finding(False, counterexample=f"the op on values {values}")
    # The sink: its share is e^s / (e^s + 1), the output 1 / (e^s + 1), positive for every s.
    s = Symbol("s", real=True)
    output = 1 / (exp(s) + 1)
    edge = output.is_positive and limit(output, s, oo) == 0 and solve(Eq(output, 0), s) == []
    return Finding(bool(edge))


def _mix(weights: tuple[int, ...], values: tuple[tuple[int, int], ...]) -> tuple[int, int]:
    x, y = (sum(p * v[i] for p, v in zip(weights, values, strict=True)) for i in (0, 1))
    return x, y


def _one_sided(products: list[int]) -> bool:
    return min(products) >= 0 and max(products) > 0


def _norm(values: tuple[tuple[int, int], ...], weights: tuple[int, ...]) -> float:
    """Length of the op's output with scores log p: one query after three keys, one key wide."""
    scores = torch.tensor(weights, dtype=torch.float64).log()
    q = torch.ones(1, 3, 1, 1, dtype=torch.float64)
    v = torch.tensor(values, dtype=torch.float64)[None, :, None]
    o = softmax_attention(q, scores[None, :, None, None], v, scale=1.0, backend="reference")
    return float(o[0, -1, 0].norm())


@claim(
    "G1",
    "the output gate scales any output towards 0",
    statement=(
        "With g = sigmoid(x W_g) every channel keeps its sign, is smaller than without the gate, "
        "and tends to 0 as its gate's logit falls, whatever the values."
    ),
    scope="all",
    source="LT2, section 3.4",
    evidence="symbolic",
    hypotheses={
        "finite logits": {"a logit of minus infinity": {"at": -oo}, "of infinity": {"at": oo}},
        "exact arithmetic": {"a logit of 40, rounded to float64": {"rounded": 40.0}},
        "for smaller, a channel that is not 0": {"a channel that may be 0": {"nonzero": False}},
    },
    where="one logit a head and channel, so that the channels may be scaled differently",
    mutants={
        "a gate that is not squashed": {"squashed": False},
        "a gate in (0, 2)": {"greatest": 2},
        "a gate that never shuts": {"least": Rational(1, 4)},
    },
)
def gate_shrinks(
    *,
    fast: bool,
    at: Expr | None = None,
    rounded: float | None = None,
    nonzero: bool = True,
    squashed: bool = True,
    greatest: int = 1,
    least: Expr | int = 0,
) -> Finding:
    """`0 < g < 1`, `g -> 0`: the sign of g o is that of o, and |g o| < |o| where o is not 0.

    A negative channel is the mirror image of a positive one.
    """
    logit, o = Symbol("x", real=True), Symbol("o", positive=nonzero or None, nonnegative=True)
    gate = greatest / (1 + exp(-logit)) + least if squashed else logit
    # 1 - sigmoid(x) = sigmoid(-x), which is positive.
    rest = 1 / (1 + exp(logit))
    complete = simplify(1 - gate - rest) == 0
    shuts = limit(gate * o, logit, -oo) == 0
    if at is not None:
        gate, rest = 1 / (1 + exp(-at)), 1 / (1 + exp(at))
    if rounded is not None:
        gate = sympify(1 / (1 + math.exp(-rounded)))
        rest = 1 - gate
    keeps = gate.is_positive
    shrinks = complete and (rest * o).is_positive
    return Finding(bool(keeps and shrinks and shuts))


@claim(
    "G2",
    "the gate starts at exactly one half",
    statement="Every softmax layer's output gate is exactly 1/2 in a new model, for any input.",
    scope=(
        "full, window and their hybrids with gdn; bfloat16, float32, float64; random inputs; bit "
        "for bit, where halving is exact"
    ),
    source="LT2, section 3.4; lt2theory.mixers.softmax",
    evidence="exact",
    hypotheses={
        "output_gate is on": {"no gate": {"gated": False}},
        "finite inputs": {"an infinite input": {"entry": float("inf")}},
        "W_g starts at zero": {"W_g drawn like the projections": {"deviation": 0.02}},
    },
)
def starts_half_open(
    *, fast: bool, gated: bool = True, entry: float | None = None, deviation: float = 0.0
) -> Finding:
    """The mixer's output against its projection of half of what the op read out."""
    generator = torch.Generator().manual_seed(2)
    for name in ("toy-full", "toy-window", "toy-full-gdn", "toy-full-window"):
        config = presets()[name].model_copy(update={"output_gate": gated})
        for dtype in (torch.bfloat16, torch.float32, torch.float64):
            model = LoopedModel(config).to(dtype)
            blocks = [block.mixer for block in model.blocks if isinstance(block, Block)]
            for mixer in (m for m in blocks if isinstance(m, SoftmaxAttention)):
                o = torch.randn(1, 5, 4, 16, generator=generator).to(dtype)
                x = torch.randn(1, 5, 64, generator=generator).to(dtype)
                with torch.no_grad():
                    if deviation:
                        mixer.g_proj.weight.normal_(0.0, deviation, generator=generator)
                    if entry is not None:
                        x[0, 0, 0] = entry
                    halved = mixer.o_proj((o * 0.5).flatten(-2))
                    if not torch.equal(mixer.output(o, x), halved):
                        return Finding(False, counterexample=f"{name} in {dtype}")
    return Finding(True)


CLAIMS: tuple[Claim, ...] = (convex_hull, silent, gate_shrinks, starts_half_open)
