import pytest
import torch

from lt2theory.bench.ops import Size, make_factors
from lt2theory.bench.token_loops import tight_loop, token_loop
from lt2theory.ops import run_factors


@pytest.mark.parametrize("loop", [token_loop, tight_loop])
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
@pytest.mark.parametrize("erases", [False, True])
@pytest.mark.parametrize("num_factors", [1, 2])
def test_baselines_compute_the_recurrence(loop, decay, erases, num_factors):
    factors = make_factors(Size(2, 9, 2, 4, num_factors), decay=decay, erases=erases)
    expected = run_factors(factors, backend="reference", return_state=False)
    torch.testing.assert_close(loop(factors), expected, atol=1e-6, rtol=1e-5)
