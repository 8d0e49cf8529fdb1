"""L2: what the gates of the later loops do to accumulate, beside Gated DeltaProduct."""

import itertools

from flint import fmpq
from sympy import Integer, Symbol, cancel, expand, prod, symbols

from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.loop_letters import gated_once, in_turn_gated


@claim(
    "L2",
    "Gated DeltaProduct where the later gates are 1",
    statement="accumulate equals Gated DeltaProduct, which has one gate a token.",
    scope="all",
    source="derivation; DeltaProduct, arXiv 2502.10297, gated variant",
    evidence="symbolic",
    expected="holds_with_conditions",
    hypotheses={
        "the gates of loops 2..T are 1": {"any later gates": {"later_gates_are_one": False}},
    },
    where="any gate of loop 1, before its factor as Gated DeltaProduct's",
)
def gated_delta_product(*, fast: bool, later_gates_are_one: bool = True) -> Finding:
    """Factors in turn against Gated DeltaProduct's closed form, T <= 4, and one more factor.

    H erases, D is the first gate, P and W stand for the erasures and writes so far. Gated
    DeltaProduct appends `H (P D S + W) + w`; accumulate's next factor has a gate G.
    """
    S, P, W, H, D, G, w = (Symbol(name, commutative=False) for name in "SPWHDGw")
    later = Integer(1) if later_gates_are_one else G
    holds = expand(H * later * (P * D * S + W) + w - (H * P * D * S + H * W + w)) == 0
    for loops in range(1, 5):
        own_gates = [D] + [later] * (loops - 1)
        holds = holds and expand(in_turn_gated(own_gates) - gated_once(D, [1] * loops)) == 0
    return Finding(bool(holds))


@claim(
    "L2",
    "Gated DeltaProduct where the gates are scalars",
    statement=(
        "accumulate equals Gated DeltaProduct whose gate is the product of the gates, and whose "
        "value of loop s is scaled by the gates of loops s+1..T."
    ),
    scope="all",
    source="derivation; DeltaProduct, arXiv 2502.10297, gated variant",
    evidence="symbolic",
    expected="holds_with_conditions",
    hypotheses={
        "all gates are scalars": {"gates by channel": {"scalar": False}},
    },
    mutants={
        "values not scaled": {"values_scaled": False},
        "the first gate alone": {"gates_multiplied": False},
    },
)
def scalar_gates(
    *, fast: bool, scalar: bool = True, values_scaled: bool = True, gates_multiplied: bool = True
) -> Finding:
    """As above, T <= 4 and one more factor, with gates that commute with everything if scalars.

    With g the product of the gates so far and a the next one, the next factor gives
    `H a (P g S + W) + w`, and Gated DeltaProduct `H (P a g S + a W) + w`: gate and values scaled.
    """
    S, P, W, H, w = (Symbol(name, commutative=False) for name in "SPWHw")
    a, g = symbols("a g", commutative=scalar)
    gate = a * g if gates_multiplied else g
    scaled = (a if values_scaled else 1) * W
    holds = expand(H * a * (P * g * S + W) + w - (H * (P * gate * S + scaled) + w)) == 0
    for loops in range(1, 5):
        gates = symbols(f"a1:{loops + 1}", commutative=scalar)
        value_gates = [prod(gates[:s:-1]) if values_scaled else 1 for s in range(loops)]
        one_gate = prod(gates[::-1]) if gates_multiplied else gates[0]
        one_by_one = in_turn_gated(list(gates))
        holds = holds and expand(one_by_one - gated_once(one_gate, value_gates)) == 0
    return Finding(bool(holds))


@claim(
    "L2",
    "the later gates must be 1",
    statement=(
        "Where accumulate equals Gated DeltaProduct with the same keys, betas, values and first "
        "gate, every gate of loops 2..T is 1."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "they are equal for all keys, betas and values": {
            "for values of zero": {"any_values": False},
            "for keys that the last loop erases": {"any_betas": False},
        },
        "gates in (0, 1]": {"gates above 1": {"bounded": False}},
    },
)
def later_gates_must_be_one(
    *, fast: bool, any_values: bool = True, any_betas: bool = True, bounded: bool = True
) -> Finding:
    """With beta_s = 0 from loop 2 on, and k_1 along channel i, the gates of channel i are left.

    Loop 1's write u becomes `a_2 ... a_T u` under accumulate and stays u. Take the last gate a
    below 1 and p, the product of the others: with a = 1/(1 + e), e > 0, and p = 1/(1 + f), f >= 0,
    the difference u - p a u is a positive multiple of e + f + e f, so it vanishes for no e > 0.
    What the later loops keep of channel i, all of it for beta_s = 0, is a factor of both.
    """
    e = Symbol("e", positive=True)
    f = Symbol("f", nonnegative=True) if bounded else Symbol("f", real=True)
    write = Symbol("u", positive=True) if any_values else Integer(0)
    kept = Integer(1) if any_betas else Integer(0)
    gap = kept * (write - write / ((1 + e) * (1 + f)))
    numerator = cancel(gap * (1 + e) * (1 + f))
    same = expand(numerator - kept * write * (e + f + e * f)) == 0
    return Finding(bool(same and expand(numerator).is_positive))


@claim(
    "L2",
    "with gates in the later loops accumulate is not Gated DeltaProduct",
    statement="accumulate equals Gated DeltaProduct with the same keys, values, betas and gate.",
    correction=(
        "Corrected: as an identity in all keys, values and betas it needs the gates of loops 2..T "
        "to be 1, because Gated DeltaProduct has one gate a token, before its first factor."
    ),
    scope="d_k = d_v = L = 1, T <= 2, k = 1, gates and betas in {1, 1/2}, v in {0, 1}, S_0 = 0",
    source="derivation; DeltaProduct, arXiv 2502.10297, gated variant",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "the gates of loops 2..T are 1": {"the later gates are 1": {"later_gate": (1, 1)}},
        "T = 1": {"one loop": {"most_loops": 1}},
    },
)
def gate_counterexample(
    *, fast: bool, later_gate: tuple[int, int] = (1, 2), most_loops: int = 2
) -> Finding:
    """Search loops, then gates, values and betas, for the first difference."""
    half, later = fmpq(1, 2), fmpq(*later_gate)
    for loops in range(1, most_loops + 1):
        for first in (fmpq(1), half):
            gates = [first] + [later] * (loops - 1)
            for values in itertools.product((0, 1), repeat=loops):
                for betas in itertools.product((half, fmpq(1)), repeat=loops):
                    accumulated, gated = fmpq(0), fmpq(0)
                    for s, (alpha, v, b) in enumerate(zip(gates, values, betas, strict=True)):
                        accumulated = (1 - b) * alpha * accumulated + b * v
                        gated = (1 - b) * (first if s == 0 else 1) * gated + b * v
                    if accumulated != gated:
                        said = (
                            f"d_k = 1, k = 1, S_0 = 0, beta = ({', '.join(map(str, betas))}), "
                            f"alpha = ({', '.join(map(str, gates))}), v = {values}: accumulate "
                            f"ends at {accumulated}, Gated DeltaProduct at {gated}"
                        )
                        return Finding(True, counterexample=said)
    return Finding(False)


CLAIMS: tuple[Claim, ...] = (
    gated_delta_product,
    scalar_gates,
    later_gates_must_be_one,
    gate_counterexample,
)
