"""E8: when one reflection a token is enough, and two in the plane."""

from sympy import Expr, Matrix, Symbol, cos, expand, eye, simplify, sin, symbols, trigsimp

from proofs_checks.claim import Claim, Finding, claim
from tasks.groups import group

HAVE_LONG_ELEMENTS = ("S3", "S4", "A4", "A5", *(f"{f}{n}" for f in "ZD" for n in range(3, 13)))


@claim(
    "E8",
    "one orthogonal factor is an involution",
    statement=(
        "A factor I - beta k k^T is orthogonal only for beta = 0 or beta |k|^2 = 2, and then its "
        "square is I: after the word gg the state is as before, so that a group is solved only if "
        "g^2 = e for all g."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "orthogonal transitions": {"any beta": {"orthogonal": False}},
        "that depend on the token only": {"g's second key is another": {"token_only": False}},
        "no writes": {"g writes": {"writes": True}},
        "T = 1": {"T = 2": {"loops": 2}},
    },
)
def involution(
    *,
    fast: bool,
    orthogonal: bool = True,
    token_only: bool = True,
    writes: bool = False,
    loops: int = 1,
) -> Finding:
    """Letters; A^T A - I = -beta (2 - beta |k|^2) k k^T, as A is symmetric."""
    k, kt, j, jt = (Symbol(name, commutative=False) for name in ("k", "kt", "j", "jt"))
    S, w = (Symbol(name, commutative=False) for name in "Sw")
    b, s = symbols("b s", positive=True)
    one, two = 1 - b * k * kt, 1 - b * j * jt
    gram = expand(expand(one * one - 1).subs(kt * k, s))
    only = expand(gram + b * (2 - b * s) * k * kt) == 0
    first = expand(one if loops == 1 else two * one)
    again = first if token_only else two
    written = w if writes else 0
    after: Expr = expand(again * (first * S + written) + written)
    after = expand(after.subs(kt * k, s).subs(jt * j, s))
    back = expand(after.subs(b, 2 / s) if orthogonal else after) == S
    return Finding(bool(only and back))


@claim(
    "E8",
    "one reflection a token tracks Z_2^m",
    statement=(
        "T = 1 suffices for Z_2^m: with 2^m - 1 keys, one for each element but e, every reachable "
        "state names the product of its word. These transitions form no representation, which "
        "would need T = 2 for Z_2 x Z_2."
    ),
    scope="m = 1..4, every reachable state and every token, by induction all words",
    source="derivation",
    evidence="exact",
    hypotheses={
        "g^2 = e for all g": {"Z_3": {"name": "Z3"}, "S_3": {"name": "S3"}},
        "orthogonal keys": {"a key between two others": {"orthogonal": False}},
        "a key of its own for every token": {"two tokens share a key": {"shared": True}},
        "a start off every mirror": {"start on a mirror": {"on_mirror": True}},
    },
    where="start (1..1), keys e_i, beta = 2, v = 0",
)
def one_reflection(
    *,
    fast: bool,
    name: str | None = None,
    orthogonal: bool = True,
    shared: bool = False,
    on_mirror: bool = False,
) -> Finding:
    """Walk through all states: each must keep one label, whichever word led to it."""
    names = [name] if name else ["x".join(["Z2"] * m) for m in range(1, 4 if fast else 5)]
    names = names if orthogonal and not shared else ["Z2xZ2"]
    for each in names:
        table = group(each).cayley
        start = tuple(0 if on_mirror and i == 0 else 1 for i in range(len(table) - 1))
        labels, queue = {start: 0}, [start]
        for state in queue:
            for token in range(1, len(table)):
                place = 0 if shared and token == 2 else token - 1
                after = (*state[:place], -state[place], *state[place + 1 :])
                if not orthogonal and token == 1:  # the mirror of e_1 + e_2
                    after = (-state[1], -state[0], *state[2:])
                label = int(table[labels[state], token])
                if after not in labels:
                    labels[after] = label
                    queue.append(after)
                elif labels[after] != label:
                    return Finding(False, counterexample=f"{each}: state {after} has two labels")
    return Finding(True, scope="m = 1..3, every reachable state" if fast else None)


@claim(
    "E8",
    "T = 2 is least for S_3, S_4, A_4, A_5, Z_n and D_n: some g^2 is not e",
    statement=(
        "Each of these groups has an element g with g^2 != e, which rules T = 1 out where one "
        "orthogonal factor is an involution (the claim of that name and its conditions)."
    ),
    scope="S_3, S_4, A_4, A_5, Z_3..Z_12, D_3..D_12, by the tasks' Cayley tables",
    source="derivation; with the two claims above and the rotation groups",
    evidence="exact",
    hypotheses={
        "n >= 3 in Z_n and D_n": {"Z_2": {"more": "Z2"}, "D_2 = Z_2 x Z_2": {"more": "Z2xZ2"}},
    },
)
def long_elements(*, fast: bool, more: str | None = None) -> Finding:
    """Look at the diagonal of each table."""
    for name in (*HAVE_LONG_ELEMENTS, *([more] if more else [])):
        table = group(name).cayley
        if not table.diagonal().any():
            return Finding(False, counterexample=f"{name}: every g^2 is e")
    return Finding(True)


@claim(
    "E8",
    "Z_n and D_n with two loops",
    statement=(
        "The rotation by theta is the product of the reflections by (1, 0) and by (cos theta/2, "
        "sin theta/2), and different elements of Z_n and D_n take a start to different states: so "
        "they need no more than T = 2 in the plane, D_n's reflections one."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "beta |k|^2 = 2": {"beta = 1": {"beta": 1}},
        "a start off every mirror": {"a start on a mirror": {"off_mirrors": False}},
    },
    mutants={"keys theta apart": {"part": 1}},
)
def plane(*, fast: bool, part: int = 2, beta: int = 2, off_mirrors: bool = True) -> Finding:
    """All angles at once; g s = h s for g^-1 h a rotation only if it is I, else s on a mirror."""
    theta = Symbol("theta", real=True)
    first, second = Matrix([1, 0]), Matrix([cos(theta / part), sin(theta / part)])
    mirrored = eye(2) - beta * second * second.T
    made = mirrored * (eye(2) - beta * first * first.T)
    turn = Matrix([[cos(theta), -sin(theta)], [sin(theta), cos(theta)]])
    turns = (made - turn).applyfunc(trigsimp).is_zero_matrix
    # A rotation has the eigenvalue 1 only where cos(theta) is 1, that is for I.
    free = simplify((turn - eye(2)).det() - 2 * (1 - cos(theta))) == 0
    # A start at height h over the mirror of the second key is moved by 2 h.
    height = Symbol("h", positive=True) if off_mirrors else 0
    start = Symbol("x", real=True) * Matrix([-second[1], second[0]]) + height * second
    shift = mirrored * start - start
    return Finding(bool(turns and free and simplify(shift.dot(shift)).is_positive))


CLAIMS: tuple[Claim, ...] = (involution, one_reflection, long_elements, plane)
