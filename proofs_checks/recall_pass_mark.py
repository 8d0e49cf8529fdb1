"""H2: what the pass mark of state-based recall needs."""

from sympy import Expr, Symbol, binomial, combsimp, simplify
from sympy import Rational as Q

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.recall_floors import INSTANCES, vote


@claim(
    "H2",
    "0.90 needs recall and tracking",
    statement=(
        "No rule that ignores the swaps, none that sees of them only whether they name the queried "
        "pointer, and none that follows them but sees of the memory only how many bits are 1, "
        "reaches 0.90."
    ),
    scope="all n >= 1 and m >= 5",
    source="H1; derivation",
    evidence="symbolic",
    hypotheses={
        "five pointers": {"twenty pointers": {"pointers": 20}},
        "a swap is of two different ones, each pair alike": {
            "swaps that name a pointer once in twenty": {"stays": Q(19, 20)}
        },
        "swaps independent": {"every swap is taken back by the next": {"repeated": True}},
        "distinct addresses": {"addresses that all coincide": {"same": Q(1)}},
        "uniform bits": {"19 bits of 20 are ones": {"one": Q(19, 20)}},
        "n >= 1": {"no swap": {"least_swaps": 0}},
    },
    where=INSTANCES,
    mutants={
        "a pass mark of 0.80": {"mark": Q(4, 5)},
        "a memory of one bit": {"least_bits": 1},
    },
)
def pass_mark(
    *,
    fast: bool,
    pointers: int = 5,
    stays: Expr | None = None,
    repeated: bool = False,
    same: Expr = Q(0),  # noqa: B008 - a number
    one: Expr = Q(1, 2),  # noqa: B008 - a number
    least_swaps: int = 1,
    least_bits: int = 5,
    mark: Expr = Q(9, 10),  # noqa: B008 - a number
) -> Finding:
    """Each bound falls, or stays, as n or m grows, so the smallest ones decide.

    The initial bit of the pointer, which is one of the rules that ignore the swaps, is counted for
    itself at one and two swaps, from where it falls as well.
    """
    n = Symbol("n", integer=True, nonnegative=True)
    r = Symbol("r", integer=True, nonnegative=True)
    named = Q(11, 16) + Q(5, 16) * Q(3, 5) ** n
    falls = simplify(named.subs(n, n + 1) - named).is_negative
    # Of 2 r and 2 r + 1 bits alike.
    surplus = binomial(2 * r, r) / 2 ** (2 * r + 1)
    ratio = combsimp(surplus.subs(r, r + 1) / surplus)
    falls = falls and simplify(ratio - (2 * r + 1) / (2 * r + 2)) == 0
    without = [vote(Q(1, 5) + Q(4, 5) / 2**i) for i in (least_swaps, 1, 2, 3)]
    majority = Q(1, 2) + surplus.subs(r, least_bits // 2)
    home = 1 - Q(2, pointers) if stays is None else stays
    back = Q(2, pointers * (pointers - 1))
    twice = Q(1) if repeated else home**2 + (1 - home) * back
    agree = same + (1 - same) * (one**2 + (1 - one) ** 2)
    initial = [at + (1 - at) * agree for at in (home, twice)]
    bounds = [*without, *initial, named.subs(n, least_swaps), majority]
    margin = mark - max(bounds)
    return Finding(bool(falls and margin > 0), margin=float(margin))


CLAIMS: tuple[Claim, ...] = (pass_mark,)
