import math

import pytest
import torch

from lt2theory.ops import softmax_attention
from lt2theory.ops.attention_reference import repeat_key_heads


def one_output(q, keys, values, scale):
    """Softmax attention of one query over the keys it sees, with plain Python sums."""
    scores = [scale * sum(float(a * b) for a, b in zip(q, k, strict=True)) for k in keys]
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    total = sum(weights)
    return sum(w / total * v for w, v in zip(weights, values, strict=True))


@pytest.mark.conforms("values", mixer=("full", "window"), backend="reference")
@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize("segmented", [False, True])
def test_equals_a_loop_over_queries(window, past, segmented):
    generator = torch.Generator().manual_seed(0)
    length, num_keys = 7, 7 + past
    q = torch.randn(2, length, 4, 3, generator=generator, dtype=torch.float64)
    k = torch.randn(2, num_keys, 2, 3, generator=generator, dtype=torch.float64)
    v = torch.randn(2, num_keys, 2, 5, generator=generator, dtype=torch.float64)
    segments = torch.zeros(2, num_keys, dtype=torch.int64)
    if segmented:
        segments[0, 5:], segments[1, :6] = 1, -1
    extra = {}
    if segmented:
        extra = {"query_segments": segments[:, past:], "key_segments": segments}
    output = softmax_attention(q, k, v, window=window, scale=0.7, backend="reference", **extra)
    for b in range(2):
        for i in range(length):
            at = past + i
            first = 0 if window is None else max(0, at - window + 1)
            seen = [j for j in range(first, at + 1) if segments[b, j] == segments[b, at] >= 0]
            for h in range(4):
                expected = torch.zeros(5, dtype=torch.float64)
                if seen:
                    expected = one_output(q[b, i, h], k[b, seen, h // 2], v[b, seen, h // 2], 0.7)
                torch.testing.assert_close(output[b, i, h], expected, atol=1e-12, rtol=0)


def test_second_derivatives():
    generator = torch.Generator().manual_seed(0)
    tensors = [
        torch.randn(1, 4, 1, 2, generator=generator, dtype=torch.float64, requires_grad=True)
        for _ in range(3)
    ]
    segments = torch.tensor([[-1, 0, 0, 1]])

    def run(q, k, v):
        return softmax_attention(
            q, k, v, query_segments=segments, key_segments=segments, backend="reference"
        )

    assert torch.autograd.gradcheck(run, tensors)
    assert torch.autograd.gradgradcheck(run, tensors)


def test_repeat_key_heads():
    x = torch.arange(2.0).view(1, 1, 2, 1)
    assert repeat_key_heads(x, 6).flatten().tolist() == [0, 0, 0, 1, 1, 1]
