"""H1: what state-based recall gives to rules that track or recall only in part."""

import itertools
from fractions import Fraction
from math import comb

from sympy import Expr, Max, Symbol, binomial, combsimp, simplify, symbols
from sympy import Rational as Q

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.swap_counting import PAIRS, Space, best_rule_with_addresses, best_rules
from tasks import create
from tasks.state_based_recall import StateBasedRecall

INSTANCES = "n swaps of five pointers into m bits, of which distinct addresses need five"
"""What the letters of H1 and H2 stand for."""


def initial_bit(n: int) -> Fraction:
    """Accuracy of answering with the bit that the queried pointer pointed to at first."""
    return Fraction(3, 5) + Fraction(2, 5 * 2**n)


def ignores_swaps(n: int) -> Fraction:
    """Accuracy of the best rule that does not see the swaps."""
    return {1: Fraction(4, 5), 2: Fraction(57, 80)}.get(n, Fraction(11, 16))


def never_named(n: int) -> Fraction:
    """Accuracy of the best rule that sees of the swaps only whether they name the pointer."""
    return Fraction(11, 16) + Fraction(5, 16) * Fraction(3, 5) ** n


def memory_majority(m: int) -> Fraction:
    """Accuracy of the commoner bit in memory."""
    even = Fraction(comb(m, m // 2), 2 ** (m + 1))
    return Fraction(1, 2) + (even if m % 2 == 0 else Fraction(comb(m - 1, m // 2), 2**m))


@claim(
    "H1",
    "floors in closed form",
    statement=(
        "For all n: the initial bit 3/5 + 2/5 2^-n; the best rule without the swaps 4/5, 57/80, "
        "then 11/16 from n = 3; knowing whether the pointer was named 11/16 + 5/16 (3/5)^n; the "
        "majority of m bits 1/2 + C(m, m/2)/2^(m+1) for even m, as of m + 1 bits."
    ),
    scope="all",
    source="derivation; Olmo Hybrid, arXiv 2604.03444, and LT2 for the task",
    evidence="symbolic",
    hypotheses={
        "five pointers": {"four pointers": {"pointers": 4}},
        "a swap is of two different ones, each pair alike": {
            "a swap may name one pointer twice": {"stays": Q(3, 5) + Q(2, 25)}
        },
        "swaps independent": {"every swap is taken back by the next": {"returns": 1}},
        "distinct addresses": {"addresses into five cells that may coincide": {"same": Q(1, 5)}},
        "uniform bits": {"biased bits": {"one": Q(3, 5)}},
        "n >= 1": {"no swap": {"first": 0}},
    },
    where=INSTANCES,
    mutants={"11/16 from two swaps on": {"settles": 2}},
)
def closed_forms(
    *,
    fast: bool,
    pointers: int = 5,
    stays: Expr | None = None,
    returns: int | None = None,
    same: Expr = Q(0),  # noqa: B008 - a number
    one: Expr = Q(1, 2),  # noqa: B008 - a number
    first: int = 1,
    settles: int = 3,
) -> Finding:
    """Where the pointer ends, then the vote weighted by that, then the binomial mean.

    A swap leaves a pointer alone with 1 - 2/k and takes it to each other place alike, so the chance
    h of being at home obeys h' = h stays + (1 - h) 2/(k (k - 1)). The vote gets
    sum_j C(4, j) max(h + j o, (4 - j) o) / 16 with o = (1 - h)/4, which is 11/16 for h <= 1/3. A
    named pointer is at home with less: (h - u)/(1 - u), u = (3/5)^n.
    """
    n = Symbol("n", positive=True, integer=True)
    stay = 1 - Q(2, pointers) if stays is None else stays
    there = Q(2, pointers * (pointers - 1)) if returns is None else returns
    home = Q(1, 5) + Q(4, 5) * Q(1, 2) ** n
    walks = simplify(home.subs(n, n + 1) - home * stay - (1 - home) * there) == 0
    begins = home.subs(n, 0) == 1
    # Elsewhere the bit is the same one by chance, or because the address is.
    guess = home + (1 - home) * (same + (1 - same) * (one**2 + (1 - one) ** 2))
    initial = simplify(guess - Q(3, 5) - Q(2, 5) / 2**n) == 0
    # Every chance of at most a third but 0 is 1/(3 + x); then the sign of each difference is known.
    x = Symbol("x", nonnegative=True)
    settled = vote(1 / (3 + x)) == vote(Q(0)) == Q(11, 16)
    few = range(first, settles)
    early = all(vote(home.subs(n, i)) == Q(str(ignores_swaps(i))) for i in few)
    early = early and home.subs(n, settles) <= Q(1, 3)
    # A named pointer: h - u <= (1 - u)/3, that is 4/5 2^-n <= 2/15 + 2/3 u. The left side falls,
    # and is below 2/15 from n = 3 on.
    u = Q(3, 5) ** n
    excess = Q(4, 5) / 2**n - Q(2, 15)
    named = all((excess - Q(2, 3) * u).subs(n, i) <= 0 for i in (1, 2)) and excess.subs(n, 3) <= 0
    knows = simplify(u + (1 - u) * Q(11, 16) - Q(11, 16) - Q(5, 16) * u) == 0
    found = (walks, begins, initial, settled, early, named, knows, _majority())
    return Finding(all(bool(x) for x in found))


def vote(home: Expr) -> Expr:
    """Best accuracy from the five pointed bits.

    Args:
        home: Chance that the pointer is where it began.

    Returns:
        The accuracy.
    """
    other = (1 - home) / 4
    total = Q(0)
    for ones in range(5):
        ahead = simplify(home + ones * other - (4 - ones) * other)
        lead = ahead if ahead.is_nonnegative else 0 if ahead.is_nonpositive else Max(ahead, 0)
        total += Q(comb(4, ones), 16) * ((4 - ones) * other + lead)
    return simplify(total)


def _majority() -> bool:
    """E max(j, m - j)/m over binomial j, m = 2r, by De Moivre's telescoping.

    (2 j - m) C(m, j) = j C(m, j) - (j + 1) C(m, j + 1), summed over j > r leaves
    (r + 1) C(m, r + 1) = r C(m, r); twice that over m 2^m is the mean surplus |2 j - m| / m.
    """
    r, j = symbols("r j", positive=True, integer=True)
    whole = binomial(2 * r, j)
    step = j * whole - (j + 1) * binomial(2 * r, j + 1)
    telescopes = combsimp(((2 * j - 2 * r) * whole - step) / whole) == 0
    left = combsimp((r + 1) * binomial(2 * r, r + 1) / binomial(2 * r, r)) == r
    # The mean of max(j, m - j)/m is 1/2 and half of the mean surplus.
    surplus = 2 * r * binomial(2 * r, r) / (2 * r * 2 ** (2 * r)) / 2
    told = binomial(2 * r, r) / 2 ** (2 * r + 1)
    return bool(telescopes and left and simplify(surplus / told) == 1)


@claim(
    "H1",
    "floors by counting, and the task's own",
    statement=(
        "The best rules of each kind, found by counting all instances, have the accuracies of the "
        "closed forms, and the task prints all of them."
    ),
    scope=(
        "every order of n <= 3 swaps, five pointed bits and query, m = 5, 6 with all addresses at "
        "n = 1; every memory of m <= 9 bits; task.floors at every stage up to 12 and in the "
        "curriculum"
    ),
    source="enumeration; tasks.state_based_recall",
    evidence="exact",
    hypotheses={
        "five pointers": {"four pointers": {"pointers": 4}},
        "a swap is of two different ones, each pair alike": {
            "swaps that all name one pointer": {"pairs": PAIRS[:4]},
            "a swap may name one pointer twice": {
                "pairs": tuple(itertools.product(range(5), repeat=2))
            },
        },
        "swaps independent": {"one swap, repeated": {"independent": False}},
        "distinct addresses": {"addresses that may coincide": {"distinct": False}},
        "uniform bits": {"twice as many ones": {"ones": 2}},
        "n >= 1": {"no swap": {"least": 0}},
    },
    where=INSTANCES,
    mutants={
        "the formula for even m at every m": {"odd": False},
        "the floor of another stage": {"shift": 1},
    },
)
def counted(
    *,
    fast: bool,
    pointers: int = 5,
    pairs: tuple[tuple[int, int], ...] = PAIRS,
    independent: bool = True,
    distinct: bool = True,
    ones: int = 1,
    least: int = 1,
    odd: bool = True,
    shift: int = 0,
) -> Finding:
    """For each kind of rule the best answer to each thing it sees, counted over all instances."""
    among = tuple(pair for pair in pairs if max(pair) < pointers)
    space = Space(among, independent, pointers, distinct, ones)
    longest = 2 if fast else 3
    for n in range(least, longest + 1):
        told = {"bit": initial_bit(n), "bits": ignores_swaps(n), "named": never_named(n)}
        found = best_rules(n, space)
        if found != told:
            return Finding(False, counterexample=f"n = {n}: {found}, not {told}")
    for m in (5,) if fast else (5, 6):
        if best_rule_with_addresses(m, space) != ignores_swaps(1):
            return Finding(False, counterexample=f"m = {m}, n = 1 with all addresses")
    for m in range(1, 10):
        each = itertools.product((0, 1), repeat=m)
        mean = Fraction(sum(max(sum(bits), m - sum(bits)) for bits in each), m * 2**m)
        half = Fraction(comb(m, m // 2), 2 ** (m + 1))
        form = memory_majority(m) if odd else Fraction(1, 2) + half
        if mean != form:
            return Finding(False, counterexample=f"m = {m}: {mean}, not {form}")
    task = create("state_based_recall")
    assert isinstance(task, StateBasedRecall)
    for n in sorted({*range(1, 13), *task.stages}):
        printed = task.floors(n)
        told = {
            "uniform": Fraction(1, 2),
            "majority": Fraction(1, 2),
            "initial_bit": initial_bit(n + shift),
            "ignores_swaps": ignores_swaps(n + shift),
            "never_named": never_named(n + shift),
            "memory_majority": memory_majority(task.num_bits(n)),
        }
        if printed.keys() != told.keys():
            return Finding(False, counterexample=f"floors are named {sorted(printed)}")
        if any(abs(printed[name] - float(told[name])) > 1e-12 for name in told):
            return Finding(False, counterexample=f"n = {n}: the task says {printed}")
    return Finding(
        True,
        scope="n <= 2; m = 5; memories of m <= 9 bits; task.floors as in full" if fast else None,
    )


CLAIMS: tuple[Claim, ...] = (closed_forms, counted)
