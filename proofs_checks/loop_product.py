"""L2: accumulate is one product on one state, causal, and what it has to do with DeltaProduct."""

import itertools
import random

import torch
from flint import fmpq, fmpq_mat
from sympy import Integer, Symbol, cancel, expand, prod, symbols

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, factor, identity, matrix, product
from proofs_checks.loop_letters import closed, gated_once, in_turn, in_turn_gated
from proofs_checks.loop_states import Semantics, map_of, random_frozen


@claim(
    "L2",
    "accumulate is one product on one state",
    statement=(
        "Under accumulate loop tau reads S_t = A_tau ... A_1 S_{t-1} + sum_s A_tau ... A_{s+1} "
        "w_s k_s v_s^T, which is DeltaProduct with tau factors where A_s = I - beta k k^T."
    ),
    conditions="later loops stand on the left",
    scope="all",
    source="derivation; DeltaProduct, arXiv 2502.10297, section 3",
    evidence="symbolic",
    mutants={
        "later loops on the right": {"later_on_the_left": False},
        "the writes escape the later factors": {"writes_pass": False},
    },
)
def accumulate_is_a_product(
    *, fast: bool, later_on_the_left: bool = True, writes_pass: bool = True
) -> Finding:
    """The closed form against the factors in turn, T <= 5, and the step from tau to tau + 1.

    In the step P stands for the product so far, W for the sum of the writes so far: the next
    factor gives `A (P S + W) + w`, whose product is A P and whose writes are A W + w.
    """
    S, P, W, A, w = (Symbol(name, commutative=False) for name in "SPWAw")
    appended = (A * P if later_on_the_left else P * A) * S + (A * W if writes_pass else W) + w
    step_holds = expand(A * (P * S + W) + w - appended) == 0
    holds = all(
        expand(
            in_turn(loops)
            - closed(loops, later_on_the_left=later_on_the_left, writes_pass=writes_pass)
        )
        == 0
        for loops in range(1, 6)
    )
    return Finding(bool(step_holds and holds))


@claim(
    "L2",
    "the op's factors are the product, exactly",
    statement=(
        "linear_recurrence with a factor axis, to which accumulate hands the factors of loops "
        "1..tau, equals the dense product of the tau factors applied to one state."
    ),
    conditions="later loops stand on the left",
    scope="random integer keys, values and queries, beta in {0, 1, 2}, d_k, d_v, T <= 3, L = 4: "
    "float64 holds every intermediate number exactly",
    source="derivation; DeltaProduct, arXiv 2502.10297",
    evidence="exact",
    mutants={"later loops on the right": {"later_on_the_left": False}},
)
def op_is_the_product(*, fast: bool, later_on_the_left: bool = True) -> Finding:
    """Compose each token's affine map densely in rational arithmetic, then apply it once."""
    rng = random.Random(3)
    for _ in range(15 if fast else 150):
        loops, width, values = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 3)
        k, v, q, beta = _integers(rng, loops, width, values)
        k5, v5, q4, b4 = (torch.tensor([x], dtype=torch.float64) for x in (k, v, q, beta))
        o = linear_recurrence(
            q4[:, :, None], k5[:, :, :, None], v5[:, :, :, None], beta=b4[..., None], scale=1.0
        )[0, :, 0]
        state = fmpq_mat(width, values)
        for t in range(len(k)):
            keys = [column(key) for key in k[t]]
            steps = [
                factor(x, b, None, order="decay_first") for x, b in zip(keys, beta[t], strict=True)
            ]
            if not later_on_the_left:
                steps = steps[::-1]
            state = product(steps) * state
            for s, key in enumerate(keys):
                after = product([identity(width), *steps[s + 1 :]])
                state += after * key * beta[t][s] * matrix([v[t][s]])
            expected = column(q[t]).transpose() * state
            if [fmpq(int(x)) for x in o[t].tolist()] != expected.entries():
                return Finding(False, counterexample=f"k {k}, beta {beta}, token {t}")
    return Finding(True)


@claim(
    "L2",
    "accumulate is causal",
    statement="Under accumulate no output depends on a later input.",
    conditions="every loop's scan starts from a state that does not depend on the sequence",
    scope="random rational factors, d_k <= 2, N, T <= 3, L = 4: the whole map",
    source="derivation",
    evidence="exact",
    mutants={"the state is carried from loop to loop": {"semantics": "sequence_carry"}},
)
def accumulate_is_causal(*, fast: bool, semantics: Semantics = "accumulate") -> Finding:
    """The upper triangle of the exact map is zero, and its diagonal is not."""
    rng = random.Random(5)
    for width, layers, loops in itertools.product((1, 2), (1, 2), (2, 3)):
        frozen = random_frozen(rng, layers * loops, 4, width)
        whole = map_of(semantics, frozen, num_layers=layers)
        leaks = [(t, s) for t in range(4) for s in range(t + 1, 4) if whole[t, s] != 0]
        if leaks or all(whole[t, t] == 0 for t in range(4)):
            said = f"N {layers}, T {loops}: output {leaks[0][0] + 1} reads input {leaks[0][1] + 1}"
            return Finding(False, counterexample=said)
    return Finding(True)


@claim(
    "L2",
    "Gated DeltaProduct where the later gates are 1",
    statement="accumulate equals Gated DeltaProduct, which has one gate a token.",
    conditions=(
        "the gates of loops 2..T are 1; or all gates are scalars, Gated DeltaProduct's gate is "
        "their product, and the value of loop s is scaled by the gates of loops s+1..T"
    ),
    scope="all",
    source="derivation; DeltaProduct, arXiv 2502.10297, gated variant",
    evidence="symbolic",
    expected="holds_with_conditions",
    mutants={
        "any later gates": {"later_gates_are_one": False},
        "scalar gates, values not scaled": {"values_scaled": False},
        "scalar gates, the first gate alone": {"gates_multiplied": False},
    },
)
def gated_delta_product(
    *,
    fast: bool,
    later_gates_are_one: bool = True,
    values_scaled: bool = True,
    gates_multiplied: bool = True,
) -> Finding:
    """Factors in turn against Gated DeltaProduct's closed form, T <= 4, and one more factor.

    H erases, D is the first gate, P and W stand for the erasures and writes so far. Gated
    DeltaProduct appends `H (P D S + W) + w`; accumulate's next factor has a gate G. With scalar
    gates (letters that commute), g their product so far, the next factor gives
    `H a (g P S + W) + w`, and Gated DeltaProduct `H (g a P S + a W) + w`: gate and values scaled.
    """
    S, P, W, H, D, G, w = (Symbol(name, commutative=False) for name in "SPWHDGw")
    later = Integer(1) if later_gates_are_one else G
    diagonal = expand(H * later * (P * D * S + W) + w - (H * P * D * S + H * W + w))
    a, g = Symbol("a"), Symbol("g")
    gate = g * a if gates_multiplied else g
    scaled = (a if values_scaled else 1) * W
    scalar = expand(H * a * (g * P * S + W) + w - (H * (gate * P * S + scaled) + w))
    holds = diagonal == 0 and scalar == 0
    for loops in range(1, 5):
        commuting = symbols(f"a1:{loops + 1}")
        own_gates = [D] + [later] * (loops - 1)
        value_gates = [prod(commuting[s + 1 :]) if values_scaled else 1 for s in range(loops)]
        one_gate = prod(commuting) if gates_multiplied else commuting[0]
        holds = holds and expand(in_turn_gated(own_gates) - gated_once(D, [1] * loops)) == 0
        holds = (
            holds
            and expand(in_turn_gated(list(commuting)) - gated_once(one_gate, value_gates)) == 0
        )
    return Finding(bool(holds))


@claim(
    "L2",
    "the later gates must be 1",
    statement=(
        "Where accumulate equals Gated DeltaProduct with the same keys, betas, values and first "
        "gate, whatever these are, every gate of loops 2..T is 1."
    ),
    conditions="gates in (0, 1]",
    scope="all",
    source="derivation",
    evidence="symbolic",
    mutants={"gates above 1": {"bounded": False}},
)
def later_gates_must_be_one(*, fast: bool, bounded: bool = True) -> Finding:
    """With beta_s = 0 from loop 2 on, and k_1 along channel i, the gates of channel i are left.

    Loop 1's write u becomes `a_2 ... a_T u` under accumulate and stays u. Take the last gate a
    below 1 and p, the product of the others: with a = 1/(1 + e), e > 0, and p = 1/(1 + f), f >= 0,
    the difference u - p a u is a positive multiple of e + f + e f, so it vanishes for no e > 0.
    """
    e = Symbol("e", positive=True)
    f = Symbol("f", nonnegative=True) if bounded else Symbol("f", real=True)
    u = Symbol("u", positive=True)
    gap = u - u / ((1 + e) * (1 + f))
    numerator = cancel(gap * (1 + e) * (1 + f) / u)
    same = expand(numerator - (e + f + e * f)) == 0
    return Finding(bool(same and expand(numerator).is_positive))


@claim(
    "L2",
    "with gates in the later loops accumulate is not Gated DeltaProduct",
    statement="accumulate equals Gated DeltaProduct with the same keys, values, betas and gate.",
    conditions=(
        "Corrected: as an identity in all keys, values and betas it needs the gates of loops 2..T "
        "to be 1, because Gated DeltaProduct has one gate a token, before its first factor."
    ),
    scope="d_k = d_v = L = 1, T <= 2, k = 1, gates and betas in {1, 1/2}, v in {0, 1}, S_0 = 0",
    source="derivation; DeltaProduct, arXiv 2502.10297, gated variant",
    evidence="exact",
    expected="refuted_as_stated",
    mutants={
        "the later gates are 1": {"later_gate": (1, 1)},
        "one loop": {"most_loops": 1},
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


def _integers(
    rng: random.Random, loops: int, width: int, values: int
) -> tuple[list[list[list[int]]], list[list[list[int]]], list[list[int]], list[list[int]]]:
    """Keys, values, queries and betas of four tokens."""

    def vector(size: int) -> list[int]:
        return [rng.randint(-1, 1) for _ in range(size)]

    k = [[vector(width) for _ in range(loops)] for _ in range(4)]
    v = [[vector(values) for _ in range(loops)] for _ in range(4)]
    q = [vector(width) for _ in range(4)]
    beta = [[rng.randint(0, 2) for _ in range(loops)] for _ in range(4)]
    return k, v, q, beta


CLAIMS: tuple[Claim, ...] = (
    accumulate_is_a_product,
    op_is_the_product,
    accumulate_is_causal,
    gated_delta_product,
    later_gates_must_be_one,
    gate_counterexample,
)
