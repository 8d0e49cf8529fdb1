"""What each recurrence received, against the model's own outputs."""

from dataclasses import replace

import torch

from lt2theory.analysis import received_factors
from lt2theory.analysis.received import token_range
from lt2theory.ops import run_factors


def test_rescan_receives_its_own_and_accumulate_all_earlier_ones(make_trace):
    for loop_state, expected in (("rescan", [1, 1, 1]), ("accumulate", [1, 2, 3])):
        trace = make_trace("full,kda", num_loops=3, loop_state=loop_state)
        received = list(received_factors(trace))
        assert [(layer, loop) for layer, loop, _ in received] == [(1, 0), (1, 1), (1, 2)]
        assert [factors.num_factors for *_, factors in received] == expected
        for _, loop, factors in received:
            torch.testing.assert_close(factors.k[:, :, -1:], trace.factors[1, loop].k)
            assert not factors.k.requires_grad


def test_is_float64_whatever_the_model_computed_in(make_trace):
    trace = make_trace()
    single = {
        place: type(f)(f.q.float(), f.k.float(), f.v.float(), f.log_decay.float(), f.beta.float())
        for place, f in trace.factors.items()
    }
    trace.factors.update(single)
    for *_, factors in received_factors(trace):
        tensors = (factors.q, factors.k, factors.v, factors.log_decay, factors.beta)
        assert {x.dtype for x in tensors} == {torch.float64}


def test_skip_is_widened_with_the_rest(make_trace):
    trace = make_trace("mamba2")
    trace.factors.update(
        {place: replace(f, skip=f.skip.float()) for place, f in trace.factors.items()}
    )
    received = list(received_factors(trace))
    assert {f.skip.dtype for *_, f in received} == {torch.float64}
    assert not any(f.skip.requires_grad for *_, f in received)


def test_token_ranges_continue_one_another(make_trace):
    *_, (_, _, factors) = received_factors(make_trace("kda", loop_state="accumulate"))
    whole, last = run_factors(factors, backend="reference")
    first, state = run_factors(token_range(factors, 0, 4), backend="reference")
    second, state = run_factors(
        token_range(factors, 4, 9), initial_state=state, backend="reference"
    )
    torch.testing.assert_close(torch.cat([first, second], 1), whole)
    torch.testing.assert_close(state, last)
