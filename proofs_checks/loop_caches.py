"""L5 and L7 in exact arithmetic: what a cache must be keyed by, and what each semantics costs."""

import itertools
import random
from typing import Literal

import torch
from flint import fmpq_mat

from lt2theory.analysis import received_factors
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.ops.factors import Factors
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, identity, kronecker, matrix
from proofs_checks.loop_departures import on_one_line, reading_values
from proofs_checks.loop_states import (
    Frozen,
    Semantics,
    cut_ranks,
    map_of,
    random_frozen,
    read,
    run,
    scalar_frozen,
    scalars,
)


@claim(
    "L5",
    "streaming equals the parallel form, exactly",
    statement="Taking each token through all places before the next one changes no output.",
    scope="random rational factors and inputs, d_k <= 2, N <= 2, T <= 3, L = 5, every place",
    source="derivation",
    evidence="exact",
    expected="holds_with_conditions",
    hypotheses={
        "one state a (layer, loop)": {
            "one state a layer": {"shared": "rescan"},
            "one state a layer, accumulate": {"shared": "accumulate"},
        },
        "every loop starts from an empty state": {"sequence_carry": {"carried": True}},
    },
    where="rescan and accumulate; token_carry takes its tokens in this order by definition",
)
def exact_streaming(
    *,
    fast: bool,
    shared: Literal["none", "rescan", "accumulate"] = "none",
    carried: bool = False,
) -> Finding:
    """The two schedules of the reference; one state a layer is streamed as token_carry."""
    rng = random.Random(7)
    semantics: tuple[Semantics, ...] = ("sequence_carry",) if carried else ("rescan", "accumulate")
    for width, layers, loops in itertools.product((1, 2), (1, 2), (2, 3)):
        frozen = random_frozen(rng, layers * loops, 5, width)
        rows = [matrix([[rng.randint(-3, 3)]]) for _ in range(5)]
        for name in semantics:
            streamed = run(
                "token_carry" if shared == name else name,
                frozen,
                rows,
                num_layers=layers,
                token_by_token=True,
            )
            parallel = run(name, frozen, rows, num_layers=layers)
            if streamed.outputs != parallel.outputs:
                return Finding(False, counterexample=f"{name}, N {layers}, T {loops}")
    return Finding(True)


@claim(
    "L5",
    "one cache a layer is not enough",
    statement="Under rescan one recurrent state a layer, shared by its loops, is cache enough.",
    correction=(
        "Corrected: one state a (layer, loop). One state a layer streams another model, "
        "token_carry; at T = 1 the two are the same."
    ),
    scope="q = k = 1, beta = 1/2, N = 1, T <= 2, L <= 2, inputs (1, 2): none smaller",
    source="LT2's public code keeps one cache a layer; derivation",
    evidence="exact",
    expected="refuted_as_stated",
    hypotheses={
        "one state a (layer, loop)": {"a state for each loop": {"shared": False}},
        "T = 1": {"one loop": {"most_loops": 1}},
    },
)
def shared_state(*, fast: bool, shared: bool = True, most_loops: int = 2) -> Finding:
    """Search T and L in turn; the example of theory.md is checked as it stands at T = L = 2.

    At L = 1 the two differ already, because loop 2 finds what loop 1 has just written.
    """
    first = None
    for loops, length in itertools.product(range(1, most_loops + 1), (1, 2)):
        frozen, rows = scalar_frozen(loops, length), scalars([1, 2][:length])
        right = run("rescan", frozen, rows).outputs[-1]
        streamed = run(
            "token_carry" if shared else "rescan", frozen, rows, token_by_token=True
        ).outputs[-1]
        if right != streamed and first is None:
            first = f"T = {loops}, L = {length}, q = k = 1, beta = 1/2, input 1: loop 2 gives "
            first += f"{read(streamed)} instead of {read(right)}"
    if first is None or (read(right), read(streamed)) != ("(0.25, 0.75)", "(0.5, 1.25)"):
        return Finding(False)
    said = f"{first}; inputs (1, 2) give {read(streamed)} instead of {read(right)}"
    return Finding(True, counterexample=said)


@claim(
    "L7",
    "semiseparable order",
    statement=(
        "The map from one scalar value channel to the last loop's outputs has past-to-future "
        "blocks of rank at most N d_k under token_carry and N T d_k under rescan and accumulate, "
        "and generically exactly that, capped by min(c, L - c)."
    ),
    scope=(
        "every cut of random rational delta-rule stacks, (d_k, N, T) from (1,1,2) to (2,2,2) and "
        "(2,1,3), L = 2 N T d_k + 3, with and without residual; a rank reached once is reached by "
        "all but a null set"
    ),
    source="derivation",
    evidence="exact",
    hypotheses={
        "frozen keys, queries and gates": {"keys that read the values": {"frozen": False}},
        "one scalar value channel": {"two value channels": {"channels": 2}},
        "every loop reads the outputs of the one before": {
            "every loop reads the inputs": {"chained": False}
        },
        "factors in general position (for the equality)": {
            "all keys on one line": {"general": False}
        },
    },
    mutants={
        "token_carry grows with T": {"carried_grows": True},
        "accumulate does not grow with T": {"accumulated_grows": False},
        "one layer's worth for N layers": {"layers_count": False},
    },
)
def order_by_semantics(
    *,
    fast: bool,
    frozen: bool = True,
    channels: int = 1,
    chained: bool = True,
    general: bool = True,
    carried_grows: bool = False,
    accumulated_grows: bool = True,
    layers_count: bool = True,
) -> Finding:
    """Exact maps of all three causal semantics on the same factors."""
    rng = random.Random(8)
    sizes = [(1, 1, 2), (2, 1, 2), (1, 2, 2)]
    if not fast:
        sizes += [(1, 1, 3), (2, 1, 3), (2, 2, 2), (1, 2, 3)]
    for width, layers, loops in sizes:
        length = 2 * width * layers * loops + 3
        own = width * (layers if layers_count else 1)
        orders: dict[Semantics, int] = {
            "rescan": own * loops,
            "accumulate": own * (loops if accumulated_grows else 1),
            "token_carry": own * (loops if carried_grows else 1),
        }
        draws = [random_frozen(rng, layers * loops, length, width) for _ in range(3)]
        draws = draws if general else [on_one_line(f) for f in draws]
        for (name, order), residual in itertools.product(orders.items(), (False, True)):
            maps = [
                map_of(name, f, num_layers=layers, residual=residual, chained=chained)
                for f in draws
            ]
            if chained and not _is_the_map(name, draws[0], maps[0], layers, residual, frozen):
                return Finding(False, counterexample="the map is not linear in the values")
            wide = [cut_ranks(kronecker(m, identity(channels)), channels) for m in maps]
            ranks = [max(at) for at in zip(*wide, strict=True)]
            if ranks != [min(c, length - c, order) for c in range(1, length)]:
                said = f"{name}, d_k {width}, N {layers}, T {loops}: ranks {ranks}"
                return Finding(False, counterexample=said)
    return Finding(True)


def _is_the_map(
    name: Semantics, drawn: Frozen, whole: fmpq_mat, layers: int, residual: bool, frozen: bool
) -> bool:
    """Whether one run on the values 1, 2, ... agrees with the map."""
    values = range(1, whole.nrows() + 1)
    rows = scalars(values)
    own = drawn if frozen else reading_values(drawn, rows)
    outputs = run(name, own, rows, num_layers=layers, residual=residual).outputs[-1]
    return [row[0, 0] for row in outputs] == (whole * column(values)).entries()


@claim(
    "L7",
    "factor steps a token",
    statement="A token costs T(T+1)/2 factor steps a layer under accumulate, T otherwise.",
    scope="T <= 6, N <= 2: counted in the exact reference and in what LoopedModel's op receives",
    source="derivation",
    evidence="exact",
    mutants={
        "accumulate costs T": {"accumulated": "linear"},
        "accumulate costs T^2": {"accumulated": "square"},
    },
    where="a factor step applies the factor of one (layer, loop) and token to one state",
)
def factor_steps(
    *, fast: bool, accumulated: Literal["triangle", "linear", "square"] = "triangle"
) -> Finding:
    """Count applications, rather than derive them."""
    rng = random.Random(9)
    for loops, layers in itertools.product(range(1, 4 if fast else 7), (1, 2)):
        square = {"triangle": loops * (loops + 1) // 2, "linear": loops, "square": loops**2}
        expected: dict[Semantics, int] = {
            "rescan": layers * loops,
            "token_carry": layers * loops,
            "sequence_carry": layers * loops,
            "accumulate": layers * square[accumulated],
        }
        frozen = random_frozen(rng, layers * loops, 3, 1)
        for name, steps in expected.items():
            counted = run(name, frozen, scalars([1, 2, 3]), num_layers=layers).steps
            if counted != 3 * steps:
                return Finding(False, counterexample=f"{name}, T {loops}, N {layers}: {counted}/3")
        for name in ("rescan", "accumulate"):
            received = sum(own.num_factors for own in _received(name, layers, loops))
            if received != expected[name]:
                return Finding(False, counterexample=f"model, {name}, T {loops}, N {layers}")
    return Finding(True, scope="T <= 3, N <= 2, in the reference and the model" if fast else None)


def _received(loop_state: str, layers: int, loops: int) -> list[Factors]:
    """What the op of every (layer, loop) receives."""
    config = {"vocab_size": 3, "width": 4, "num_heads": 1, "num_layers": layers, "ffn_width": 0}
    fields = {**config, "num_loops": loops, "loop_state": loop_state, "pattern": "deltanet"}
    model = LoopedModel(LoopedConfig.model_validate(fields))
    trace = model.trace(torch.zeros(1, 3, dtype=torch.int64))
    return [factors for _, _, factors in received_factors(trace)]


CLAIMS: tuple[Claim, ...] = (exact_streaming, shared_state, order_by_semantics, factor_steps)
