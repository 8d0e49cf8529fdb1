import pytest
import torch

from lt2theory.ops import softmax_attention

# float64: the same sums in another order. float32: 1e-5, the precision of a softmax over 300 keys.
FLOAT64 = 1e-12
FLOAT32 = 1e-5

SHAPES = [(1, 1), (1, 5), (7, 7), (5, 9), (65, 65), (130, 130), (100, 133), (97, 300)]


def problem(length, num_keys, key_heads=2, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((2, length, 4, 6), (2, num_keys, key_heads, 6), (2, num_keys, key_heads, 3))
    return tuple(
        torch.randn(s, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for s in shapes
    )


def segments(kind, length, num_keys):
    """Keyword arguments: no segments, left padding, or packed documents behind padding."""
    if kind == "none":
        return {}
    ids = torch.zeros(2, num_keys, dtype=torch.int64)
    if kind == "documents":
        ids = torch.arange(num_keys).repeat(2, 1) // 11
    ids[0, : num_keys // 3] = -1
    if kind == "all padding":
        ids[1] = -1
    return {"query_segments": ids[:, num_keys - length :], "key_segments": ids}


def with_gradients(tensors, backend, **settings):
    output = softmax_attention(*tensors, backend=backend, **settings)
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.dtype)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), tensors)]


@pytest.mark.parametrize(("length", "num_keys"), SHAPES)
@pytest.mark.parametrize("window", [None, 1, 3, 8, 40, 64, 500])
@pytest.mark.parametrize("kind", ["none", "padding", "documents", "all padding"])
def test_equals_reference(length, num_keys, window, kind):
    tensors = problem(length, num_keys)
    settings = {"window": window, **segments(kind, length, num_keys)}
    expected = with_gradients(tensors, "reference", **settings)
    actual = with_gradients(tensors, "chunked", **settings)
    for found, target in zip(actual, expected, strict=True):
        torch.testing.assert_close(found, target, atol=FLOAT64, rtol=0)
    if settings.get("query_segments") is not None:
        padding = settings["query_segments"] == -1
        assert (actual[0][padding] == 0).all()
        assert (actual[1][padding] == 0).all()


@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("window", [None, 16])
def test_grouped_heads(key_heads, window):
    tensors = problem(70, 70, key_heads)
    expected = with_gradients(tensors, "reference", window=window)
    for found, target in zip(
        with_gradients(tensors, "chunked", window=window), expected, strict=True
    ):
        torch.testing.assert_close(found, target, atol=FLOAT64, rtol=0)


@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.parametrize("kind", ["none", "documents"])
def test_float32(window, kind):
    narrow = problem(97, 300, dtype=torch.float32)
    wide = tuple(x.detach().double().requires_grad_() for x in narrow)
    settings = {"window": window, **segments(kind, 97, 300)}
    expected = with_gradients(wide, "reference", **settings)
    actual = with_gradients(narrow, "chunked", **settings)
    for found, target in zip(actual, expected, strict=True):
        torch.testing.assert_close(found.double(), target, atol=FLOAT32, rtol=FLOAT32)


def test_window_memory_grows_with_the_length_only():
    """The largest tensor made on the way, counted by a dispatch mode."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for x in result if isinstance(result, tuple) else (result,):
                if isinstance(x, torch.Tensor):
                    self.numbers = max(self.numbers, x.numel())
            return result

    def largest(length):
        x = torch.ones(1, length, 1, 4)
        with Largest() as mode:
            softmax_attention(x, x, x, window=32, backend="chunked")
        return mode.numbers

    assert largest(2048) == 2 * largest(1024)
