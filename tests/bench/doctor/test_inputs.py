import pytest
import torch

from lt2theory.bench.doctor.inputs import cast, prepare, split, tensors_of
from lt2theory.mixers import MIXERS
from lt2theory.ops import run_factors
from lt2theory.ops.factors import Factors


@pytest.mark.parametrize("mixer", MIXERS)
def test_inputs_are_the_mixers_own_and_continue_where_they_were_cut(mixer):
    whole = prepare(mixer, width=16, length=7)
    first, rest = split(whole, 3)
    assert first.q.shape[1] == 3
    assert rest.q.shape[1] == 4
    if isinstance(whole, Factors) and whole.log_write is None:
        expected, state = run_factors(whole, backend="reference")
        _, before = run_factors(first, backend="reference")
        found, after = run_factors(rest, initial_state=before, backend="reference")
        torch.testing.assert_close(found, expected[:, 3:])
        torch.testing.assert_close(after, state)
    elif not isinstance(whole, Factors):
        assert rest.k is whole.k
    half = cast(whole, torch.bfloat16, "cpu")
    assert all(x.dtype == torch.bfloat16 for x in tensors_of(half).values())
