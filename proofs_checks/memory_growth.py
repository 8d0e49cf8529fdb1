"""M6: what the delta rule remembers, and how large it lets the state grow, in closed form."""

from typing import Literal

from sympy import (
    Expr,
    Integer,
    Interval,
    Rational,
    Symbol,
    expand,
    maximum,
    minimum,
    simplify,
    symbols,
)

from proofs_checks.claim import Claim, Finding, claim


@claim(
    "M6",
    "mean recall and mean energy of the delta rule",
    statement=(
        "A pair is read back s tokens later as beta (1 - beta/d_k)^s v on average; "
        "E|S_t|_F^2 = d_k d_v beta/(2 - beta) (1 - (1 - beta(2 - beta)/d_k)^t), which tends to "
        "d_k d_v beta/(2 - beta) for beta < 2, and is 4 d_v t at beta = 2."
    ),
    scope="all",
    source="derivation; LT2, App. B for the bound on a factor only",
    evidence="symbolic",
    hypotheses={
        "keys independent": {"keys that depend on the earlier ones": {"independent": False}},
        "isotropic": {"anisotropic keys": {"second_moment": Symbol("C", commutative=False)}},
        "of length one": {"keys of squared length 2": {"squared_length": 2}},
        "values independent of them": {"values that depend on the keys": {"follow": "keys"}},
        "and of each other": {"values that depend on the earlier ones": {"follow": "values"}},
        "of mean zero": {
            "values of mean other than zero": {"mean": Symbol("mean", commutative=False)}
        },
        "and unit variance": {"values of variance 2": {"variance": 2}},
        "one beta at all tokens": {"another beta at the next token": {"same_beta": False}},
        "beta in (0, 2]": {
            "beta beyond 2": {"greatest_beta": Rational(9, 4)},
            "negative beta": {"least_beta": -1},
        },
        "no gate": {"a gate": {"decay": Rational(1, 2)}},
        "S_0 = 0": {"a state to start from": {"start": 1}},
    },
)
def growth(
    *,
    fast: bool,
    independent: bool = True,
    second_moment: Expr | None = None,
    squared_length: int = 1,
    follow: Literal["nothing", "keys", "values"] = "nothing",
    mean: Expr | int = 0,
    variance: int = 1,
    same_beta: bool = True,
    least_beta: int = 0,
    greatest_beta: Expr = Integer(2),  # noqa: B008 - a number
    decay: Expr = Integer(1),  # noqa: B008 - a number
    start: int = 0,
) -> Finding:
    """One step in letters, averaged over its own pair; then the recursion and its limit.

    `S'^T S'` is expanded, k^T k put in, and k k^T, which then stands alone between earlier states,
    is replaced by its mean I / d_k if the key is independent of them; the terms with one v by its
    mean if it is independent of the key and of the values in S (in the recall there is no earlier
    value), v v^T by its own (trace d_v).
    """
    letters = ("S", "St", "k", "kt", "v", "vt", "jt")
    S, St, k, kt, v, vt, jt = (Symbol(letter, commutative=False) for letter in letters)
    b, c, d, dv = symbols("b c d dv", positive=True)
    b_next = b if same_beta else c
    t = Symbol("t", integer=True, nonnegative=True)
    spread = k * kt if not independent else 1 / d if second_moment is None else second_moment
    step = decay * (S - b_next * k * kt * S) + b_next * k * vt
    turned = decay * (St - b_next * St * k * kt) + b_next * v * kt
    # A value comes with its key, and is replaced by its mean where nothing ties them.
    of_value = {k * vt: k * mean, v * kt: mean * kt}
    square = expand(turned * step)
    for _ in range(2):
        square = expand(square.subs(kt * k, squared_length))
    square = expand(square.subs(v * vt, variance * dv))
    square = square.subs(of_value if follow == "nothing" else {})
    square = expand(square.subs(k * kt, spread))
    energy = Symbol("E", positive=True)
    stepped = square.subs(St * S, energy)
    ratio = 1 - b * (2 - b) / d
    follows = expand(stepped - (ratio * energy + b**2 * dv)) == 0
    closed = d * dv * b / (2 - b) * (1 - ratio**t)
    begins = closed.subs(t, 0) == start
    goes_on = simplify(ratio * closed + b**2 * dv - closed.subs(t, t + 1)) == 0
    # At beta = 2 the ratio is 1, so every token adds b^2 d_v.
    linear = (b**2 * dv).subs(b, 2) == 4 * dv and ratio.subs(b, 2) == 1
    # In [0, 1) for every d >= 1, so that the closed form tends to its first factor.
    x = Symbol("x", real=True)
    within = Interval(least_beta, greatest_beta)
    least = minimum(1 - x * (2 - x), x, within) >= 0
    most = maximum(1 - x * (2 - x), x, within) <= 1
    # A pair's own key j reads what is left of it: on average (1 - b/d) of it a token.
    recall = expand(jt * step).subs(of_value if follow != "keys" else {})
    recall = expand(recall.subs(k * kt, spread))
    one_on = expand(recall - (1 - b / d) * jt * S) == 0
    stored = expand(b * kt * k * vt).subs(kt * k, squared_length) == b * vt
    found = (follows, begins, goes_on, linear, least, most, one_on, stored)
    return Finding(all(bool(x) for x in found))


CLAIMS: tuple[Claim, ...] = (growth,)
