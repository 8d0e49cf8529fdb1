"""E7: what diagonal transitions cannot tell apart, and the two ways around it."""

import itertools
import math
from collections.abc import Sequence

import torch
from flint import fmpq
from sympy import Integer, Matrix, Symbol, diag, expand, eye, symbols

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from tasks.groups import group

NON_ABELIAN = ("S3", "D4", "A4", "S4", "A5", "S5")


@claim(
    "E7",
    "diagonal transitions see the multiset only",
    statement=(
        "If the diagonal factors of a token depend on that token alone, their product over a word "
        "depends only on the multiset of its tokens, for any number of loops."
    ),
    conditions="diagonal factors; each depends on the current token only",
    scope="all",
    source="derivation: exchange of two neighbours, which sort any word",
    evidence="symbolic",
    mutants={
        "factors with an erasure": {"erases": True},
        "a factor reads the token before": {"looks_back": True},
    },
)
def multiset_only(*, fast: bool, erases: bool = False, looks_back: bool = False) -> Finding:
    """Two neighbours a, b inside a word, two loops each, in two channels; the rest cancels.

    Any two words of one multiset differ by exchanges of neighbours. A diagonal matrix acts channel
    by channel, so more channels or loops add letters that commute just as well.
    """

    def token(name: str, previous: str) -> Matrix:
        total = eye(2)
        for loop in (1, 2):
            seen = f"{name}{loop}" + (previous if looks_back else "")
            decay = diag(*symbols(f"{seen}x {seen}y"))
            key, beta = Matrix(symbols(f"{name}{loop}u {name}{loop}v")), Symbol(f"{name}{loop}b")
            total = (eye(2) - (beta if erases else 0) * key * key.T) * decay * total
        return total

    ab = token("b", "a") * token("a", "p")
    ba = token("a", "b") * token("b", "p")
    return Finding(bool((ab - ba).applyfunc(expand).is_zero_matrix))


@claim(
    "E7",
    "no non-abelian word problem without writes",
    statement=(
        "From a given state and without writes, the op leaves gh and hg in the same state, though "
        "a non-abelian group gives them different labels."
    ),
    conditions="diagonal factors; each depends on the current token only; v = 0",
    scope=(
        "every pair of elements of S_3, D_4, A_4, S_4, A_5, S_5; T = 3, d_k = 4, random "
        "decays, 1e-12 relative"
    ),
    source="derivation",
    evidence="float64",
    mutants={
        "factors with an erasure": {"beta": 1.0},
        "values are written": {"value": 1.0},
        "a gate reads the token before": {"looks_back": True},
        "an abelian group": {"groups": ("Z6",)},
    },
)
def no_word_problem(
    *,
    fast: bool,
    beta: float = 0.0,
    value: float = 0.0,
    looks_back: bool = False,
    groups: Sequence[str] = NON_ABELIAN,
) -> Finding:
    """Run both words through linear_recurrence and look for labels that differ."""
    for name in groups[:3] if fast else groups:
        table = torch.from_numpy(group(name).cayley.astype("int64"))
        size = len(table)
        g, h = torch.triu_indices(size, size, 1)
        different = bool((table[g, h] != table[h, g]).any())
        states = [
            _diagonal_run(torch.stack(word, 1), size, beta, value, looks_back)
            for word in ((g, h), (h, g))
        ]
        same = torch.allclose(states[0], states[1], rtol=1e-12, atol=0.0)
        if not different or not same:
            return Finding(False, counterexample=f"{name}: states or labels do not behave")
    return Finding(True, scope="S_3, D_4, A_4; T = 3, d_k = 4" if fast else None)


def _diagonal_run(
    words: torch.Tensor, size: int, beta: float, value: float, looks_back: bool
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    loops, width = 3, 4
    rates = torch.rand(size, loops, width, generator=generator, dtype=torch.float64)
    keys = torch.randn(size, loops, width, generator=generator, dtype=torch.float64)
    chosen = rates[words]
    if looks_back:
        chosen[:, 1:] += words[:, :-1, None, None]
    k = keys[words][:, :, :, None]
    ones = k.new_ones(*k.shape[:-1])
    _, state = linear_recurrence(
        k[:, :, 0],
        k,
        k.new_full((*k.shape[:-1], 1), value),
        log_decay=-chosen[:, :, :, None],
        beta=beta * ones,
        write=float(value != 0) * ones,
        initial_state=k.new_ones(len(words), 1, width, 1),
        return_state=True,
        backend="reference",
    )
    return state


@claim(
    "E7",
    "writes get around it",
    statement=(
        "One decay of 1/3 for every token and written digits 1 and 2 give every word a state of "
        "its own: S -> S/3 + c keeps 0 <= S < 3, so floor(S) is the last digit, and so on back."
    ),
    conditions="decay 1/3 (1/2 is too slow: then a state has two last digits); digits 1 and 2",
    scope="all",
    source="derivation",
    evidence="symbolic",
    mutants={"decay 1/2": {"inverse": 2}, "digits 0 and 1": {"digits": (0, 1)}},
)
def writes_tell_words(*, fast: bool, inverse: int = 3, digits: tuple[int, int] = (1, 2)) -> Finding:
    """With S = 3 / (1 + u) in (0, 3): the state stays below 3 and the old one is below its digit.

    An empty word has S = 0, and since digits are not 0 no other word does.
    """
    top = Integer(max(digits)) * inverse / (inverse - 1)
    u = Symbol("u", positive=True)
    carried = top / (1 + u) / inverse
    # carried lies in (0, 1), so floor(carried + c) = c; and carried + c lies in (0, top).
    below_one = (1 - carried).together().simplify().is_positive
    stays = all((top - carried - c).together().simplify().is_nonnegative for c in digits)
    return Finding(bool(below_one and stays and all(c > 0 for c in digits)))


@claim(
    "E7",
    "diagonal models that tell ab from ba",
    statement=(
        "A looped model with diagonal transitions solves no non-abelian word problem, for any T: "
        "it cannot tell ab from ba."
    ),
    conditions=(
        "holds for the product of factors that depend on the current token only, with the state "
        "given and no writes; false with writes, and false at T >= 2 if a gate of loop 2 reads "
        "loop 1's state"
    ),
    scope="two tokens, d_k = 1",
    source="the commutativity argument as it is usually quoted; derivation",
    evidence="exact",
    expected="refuted_as_stated",
    mutants={
        "the gate of loop 2 reads the token": {"reads_state": False},
        "nothing is written": {"digits": (0, 0)},
        "loop 1 treats a and b alike": {"gates": ((1, 2), (1, 2))},
    },
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
    conditions="decay 1/3; digits 1 and 2",
    scope="all 8,190 words of length 1..12, float64; margin: least distance of two states",
    source="derivation",
    evidence="float64",
    mutants={"decay 1/2": {"inverse": 2}, "digits 0 and 1": {"shift": 0}},
)
def words_in_the_recurrence(*, fast: bool, inverse: int = 3, shift: int = 1) -> Finding:
    """Compare with the least distance that exact arithmetic allows, 2 / 3^(L-1) or more."""
    most = 9 if fast else 12
    ends = [torch.zeros(1, dtype=torch.float64)]
    for length in range(1, most + 1):
        digits = torch.tensor(list(itertools.product((0, 1), repeat=length))) + shift
        ones = torch.ones(len(digits), length, 1, 1, dtype=torch.float64)
        state = linear_recurrence(
            ones,
            ones,
            digits.double()[..., None, None],
            log_decay=(ones * -math.log(inverse))[..., 0],
            scale=1.0,
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


CLAIMS: tuple[Claim, ...] = (
    multiset_only,
    no_word_problem,
    writes_tell_words,
    told_apart,
    words_in_the_recurrence,
)
