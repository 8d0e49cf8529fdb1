"""C1: how the counted work grows with the length."""

import itertools

from sympy import Expr, Poly, Rational, Symbol, simplify, symbols

from proofs_checks.cache_models import LINEAR
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.cost_models import BLOCK, counted_flops, one_layer, predicted_flops

_COUNTED = ("full", "window", "nsa", "dsa", *LINEAR)


@claim(
    "C1",
    "pairs and steps in closed form",
    statement=(
        "Query-key pairs a head over L tokens: windows w L - w(w-1)/2 and linear mixers L steps, "
        "both linear in L; softmax and DSA's indexer L(L+1)/2, and NSA's compressed branch "
        "L^2/(2l) - L/2 + L/l, all quadratic with the leading coefficients 1/2, 1/2, 1/(2l)."
    ),
    scope="all",
    source="derivation from the definitions; 'counted FLOPs of the models' runs the mixers",
    evidence="symbolic",
    hypotheses={
        "windows: L >= w": {"windows from the first token": {"long_enough": False}},
        "NSA: l divides L": {"lengths between blocks": {"over": 1}},
        "a query sees itself and what is before it": {
            "queries do not see themselves": {"own_token": False},
            "queries see all tokens": {"causal": False},
        },
        "of blocks it sees the complete ones": {
            "incomplete blocks are seen": {"complete_blocks": False}
        },
    },
)
def closed_forms(
    *,
    fast: bool,
    long_enough: bool = True,
    over: int = 0,
    own_token: bool = True,
    causal: bool = True,
    complete_blocks: bool = True,
) -> Finding:
    """Induction on L: a closed form is right at its start and gains what the next query sees.

    NSA's goes up by blocks: of the l queries after m blocks all see m, and the last one m + 1.
    """
    L, w, block, m = symbols("L w l m", positive=True, integer=True)
    window = w * L - w * (w - 1) / 2
    # At L = w every query has seen all tokens before it.
    first = w if long_enough else 0
    begun = window.subs(L, first) - (w * (w + 1) / 2 if long_enough else 0)
    full = L * (L + 1) / 2
    seen = (L + 1 if own_token else L) + (0 if causal else L)
    compressed = L**2 / (2 * block) - L / 2 + L / block
    gained = m * block + 1 if complete_blocks else (m + 1) * block
    zeros = (
        begun,
        window.subs(L, L + 1) - window - w,
        full.subs(L, 0),
        full.subs(L, L + 1) - full - seen,
        compressed.subs(L, 0),
        compressed.subs(L, (m + 1) * block) - compressed.subs(L, m * block) - gained,
        compressed.subs(L, m * block + over) - compressed.subs(L, m * block) - over * m,
    )
    grows = {window: (1, w), full: (2, Rational(1, 2)), compressed: (2, 1 / (2 * block))}
    right = all(_leading(form, L) == expected for form, expected in grows.items())
    return Finding(right and all(simplify(zero) == 0 for zero in zeros))


def _leading(form: Expr, length: Symbol) -> tuple[int, Expr]:
    """Degree and leading coefficient in the length."""
    polynomial = Poly(form, length)
    return polynomial.degree(), polynomial.LC()


@claim(
    "C1",
    "where NSA's quadratic part takes over",
    statement=(
        "L^2/(2l), the compressed branch, equals L(Sl + w), the selected and window branches, at "
        "L = 2l(Sl + w): 196,608 tokens for l = 64, S = 16, w = 512."
    ),
    scope="all l, S, w for the leading terms; pair by pair at the given sizes; by formula",
    source="derivation; NSA, arXiv 2502.11089",
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "leading terms in L": {
            "every pair counted, at exactly that length": {"leading_terms": False}
        },
    },
    where=(
        "counted pair by pair, with early queries that see less, the compressed branch is ahead "
        "from L = 196,244 at these sizes"
    ),
    mutants={"selected blocks counted as tokens": {"tokens_a_block": 1}},
)
def takes_over(
    *, fast: bool, tokens_a_block: int | None = None, leading_terms: bool = True
) -> Finding:
    """The equation in letters, the number, and the count query by query."""
    L, block, chosen, w = symbols("L l S w", positive=True)
    at = 2 * block * (chosen * (tokens_a_block or block) + w)
    equal = simplify((L**2 / (2 * block) - L * (chosen * block + w)).subs(L, at)) == 0
    number = at.subs({block: 64, chosen: 16, w: 512}) == 196_608
    crossed = _first_above(64, 16, 512)
    near = crossed == (196_244 if leading_terms else 196_608)
    return Finding(bool(equal and number and near))


def _first_above(block: int, chosen: int, window: int) -> int:
    """The least L at which the compressed branch has more pairs than the other two, summed up."""
    ahead, length = 0, 0
    while ahead <= 0:
        length += 1
        ahead += length // block - min(length, chosen * block) - min(length, window)
    return length


@claim(
    "C1",
    "counted FLOPs of the models",
    statement=(
        "Matrix-product FLOPs counted by torch in looped models: linear in L for the linear "
        "mixers and the window, quadratic for softmax, with L^2 pairs, for NSA, with L^2/l, and "
        "for DSA, with the L^2/2 of its indexer, T times one loop; accumulate has T(T+1)/2 factor "
        "steps a token."
    ),
    scope=(
        f"{', '.join(_COUNTED)}, T = 1..3, both loop states, L from 4 to 12 (token loop, every "
        "product predicted) and 64 to 384 (chunked, second differences); elementwise work and the "
        "choice of the highest scores are not counted"
    ),
    source="torch.utils.flop_counter on lt2theory.models",
    evidence="exact",
    hypotheses={
        "L >= 2w": {"windows as long as the shortest text": {"window": 64}},
        "L >= Sl": {"more blocks than the shortest text has": {"num_blocks": 8}},
        "DSA attends to few of the keys": {"to as many as the shortest text has": {"top_k": 64}},
        "lengths apart by a multiple of the backend's blocks": {
            "lengths between blocks": {"step": 40}
        },
        "a counter that ignores that attention is causal": {
            "a counter that knows of causality": {"causal": True}
        },
        "the read-out to the vocabulary is not counted": {
            "the whole model counted": {"whole": True}
        },
    },
    mutants={
        "softmax said to be linear": {"linear": _COUNTED},
        "NSA said to be linear": {"linear": ("window", "nsa", *LINEAR)},
        "DSA said to be linear": {"linear": ("window", "dsa", *LINEAR)},
        "accumulate said to take T factor steps": {"steps": "T"},
        "one loop counted": {"loops": "1"},
    },
)
def counted(
    *,
    fast: bool,
    window: int = 32,
    num_blocks: int = 4,
    top_k: int = 4,
    step: int = 64,
    causal: bool = False,
    whole: bool = False,
    linear: tuple[str, ...] = ("window", *LINEAR),
    steps: str = "T(T+1)/2",
    loops: str = "T",
) -> Finding:
    """Second differences of the chunked backends, and every product of the token loops."""
    lengths = [64 + i * step for i in range(3 if fast else 6)]
    for name in _COUNTED:
        model = one_layer(name, 1, "rescan", "chunked", window, num_blocks=num_blocks, top_k=top_k)
        counts = [counted_flops(model, n, causal=causal, whole=whole) for n in lengths]
        slopes = [b - a for a, b in itertools.pairwise(counts)]
        bends = [b - a for a, b in itertools.pairwise(slopes)]
        # Scores and mixtures: 2 (k + v) FLOPs a pair and head, 2 heads of 8.
        pairs = step**2 // BLOCK if name == "nsa" else step**2
        bend = 0 if name in linear else 2 * (2 * 2 * (8 + 8)) * pairs
        if name == "dsa" and bend:  # 2 (i + 1) a pair and index head, 3 heads of 5, L^2/2 pairs
            bend = 3 * 2 * (5 + 1) * pairs
        if bends != [bend] * len(bends):
            return Finding(False, counterexample=f"{name}: {counts} FLOPs at L = {lengths}")
        for state in ("rescan", "accumulate"):
            if state == "accumulate" and name not in LINEAR:
                continue
            for num_loops in (1, 2) if fast else (1, 2, 3):
                model = one_layer(name, num_loops, state, "reference", 3)
                for length in (6,) if fast else (4, 12):
                    told = predicted_flops(model, length, steps)
                    told = told // num_loops if loops == "1" else told
                    seen = counted_flops(model, length, causal=causal, whole=whole)
                    if seen != told:
                        said = f"{name}, {state}, T = {num_loops}, L = {length}: {seen}, not {told}"
                        return Finding(False, counterexample=said)
    return Finding(
        True, scope="T = 1, 2; L = 6 by the token loop and 64, 128, 192 by chunks" if fast else None
    )


CLAIMS: tuple[Claim, ...] = (closed_forms, takes_over, counted)
