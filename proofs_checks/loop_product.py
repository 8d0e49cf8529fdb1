"""L2: accumulate is one product on one state, DeltaProduct's, and causal."""

import itertools
import random
from dataclasses import replace
from typing import Literal

import torch
from flint import fmpq, fmpq_mat
from sympy import Symbol, expand

from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, factor, identity, matrix, product
from proofs_checks.loop_letters import closed, in_turn
from proofs_checks.loop_states import Frozen, map_of, random_frozen, run, scalars


@claim(
    "L2",
    "accumulate is one product on one state",
    statement=(
        "Under accumulate loop tau reads S_t = A_tau ... A_1 S_{t-1} + sum_s A_tau ... A_{s+1} "
        "w_s k_s v_s^T."
    ),
    scope="all",
    source="derivation; DeltaProduct, arXiv 2502.10297, section 3",
    evidence="symbolic",
    hypotheses={
        "later loops stand on the left": {"later loops on the right": {"later_on_the_left": False}},
    },
    where="any A_s; those with A_s = I - beta_s k_s k_s^T are DeltaProduct with tau factors",
    mutants={"the writes escape the later factors": {"writes_pass": False}},
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
    scope="random integer keys, values and queries, beta in {0, 1, 2}, d_k, d_v, T <= 3, L = 4",
    source="derivation; DeltaProduct, arXiv 2502.10297",
    evidence="exact",
    hypotheses={
        "later loops stand on the left": {"later loops on the right": {"later_on_the_left": False}},
        "integers that float64 holds in every step": {"values near 3^40": {"unit": 3**40}},
    },
)
def op_is_the_product(*, fast: bool, later_on_the_left: bool = True, unit: int = 1) -> Finding:
    """Compose each token's affine map densely in rational arithmetic, then apply it once."""
    rng = random.Random(3)
    for _ in range(15 if fast else 150):
        loops, width, values = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 3)
        k, v, q, beta = _integers(rng, loops, width, values, unit)
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
    scope="random rational factors, d_k <= 2, N, T <= 3, L = 4: the whole map, and one that reads "
    "its values",
    source="derivation",
    evidence="exact",
    hypotheses={
        "every loop's scan starts from a state that does not depend on the sequence": {
            "the state is carried from loop to loop": {"semantics": "sequence_carry"}
        },
        "the factors of a token depend on no later one": {
            "keys that read the next token's value": {"ahead": 1}
        },
    },
)
def accumulate_is_causal(
    *,
    fast: bool,
    semantics: Literal["accumulate", "sequence_carry"] = "accumulate",
    ahead: int = 0,
) -> Finding:
    """The upper triangle of the exact map is zero, and its diagonal is not.

    With factors that depend on the values there is no map: change the last value and compare.
    """
    rng = random.Random(5)
    for width, layers, loops in itertools.product((1, 2), (1, 2), (2, 3)):
        frozen = random_frozen(rng, layers * loops, 4, width)
        whole = map_of(semantics, frozen, num_layers=layers)
        leaks = [(t, s) for t in range(4) for s in range(t + 1, 4) if whole[t, s] != 0]
        if leaks or all(whole[t, t] == 0 for t in range(4)):
            said = f"N {layers}, T {loops}: output {leaks[0][0] + 1} reads input {leaks[0][1] + 1}"
            return Finding(False, counterexample=said)
        before, after = (
            run(
                semantics,
                _reading(frozen, values, ahead),
                scalars(values),
                num_layers=layers,
            ).outputs[-1]
            for values in ([1, 2, 3, 4], [1, 2, 3, 5])
        )
        if before[:3] != after[:3] or before[3] == after[3]:
            return Finding(False, counterexample=f"N {layers}, T {loops}: reads the last input")
    return Finding(True)


def _reading(frozen: Frozen, values: list[int], ahead: int) -> Frozen:
    """Keys and erasures that grow with the value of their own token, or of one ahead."""
    growth = [1 + values[min(t + ahead, len(values) - 1)] for t in range(len(values))]
    return [
        [
            replace(step, write=step.write * g, transition=step.transition * g)
            for step, g in zip(place, growth, strict=True)
        ]
        for place in frozen
    ]


def _integers(
    rng: random.Random, loops: int, width: int, values: int, unit: int
) -> tuple[list[list[list[int]]], list[list[list[int]]], list[list[int]], list[list[int]]]:
    """Keys, values (multiples of the unit), queries and betas of four tokens."""

    def vector(size: int) -> list[int]:
        return [rng.randint(-1, 1) for _ in range(size)]

    k = [[vector(width) for _ in range(loops)] for _ in range(4)]
    v = [[[unit * x for x in vector(values)] for _ in range(loops)] for _ in range(4)]
    q = [vector(width) for _ in range(4)]
    beta = [[rng.randint(0, 2) for _ in range(loops)] for _ in range(4)]
    return k, v, q, beta


CLAIMS: tuple[Claim, ...] = (accumulate_is_a_product, op_is_the_product, accumulate_is_causal)
