"""Definitions of the stability instruments against direct computations."""

import math

import pytest
import torch

from lt2theory.analysis import attention_weights
from lt2theory.analysis.instruments import (
    ALPHA_EDGES,
    BETA_EDGES,
    counts_in_bins,
    first_token_share,
    key_coherence,
    massive,
    token_rms,
)
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.ops.factors import AttentionInputs


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_sizes_of_a_stream():
    h = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.bfloat16)
    assert token_rms(h).dtype == torch.float32
    assert token_rms(h).tolist() == pytest.approx([math.sqrt(12.5), 0.0])
    assert massive(h).item() == pytest.approx(4 / math.sqrt(25 / 4))
    assert math.isnan(massive(torch.zeros(2, 2)).item())


@pytest.mark.parametrize("pattern", ["full", "window", "nsa", "dsa"])
@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_share_is_the_column_of_the_dense_weights(pattern, backend):
    """The op reads it, without weights of queries times keys, as the dense twin has it."""
    config = LoopedConfig(
        vocab_size=7,
        width=32,
        num_heads=4,
        num_kv_heads=2,
        num_layers=1,
        pattern=pattern,
        window=5,
        block_size=4,
        num_blocks=2,
        top_k=6,
        index_heads=2,
        index_dim=8,
    )
    tokens = torch.randint(0, 7, (2, 19), generator=torch.Generator().manual_seed(1))
    trace = LoopedModel(config).double().trace(tokens)
    inputs = trace.factors[0, 0]
    starts = torch.zeros(2, 19, dtype=torch.bool)
    starts[:, 0] = True
    weights = attention_weights(inputs)
    expected = (weights[..., 0] / weights.sum(-1)).mT
    share = first_token_share(inputs, starts, backend=backend)
    assert share.shape == (2, 19, 4)
    torch.testing.assert_close(share, expected)


def test_every_segment_has_a_first_token_of_its_own():
    inputs = AttentionInputs(random(1, 9, 2, 4), random(1, 9, 2, 4, seed=1), random(1, 9, 2, 4))
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1]])
    starts = torch.tensor([[1, 0, 0, 0, 1, 0, 0, 0, 0]], dtype=torch.bool)
    share = first_token_share(inputs, starts, segments=segments)
    for part in (slice(0, 4), slice(4, 9)):
        alone = AttentionInputs(inputs.q[:, part], inputs.k[:, part], inputs.v[:, part])
        own = starts[:, part]
        torch.testing.assert_close(share[:, part], first_token_share(alone, own))
    torch.testing.assert_close(share[starts], torch.ones(2, 2, dtype=torch.float64))


def test_a_query_that_reads_nothing_has_no_share():
    inputs = AttentionInputs(random(1, 3, 1, 2), random(1, 3, 1, 2), random(1, 3, 1, 1))
    padding = torch.tensor([[-1, 0, 0]])
    starts = torch.tensor([[False, True, False]])
    share = first_token_share(inputs, starts, segments=padding)
    assert share[0, 0].item() == 0
    assert share[0, 1].item() == 1


def test_coherence_of_keys():
    keys = torch.tensor([[1.0, 0.0], [-2.0, 0.0], [0.0, 3.0]])
    largest, mean = key_coherence(keys)
    assert largest.item() == 1
    assert mean.item() == pytest.approx(1 / 3)
    assert math.isnan(key_coherence(keys[:1])[0].item())


def test_bins_have_their_lower_edge():
    x = torch.tensor([0.0, 0.05, 0.1, 1.0, 2.0, 2.5], dtype=torch.float64)
    counts = counts_in_bins(x, BETA_EDGES)
    assert len(counts) == 20
    assert {i: n for i, n in enumerate(counts.tolist()) if n} == {0: 2, 1: 1, 10: 1, 19: 2}
    assert list(ALPHA_EDGES) == sorted(set(ALPHA_EDGES))
    assert counts_in_bins(torch.tensor([1.0]), ALPHA_EDGES)[-1].item() == 1
