"""L1 on the factors that a rescanning model really received."""

import torch
from flint import fmpq

from lt2theory.analysis import received_factors
from lt2theory.models import LoopedConfig, LoopedModel
from proofs_checks.claim import Claim, Finding, claim
from proofs_checks.exact import column, factor
from proofs_checks.loop_states import Step, cut_ranks, map_of


@claim(
    "L1",
    "on the factors that a model received",
    statement=(
        "The factors that a rescanning DeltaNet received, read as the exact fractions that their "
        "floating-point numbers are, give past-to-future blocks of rank min(c, L - c, T d_k) on "
        "one scalar value channel, with and without a residual."
    ),
    scope="one LoopedModel at its start, N = H = 1, d_k = 2, L = 11, T <= 3",
    source="derivation; LT2, section 3 and App. B.1, for the sentence that L1 replaces",
    evidence="exact",
    mutants={"the order stays d_k": {"grows": False}, "one loop left out": {"drop": 1}},
)
def order_of_a_model(*, fast: bool, grows: bool = True, drop: int = 0) -> Finding:
    """Take the trace's keys, queries and betas over into exact arithmetic."""
    length, width = 11, 2
    for loops in (1, 2) if fast else (1, 2, 3):
        frozen = _received(loops, length, width)
        order = width * (loops if grows else 1)
        for residual in (False, True):
            ranks = cut_ranks(map_of("rescan", frozen[drop:] or frozen, residual=residual))
            if ranks != [min(c, length - c, order) for c in range(1, length)]:
                return Finding(False, counterexample=f"T {loops}: ranks {ranks}")
    return Finding(
        True, scope=f"one LoopedModel at its start, N = H = 1, d_k = 2, L = 11, T <= {loops}"
    )


def _received(loops: int, length: int, width: int) -> list[list[Step]]:
    """The steps of a model's only layer and head, in every loop."""
    config = LoopedConfig(
        vocab_size=7,
        width=width,
        num_layers=1,
        num_loops=loops,
        num_heads=1,
        pattern="deltanet",
        conv_width=0,
        init_std=0.5,
        backend="reference",
    )
    tokens = torch.randint(7, (1, length), generator=torch.Generator().manual_seed(0))
    places = []
    for _, _, factors in received_factors(LoopedModel(config).double().trace(tokens)):
        assert factors.beta is not None, "a delta rule erases"
        steps = []
        for t in range(length):
            key = column([_fraction(x) for x in factors.k[0, t, 0, 0].tolist()])
            query = column([_fraction(x) for x in factors.q[0, t, 0].tolist()])
            beta = _fraction(float(factors.beta[0, t, 0, 0]))
            steps.append(Step(factor(key, beta, None, order="decay_first"), key * beta, query))
        places.append(steps)
    return places


def _fraction(number: float) -> fmpq:
    return fmpq(*number.as_integer_ratio())


CLAIMS: tuple[Claim, ...] = (order_of_a_model,)
