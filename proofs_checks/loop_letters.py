"""The factors of one token as letters that do not commute, for the symbolic claims about loops."""

from collections.abc import Sequence

from sympy import Expr, Integer, Symbol, prod


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


def in_turn_gated(gates: Sequence[Expr]) -> Expr:
    """accumulate: every factor has its own gate, before its erasure.

    Args:
        gates: Numbers, or letters.

    Returns:
        The state after the factors `S <- H_s gate_s S + w_s`.
    """
    state = Symbol("S", commutative=False)
    for loop, gate in enumerate(gates):
        H, w = (Symbol(f"{name}{loop}", commutative=False) for name in "Hw")
        state = H * gate * state + w
    return state


def gated_once(gate: Expr, value_gates: Sequence[Expr | int]) -> Expr:
    """Gated DeltaProduct: one gate on the state, and erasures that act on earlier writes.

    Args:
        gate: The only gate.
        value_gates: What the writes are scaled by.

    Returns:
        The state.
    """
    count = len(value_gates)
    H = [Symbol(f"H{loop}", commutative=False) for loop in range(count)]
    state = prod(H[::-1]) * gate * Symbol("S", commutative=False)
    for loop, scale in enumerate(value_gates):
        state += prod(H[:loop:-1]) * scale * Symbol(f"w{loop}", commutative=False)
    return state
