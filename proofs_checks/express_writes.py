"""E7: the two ways around what diagonal transitions cannot tell apart."""

import itertools
import math

import torch
from flint import fmpq
from sympy import Integer, Rational, Symbol

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim


@claim(
    "E7",
    "writes get around it",
    statement=(
        "One decay of 1/3 for every token and written digits 1 and 2 give every word a state of "
        "its own: S -> S/3 + c keeps 0 <= S < 3, so floor(S) is the last digit, and so on back."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "decay 1/3 (1/2 is too slow, a state then has two last digits)": {
            "decay 1/2": {"inverse": 2}
        },
        "digits 1 and 2": {"digits 0 and 1": {"digits": (0, 1)}},
        "the state starts at 0": {"a start at 3/2, where the word 1 ends": {"start": (3, 2)}},
    },
)
def writes_tell_words(
    *,
    fast: bool,
    inverse: int = 3,
    digits: tuple[int, int] = (1, 2),
    start: tuple[int, int] = (0, 1),
) -> Finding:
    """With S = 3 / (1 + u) in (0, 3): the state stays below 3 and the old one is below its digit.

    A word that is not empty ends above its last digit, so not at the start if no digit is lower.
    """
    top = Integer(max(digits)) * inverse / (inverse - 1)
    u = Symbol("u", positive=True)
    carried = top / (1 + u) / inverse
    # carried lies in (0, 1), so floor(carried + c) = c; and carried + c lies in (0, top).
    below_one = (1 - carried).together().simplify().is_positive
    stays = all((top - carried - c).together().simplify().is_nonnegative for c in digits)
    leaves = all(c > Rational(*start) for c in digits)
    return Finding(bool(below_one and stays and leaves))


@claim(
    "E7",
    "diagonal models that tell ab from ba",
    statement=(
        "A looped model with diagonal transitions solves no non-abelian word problem, for any T: "
        "it cannot tell ab from ba."
    ),
    scope="two tokens, d_k = 1",
    source="the commutativity argument as it is usually quoted; derivation",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "no writes": {"nothing is written": {"digits": (0, 0)}},
        "gates that depend on the current token only": {
            "the gate of loop 2 reads the token": {"reads_state": False}
        },
    },
    mutants={"loop 1 treats a and b alike": {"gates": ((1, 2), (1, 2))}},
    correction=(
        "true of the product of factors that depend on the current token only, with the state "
        "given and no writes; false with writes, and false at T >= 2 if a gate of loop 2 reads "
        "loop 1's state"
    ),
)
def told_apart(
    *,
    fast: bool,
    reads_state: bool = True,
    digits: tuple[int, int] = (1, 2),
    gates: tuple[tuple[int, int], tuple[int, int]] = ((1, 2), (1, 3)),
) -> Finding:
    """Both ways around on the two words, by hand-sized fractions."""
    written, looped = [], []
    for word in ((0, 1), (1, 0)):
        state = fmpq(0)
        for token in word:
            state = state / 3 + digits[token]
        written.append(state)
        one, two = fmpq(1), fmpq(1)
        for token in word:
            one *= fmpq(*gates[token])
            two *= one if reads_state else fmpq(*gates[token])
        looped.append(two)
    said = (
        f"decay 1/3, writes 1 for a and 2 for b: ab leaves {written[0]}, ba {written[1]}. No "
        "writes, loop 1 decays 1/2 for a and 1/3 for b from state 1, loop 2 decays by loop 1's "
        f"state: ab leaves {looped[0]}, ba {looped[1]}"
    )
    told = written[0] != written[1] and looped[0] != looped[1]
    return Finding(told, counterexample=said if told else None)


@claim(
    "E7",
    "every word its own state, in the recurrence",
    statement=(
        "linear_recurrence with decay 1/3 and written digits 1 and 2 separates all words up to a "
        "length, and the last digit is the integer part of the state."
    ),
    scope="all 8,190 words of length 1..12, float64; margin: least distance of two states",
    source="derivation",
    evidence="float64",
    hypotheses={
        "decay 1/3": {"decay 1/2": {"inverse": 2}},
        "digits 1 and 2": {"digits 0 and 1": {"shift": 0}},
        "the state starts at 0": {"a start at 3/2": {"start": 1.5}},
    },
)
def words_in_the_recurrence(
    *, fast: bool, inverse: int = 3, shift: int = 1, start: float = 0.0
) -> Finding:
    """Compare with the least distance that exact arithmetic allows, 2 / 3^(L-1) or more."""
    most = 9 if fast else 12
    ends = [torch.full((1,), start, dtype=torch.float64)]
    for length in range(1, most + 1):
        digits = torch.tensor(list(itertools.product((0, 1), repeat=length))) + shift
        ones = torch.ones(len(digits), length, 1, 1, dtype=torch.float64)
        state = linear_recurrence(
            ones,
            ones,
            digits.double()[..., None, None],
            log_decay=(ones * -math.log(inverse))[..., 0],
            scale=1.0,
            initial_state=start * ones[:, :1],
            backend="reference",
        )[:, -1, 0, 0]
        # An integer state rounds below its digit: nudge by far less than any distance.
        if not torch.equal((state + 1e-12).floor().long(), digits[:, -1]):
            return Finding(False, counterexample=f"a last digit of length {length}")
        ends.append(state)
    gap = float(torch.cat(ends).sort().values.diff().min())
    least = 0.5 * 3.0 ** (1 - most)
    scope = f"all {2 ** (most + 1) - 2:,} words of length 1..{most}, float64; margin: least gap"
    return Finding(gap > least, margin=gap, scope=scope)


CLAIMS: tuple[Claim, ...] = (writes_tell_words, told_apart, words_in_the_recurrence)
