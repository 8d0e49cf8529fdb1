"""Joined factors against the state of the op that received them."""

import torch

from lt2theory.analysis import compose_factors, composed_factors
from lt2theory.ops import linear_recurrence


def test_accumulate_composes_what_the_state_went_through(make_trace):
    """With values set aside, the op's own state is the composed operator times the start."""
    signs = {"negative_eigenvalues": True}
    trace = make_trace("kda", 7, loop_state="accumulate", num_layers=1, num_loops=3, **signs)
    *_, last = composed_factors(trace, span=7)
    joined = None
    for loop in range(3):
        joined = trace.factors[0, loop].after(joined)
    start = torch.randn(3, 2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    _, state = linear_recurrence(
        joined.q,
        joined.k,
        0 * joined.v,
        log_decay=joined.log_decay,
        beta=joined.beta,
        initial_state=start,
        return_state=True,
        backend="reference",
    )
    operator = compose_factors(last.keys, last.betas, last.log_decays, last.order)
    torch.testing.assert_close(operator.apply(start[:, None])[:, 0], state, rtol=1e-10, atol=1e-12)
