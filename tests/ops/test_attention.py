import pytest
import torch

from lt2theory.ops import softmax_attention

BACKENDS = ["reference", "chunked", "auto"]


def tensors(length=5, num_keys=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, length, 4, 6), (2, num_keys, 2, 6), (2, num_keys, 2, 3))
    return [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("window", [None, 8, 40])
def test_receptive_field(backend, window):
    """A changed token moves its own output and later ones, up to the window, and no other."""
    q, k, v = tensors(100, 100)
    before = softmax_attention(q, k, v, window=window, backend=backend)
    for position in (0, 31, 32, 99):
        changed = k.clone()
        changed[:, position] += 1
        after = softmax_attention(q, changed, v, window=window, backend=backend)
        moved = (after != before).flatten(2).any(-1).all(0).nonzero().flatten().tolist()
        # With a single key in sight its weight is 1 whatever the key.
        first = max(position, 1)
        last = 99 if window is None else min(99, position + window - 1)
        assert moved == list(range(first, last + 1))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("window", [None, 7])
def test_cached_keys_give_the_same_as_the_whole(backend, window):
    q, k, v = tensors(100, 100)
    whole = softmax_attention(q, k, v, window=window, backend=backend)
    for start, stop in ((0, 40), (40, 41), (41, 100)):
        part = softmax_attention(
            q[:, start:stop], k[:, :stop], v[:, :stop], window=window, backend=backend
        )
        torch.testing.assert_close(part, whole[:, start:stop], atol=1e-12, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_keys", [0, 3])
@pytest.mark.parametrize("window", [None, 2])
def test_no_queries(backend, num_keys, window):
    q, k, v = tensors(0, num_keys)
    output = softmax_attention(q, k, v, window=window, backend=backend)
    assert output.shape == (2, 0, 4, 3)
    assert output.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 16])
def test_half_precision(dtype, window):
    q, k, v = tensors(70, 70, dtype)
    output = softmax_attention(q, k, v, window=window, backend="chunked")
    exact = softmax_attention(
        q.double(), k.double(), v.double(), window=window, backend="reference"
    )
    assert output.dtype == dtype
    # Weights and outputs are rounded a few times to the narrow type.
    torch.testing.assert_close(output.double(), exact, atol=8 * torch.finfo(dtype).eps, rtol=0)


IDS = torch.zeros(2, 5, dtype=torch.int64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.ones(2, 5, 4)}, "q must have 4 axes"),
        ({"q": torch.ones(2, 5, 4, 6, dtype=torch.int64)}, "q must be of q's floating dtype"),
        ({"k": torch.ones(2, 5, 2, 6)}, "k must be of q's floating dtype torch.float64"),
        (
            {"k": torch.ones(2, 4, 2, 6).double()},
            r"k must have shape \(2, at least 5, key head, 6\)",
        ),
        (
            {"k": torch.ones(2, 5, 2, 7).double()},
            r"k must have shape \(2, at least 5, key head, 6\)",
        ),
        (
            {"k": torch.ones(2, 5, 3, 6).double()},
            "k must have a number of heads that divides 4, got 3",
        ),
        ({"v": torch.ones(2, 5, 4, 3).double()}, "v must have shape .* to match k"),
        ({"window": 0}, "window must be at least 1 or None, got 0"),
        ({"query_segments": IDS}, "key_segments must be given"),
        ({"key_segments": IDS}, "query_segments must be given"),
        (
            {"query_segments": IDS[:, 1:], "key_segments": IDS},
            r"query_segments must have shape \(2, 5\), got \(2, 4\)",
        ),
        (
            {"query_segments": IDS, "key_segments": IDS.int()},
            "key_segments must be torch.int64, got torch.int32",
        ),
        (
            {"backend": "flash"},
            "backend of .*: 'flash' is not allowed.*choose from auto, reference, chunked, fla, tri",
        ),
    ],
)
def test_wrong_arguments_are_named(change, message):
    given = dict(zip("qkv", tensors(), strict=True))
    with pytest.raises(ValueError, match=message):
        softmax_attention(**{**given, **change})
