import math

import pytest
import torch

from lt2theory.ops import native_sparse_attention


def attend(q, keys, values, scale):
    """Probabilities and output of one query over the keys it sees, with plain Python sums."""
    if not len(keys):
        return [], torch.zeros(values.shape[-1], dtype=torch.float64)
    scores = [scale * sum(float(a * b) for a, b in zip(q, k, strict=True)) for k in keys]
    weights = [math.exp(score - max(scores)) for score in scores]
    shares = [w / sum(weights) for w in weights]
    return shares, sum(p * v for p, v in zip(shares, values, strict=True))


def one_query(q, k, v, gates, at, *, block_size, num_blocks, window, scale):
    """All query heads `[r k]` of one key head, over the keys `[m k]` of the query's own segment."""
    own = at // block_size
    complete = (at + 1) // block_size
    pooled_k, pooled_v = (
        x[: complete * block_size].unflatten(0, (complete, block_size)).mean(1) for x in (k, v)
    )
    compressed = [attend(head, pooled_k, pooled_v, scale) for head in q]
    importance = [sum(shares[c] for shares, _ in compressed) for c in range(min(own, complete))]
    best = sorted(range(len(importance)), key=lambda c: (-importance[c], c))[: num_blocks - 1]
    chosen = [i for c in sorted(best) for i in range(c * block_size, (c + 1) * block_size)]
    chosen += range(own * block_size, at + 1)
    near = list(range(max(0, at - window + 1), at + 1))
    return torch.stack(
        [
            g[0] * compressed[r][1]
            + g[1] * attend(head, k[chosen], v[chosen], scale)[1]
            + g[2] * attend(head, k[near], v[near], scale)[1]
            for r, (head, g) in enumerate(zip(q, gates, strict=True))
        ]
    )


@pytest.mark.conforms("values", mixer="nsa")
@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize(("past", "num_blocks"), [(0, 1), (0, 3), (8, 2)])
def test_equals_a_loop_over_queries(backend, key_heads, segmented, past, num_blocks):
    generator = torch.Generator().manual_seed(0)
    length, num_keys = 19, 19 + past

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q, k, v = (
        normal(2, length, 4, 3),
        normal(2, num_keys, key_heads, 3),
        normal(2, num_keys, key_heads, 5),
    )
    gates = normal(2, length, 4, 3)
    segments = torch.zeros(2, num_keys, dtype=torch.int64)
    if segmented:  # documents of lengths that are no multiples of a block, and padding between
        segments[0, 5:], segments[0, 6:8], segments[1, :7] = 1, -1, -1
    settings = {"block_size": 4, "num_blocks": num_blocks, "window": 3, "scale": 0.7}
    extra = {"query_segments": segments[:, past:], "key_segments": segments} if segmented else {}
    output = native_sparse_attention(q, k, v, gates, backend=backend, **settings, **extra)
    shared = 4 // key_heads
    for b in range(2):
        for i in range(length):
            at = past + i
            if segments[b, at] < 0:
                assert (output[b, i] == 0).all()
                continue
            first = at
            while first > 0 and segments[b, first - 1] == segments[b, at]:
                first -= 1
            for g in range(key_heads):
                heads = slice(g * shared, (g + 1) * shared)
                expected = one_query(
                    q[b, i, heads],
                    k[b, first : at + 1, g],
                    v[b, first : at + 1, g],
                    gates[b, i, heads],
                    at - first,
                    **settings,
                )
                torch.testing.assert_close(output[b, i, heads], expected, atol=1e-12, rtol=0)


def test_second_derivatives():
    generator = torch.Generator().manual_seed(0)
    shapes = ((1, 6, 2, 2), (1, 6, 1, 2), (1, 6, 1, 2), (1, 6, 2, 3))
    tensors = [
        torch.randn(s, generator=generator, dtype=torch.float64, requires_grad=True) for s in shapes
    ]
    segments = torch.tensor([[-1, 0, 0, 0, 0, 0]])

    def run(q, k, v, gates):
        return native_sparse_attention(
            q,
            k,
            v,
            gates,
            block_size=2,
            num_blocks=2,
            window=2,
            query_segments=segments,
            key_segments=segments,
            backend="reference",
        )

    assert torch.autograd.gradcheck(run, tensors)
    assert torch.autograd.gradgradcheck(run, tensors)
