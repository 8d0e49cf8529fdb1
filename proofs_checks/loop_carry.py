"""L3 and L4: sequence_carry leaks the future; token_carry is accumulate at the last loop."""

import itertools
import random
from typing import Literal

import torch
from sympy import Symbol, expand

from lt2theory.models import LoopedConfig
from lt2theory.ops import linear_recurrence
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import matrix, random_column
from proofs_checks.loop_letters import closed, in_turn
from proofs_checks.loop_states import Semantics, random_frozen, read, run, scalar_frozen, scalars


@claim(
    "L3",
    "sequence_carry leaks the future",
    statement="Starting loop tau from the final state of loop tau - 1 gives a causal model.",
    correction=(
        "Corrected: causal only if every loop starts from a state that does not depend on the "
        "sequence (rescan, accumulate) or the token passes all loops first (token_carry); with "
        "T = 1, L = 1 or beta |k|^2 = 1 along the only key nothing is carried. Configurations "
        "refuse sequence_carry."
    ),
    scope="q = k = 1, beta = 1/2, T <= 2, L <= 2: nothing leaks at T = 1 or L = 1",
    source="derivation; LT2, section 3, for the four readings of a looped state",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "every loop starts from a state that does not depend on the sequence": {
            "rescan": {"semantics": "rescan"},
            "accumulate": {"semantics": "accumulate"},
        },
        "the token passes all loops before the next one": {
            "token_carry": {"semantics": "token_carry"}
        },
        "beta |k|^2 = 1 along the only key": {"beta = 1 forgets": {"beta": (1, 1)}},
        "T = 1": {"one loop": {"most_loops": 1}},
        "L = 1": {"one token": {"length": 1}},
    },
)
def sequence_carry_leaks(
    *,
    fast: bool,
    semantics: Semantics = "sequence_carry",
    beta: tuple[int, int] = (1, 2),
    most_loops: int = 2,
    length: int = 2,
) -> Finding:
    """The exact reference, the same numbers from the op, and the refusal of a configuration."""
    for loops, tokens in itertools.product(range(1, most_loops + 1), range(1, length + 1)):
        frozen = scalar_frozen(loops, tokens, beta)
        right = run("rescan", frozen, scalars([1, 2][:tokens])).outputs[-1]
        before, after = (
            run(semantics, frozen, scalars([1, last][-tokens:])).outputs[-1] for last in (2, 4)
        )
        leaks = tokens > 1 and before[0] != after[0]
        if not leaks:
            continue
        expected = (read(right), read(before[:1]), read(after[:1]))
        as_written = expected == ("(0.25, 0.75)", "(0.875)", "(1.375)")
        as_the_op = (_carried(2.0), _carried(4.0)) == (0.875, 1.375)
        said = (
            f"T = {loops}, L = {tokens}, q = k = 1, beta = 1/2, inputs (1, 2): loop 2 gives "
            f"{expected[0]} from an empty state; carried, its first output is 0.875, and 1.375 "
            "after the future input changes from 2 to 4"
        )
        return Finding(bool(as_written and as_the_op and _refused()), counterexample=said)
    return Finding(False)


@claim(
    "L4",
    "token_carry and accumulate agree at the last loop",
    statement="token_carry and accumulate agree.",
    scope="random rational factors, values and starting states, d_k <= 2, N <= 2, T <= 3, L = 5",
    source="derivation",
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "at the last loop": {"the first loop": {"place": 0}},
        "given the same factors in both": {
            "token_carry has other factors": {"same_factors": False}
        },
        "given the same values in both": {
            "each loop reads its own earlier outputs": {"given": False}
        },
        "from the same state": {"accumulate starts empty": {"same_start": False}},
    },
    where="whatever the factors and that state are",
)
def last_loops_agree(
    *,
    fast: bool,
    place: Literal[-1, 0] = -1,
    same_factors: bool = True,
    given: bool = True,
    same_start: bool = True,
) -> Finding:
    """Two runs of the reference: token by token on one state, and loop by loop on T states."""
    rng = random.Random(6)
    for width, layers, loops in itertools.product((1, 2), (1, 2), (2, 3)):
        places = layers * loops
        frozen = random_frozen(rng, places, 5, width)
        values = [[matrix([[rng.randint(-3, 3)]]) for _ in range(5)] for _ in range(places)]
        others = frozen if same_factors else random_frozen(rng, places, 5, width)
        fed = values if given else None
        start = random_column(rng, width)
        one = run("token_carry", others, values[0], given=fed, start=start, num_layers=layers)
        other = run(
            "accumulate",
            frozen,
            values[0],
            given=fed,
            start=start if same_start else None,
            num_layers=layers,
        )
        ends = one.outputs[place], other.outputs[place]
        if ends[0] != ends[1]:
            said = f"N {layers}, T {loops}: {read(ends[0])} and {read(ends[1])}"
            return Finding(False, counterexample=said)
    return Finding(True)


@claim(
    "L4",
    "the last loop, all factors at once",
    statement=(
        "The state of token_carry after the last loop of a token obeys the recurrence of "
        "accumulate's last loop."
    ),
    scope="all",
    source="derivation",
    evidence="symbolic",
    hypotheses={
        "the last loop": {"a loop before the last": {"left_out": 1}},
        "given the same factors and values in both": {
            "another factor in loop 1": {"changed": "A1"},
            "another write in loop 1": {"changed": "w1"},
        },
    },
)
def same_recurrence(*, fast: bool, left_out: int = 0, changed: str | None = None) -> Finding:
    """Token by token the state passes all T factors in turn; accumulate's last loop composes them.

    Both start from the same state, so equal maps a token give equal states at every token. The
    maps are equal for T <= 5, and the step from T to T + 1 appends one factor to both.
    """
    S, P, W, A, w = (Symbol(name, commutative=False) for name in "SPWAw")
    step_holds = expand(A * (P * S + W) + w - (A * P * S + (A * W + w))) == 0
    own = {Symbol(changed, commutative=False): Symbol("B", commutative=False)} if changed else {}
    equal = all(
        expand(in_turn(loops).subs(own) - closed(loops - left_out)) == 0
        for loops in range(1 + left_out, 6)
    )
    return Finding(bool(step_holds and equal))


@claim(
    "L4",
    "before the last loop they differ",
    statement="Given the same factors, token_carry and accumulate agree at every loop.",
    correction="Corrected: at the last loop only; at T = 1 or L = 1 there is no other difference.",
    scope="q = k = 1, beta = 1/2, the same inputs 0 or 1 in every loop, T <= 2, L <= 2",
    source="derivation",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "at the last loop": {"the last loop": {"last": True}},
        "T = 1": {"one loop": {"most_loops": 1}},
        "L = 1": {"one token": {"length": 1}},
    },
)
def earlier_loops_differ(
    *, fast: bool, last: bool = False, most_loops: int = 2, length: int = 2
) -> Finding:
    """Search loops, lengths and 0/1 inputs for the first difference."""
    for loops, tokens in itertools.product(range(1, most_loops + 1), range(1, length + 1)):
        frozen = scalar_frozen(loops, tokens)
        for inputs in itertools.product((0, 1), repeat=tokens):
            rows = scalars(inputs)
            one, other = (
                run(s, frozen, rows, given=[rows] * loops).outputs
                for s in ("token_carry", "accumulate")
            )
            place = -1 if last else 0
            if one[place] != other[place]:
                said = (
                    f"T = {loops}, L = {tokens}, q = k = 1, beta = 1/2, v = {inputs} in both "
                    f"loops: loop 1 of token_carry gives {read(one[0])}, of accumulate "
                    f"{read(other[0])}; loop 2 gives {read(one[-1])} in both"
                )
                return Finding(one[-1] == other[-1], counterexample=said)
    return Finding(False)


def _carried(last: float) -> float:
    """The first output of loop 2 by the op, started from loop 1's final state."""
    one = torch.ones(1, 2, 1, 1, dtype=torch.float64)
    beta = torch.full((1, 2, 1), 0.5, dtype=torch.float64)
    inputs = torch.tensor([1.0, last], dtype=torch.float64).reshape(1, 2, 1, 1)
    o, state = linear_recurrence(one, one, inputs, beta=beta, scale=1.0, return_state=True)
    o = linear_recurrence(one, one, o, beta=beta, scale=1.0, initial_state=state)
    return float(o[0, 0, 0, 0])


def _refused() -> bool:
    """Whether a configuration with sequence_carry is refused."""
    try:
        LoopedConfig.model_validate({"loop_state": "sequence_carry"})
    except ValueError:
        return True
    return False


CLAIMS: tuple[Claim, ...] = (
    sequence_carry_leaks,
    last_loops_agree,
    same_recurrence,
    earlier_loops_differ,
)
