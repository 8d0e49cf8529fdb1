"""How the work of an analysis is bounded: fewer rows, fewer loops."""

import pytest
import torch

from lt2theory.analysis import received_factors
from lt2theory.experiments.analysis_tables import first_rows, shown_loops
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.ops import run_factors, run_normalised


def test_loops_are_spread_with_both_ends():
    assert shown_loops(3) == [1, 2, 3]
    assert shown_loops(16) == [1, 2, 3, 5, 9, 16]


@pytest.mark.parametrize("pattern", ["mamba2", "mlstm", "gated_deltaproduct"])
def test_first_rows_run_as_they_did_in_the_batch(pattern):
    """Every field of the factors is cut that has a batch axis, and no other."""
    config = LoopedConfig(vocab_size=5, width=8, num_heads=4, num_loops=2, pattern=pattern)
    tokens = torch.randint(5, (3, 6), generator=torch.Generator().manual_seed(0))
    trace = LoopedModel(config, generator=torch.Generator().manual_seed(1)).double().trace(tokens)
    for factors in trace.factors.values():
        if factors.skip is not None:  # alike at the start, which would hide a wrong cut
            factors.skip.data.copy_(torch.arange(4.0))
    pairs = zip(received_factors(trace), received_factors(first_rows(trace, 1)), strict=True)
    for (*_, whole), (*_, part) in pairs:
        run = run_factors if whole.log_write is None else run_normalised
        torch.testing.assert_close(run(part)[0], run(whole)[0][:1])
