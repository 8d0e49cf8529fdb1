"""The factors of one token as letters that do not commute, for the symbolic claims about loops."""

from sympy import Expr, Integer, Symbol


def in_turn(loops: int) -> Expr:
    """The state after the factors of a token, one at a time.

    Args:
        loops: Factors `S <- A_s S + w_s`.

    Returns:
        The state.
    """
    state = Symbol("S", commutative=False)
    for loop in range(1, loops + 1):
        A, w = Symbol(f"A{loop}", commutative=False), Symbol(f"w{loop}", commutative=False)
        state = A * state + w
    return state


def closed(loops: int, *, later_on_the_left: bool = True, writes_pass: bool = True) -> Expr:
    """The product of all factors on the state, and of those after a write on the write.

    Args:
        loops: Factors.
        later_on_the_left: Whether later factors stand on the left.
        writes_pass: Whether a write passes through the later factors.

    Returns:
        The state.
    """

    def through(first: int) -> Expr:
        total: Expr = Integer(1)
        for loop in range(first, loops + 1):
            A = Symbol(f"A{loop}", commutative=False)
            total = A * total if later_on_the_left else total * A
        return total

    state = through(1) * Symbol("S", commutative=False)
    for loop in range(1, loops + 1):
        write = Symbol(f"w{loop}", commutative=False)
        state += (through(loop + 1) if writes_pass else 1) * write
    return state
