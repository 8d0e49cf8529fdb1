"""Matrices as letters that do not commute, for identities in all sizes at once."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from sympy import Add, Expr, Integer, Mul, Pow, Symbol, expand

Rules = Mapping[tuple[Expr, Expr], Any]
"""What a pair of neighbouring letters may be replaced by."""


def letters(names: str) -> tuple[Expr, ...]:
    """Letters for matrices and vectors.

    Args:
        names: Their names, separated by blanks.

    Returns:
        Symbols that do not commute.
    """
    return tuple(Symbol(name, commutative=False) for name in names.split())


def scalars(names: str, **assumptions: bool) -> tuple[Expr, ...]:
    """Letters for numbers.

    Args:
        names: Their names, separated by blanks.
        **assumptions: Those of sympy, such as `positive=True`.

    Returns:
        Symbols that commute with everything.
    """
    return tuple(Symbol(name, **assumptions) for name in names.split())


def reduced(expression: Any, rules: Rules | None = None) -> Expr:
    """Multiply out, and rewrite pairs of neighbours until no rule applies.

    Args:
        expression: A polynomial in letters.
        rules: What each pair of letters equals, for instance `{(Kt, K): G}`.

    Returns:
        The sum of words that no rule changes; 0 if and only if they cancel.
    """
    total = expand(Integer(0) + expression)
    while True:
        changed = expand(Add(*(_rewritten(term, rules or {}) for term in Add.make_args(total))))
        if changed == total:
            return total
        total = changed


def vanishes(expression: Any, rules: Rules | None = None) -> bool:
    """Whether an expression is zero under some rules.

    Args:
        expression: A polynomial in letters.
        rules: As in `reduced`.

    Returns:
        Whether its words cancel.
    """
    return bool(reduced(expression, rules) == 0)


def _rewritten(term: Expr, rules: Rules) -> Expr:
    """The term with the first pair that has a rule replaced."""
    numbers, word = term.args_cnc()
    flat: list[Expr] = []
    for letter in word:
        if isinstance(letter, Pow) and letter.exp.is_Integer and letter.exp > 0:
            flat += [letter.base] * int(letter.exp)
        else:
            flat.append(letter)
    for place, pair in enumerate(pairwise(flat)):
        if pair in rules:
            return Mul(*numbers) * Mul(*flat[:place]) * rules[pair] * Mul(*flat[place + 2 :])
    return term
