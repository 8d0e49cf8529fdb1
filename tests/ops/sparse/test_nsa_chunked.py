import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import lt2theory.ops.sparse.nsa_chunked
from lt2theory.ops import native_sparse_attention

# float64: the same sums in another order. float32: 1e-5, the precision of a softmax over 300 keys.
FLOAT64 = 1e-12
FLOAT32 = 1e-5

SHAPES = [(1, 1), (1, 5), (3, 3), (7, 7), (5, 9), (65, 65), (50, 133)]


def problem(length, num_keys, key_heads=2, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = (
        (2, length, 4, 6),
        (2, num_keys, key_heads, 6),
        (2, num_keys, key_heads, 3),
        (2, length, 4, 3),
    )
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
    sizes = {"block_size": 4, "num_blocks": 3, "window": 7}
    output = native_sparse_attention(*tensors, backend=backend, **{**sizes, **settings})
    generator = torch.Generator().manual_seed(1)
    weights = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.dtype)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), tensors)]


def compare(tensors, **settings):
    expected = with_gradients(tensors, "reference", **settings)
    actual = with_gradients(tensors, "chunked", **settings)
    for found, target in zip(actual, expected, strict=True):
        torch.testing.assert_close(found, target, atol=FLOAT64, rtol=0)
    return actual


@pytest.fixture(params=["one chunk", "many chunks"])
def _chunks(request, monkeypatch):
    if request.param == "many chunks":
        monkeypatch.setattr(lt2theory.ops.sparse.nsa_chunked, "_GATHERED_NUMBERS", 0)
        monkeypatch.setattr(lt2theory.ops.sparse.nsa_chunked, "_MIN_CHUNK", 6)


@pytest.mark.usefixtures("_chunks")
@pytest.mark.parametrize(("length", "num_keys"), SHAPES)
@pytest.mark.parametrize(("block_size", "num_blocks"), [(1, 3), (4, 1), (5, 2), (4, 100), (64, 2)])
@pytest.mark.parametrize("kind", ["none", "padding", "documents", "all padding"])
def test_equals_reference(length, num_keys, block_size, num_blocks, kind):
    settings = segments(kind, length, num_keys)
    actual = compare(
        problem(length, num_keys), block_size=block_size, num_blocks=num_blocks, **settings
    )
    if settings:
        padding = settings["query_segments"] == -1
        assert (actual[0][padding] == 0).all()
        assert (actual[1][padding] == 0).all()


@pytest.mark.usefixtures("_chunks")
@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("window", [1, None])
def test_grouped_heads(key_heads, window):
    compare(problem(41, 41, key_heads), window=window)


@pytest.mark.usefixtures("_chunks")
@pytest.mark.parametrize("kind", ["none", "documents"])
def test_float32(kind):
    narrow = problem(97, 300, dtype=torch.float32)
    wide = tuple(x.detach().double().requires_grad_() for x in narrow)
    settings = segments(kind, 97, 300)
    expected = with_gradients(wide, "reference", **settings)
    actual = with_gradients(narrow, "chunked", **settings)
    for found, target in zip(actual, expected, strict=True):
        torch.testing.assert_close(found.double(), target, atol=FLOAT32, rtol=FLOAT32)


@pytest.mark.usefixtures("_chunks")
def test_of_equal_blocks_the_earlier_is_selected():
    """Every key is zero, so that all blocks are equally important; the values tell them apart."""
    q, k, v, gates = (torch.zeros_like(x) for x in problem(23, 23))
    v[:] = torch.arange(23.0, dtype=torch.float64)[None, :, None, None]
    gates[..., 1] = 1
    for backend in ("reference", "chunked"):
        output = native_sparse_attention(
            q, k, v, gates, block_size=4, num_blocks=3, window=1, backend=backend
        )
        # Tokens 0 to 7 are the first two blocks, and 20 to 22 the last query's own.
        expected = torch.full_like(output[:, 22], (sum(range(8)) + 20 + 21 + 22) / 11)
        torch.testing.assert_close(output[:, 22], expected, atol=FLOAT64, rtol=0)


class Largest(TorchDispatchMode):
    """Notes the most numbers that a tensor made inside has."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple) else (result,):
            if isinstance(x, torch.Tensor):
                self.numbers = max(self.numbers, x.numel())
        return result


def test_nothing_has_the_size_of_queries_times_keys(monkeypatch):
    monkeypatch.setattr(lt2theory.ops.sparse.nsa_chunked, "_GATHERED_NUMBERS", 2**16)

    def largest(length):
        x = torch.ones(1, length, 1, 4, requires_grad=True)
        gates = torch.ones(1, length, 1, 3)
        with Largest() as mode:
            output = native_sparse_attention(
                x, x, x, gates, block_size=16, num_blocks=4, window=32, backend="chunked"
            )
            output.sum().backward()
        return mode.numbers

    # Double at most: what a chunk gathers does not grow, what a token has does.
    assert largest(2048) <= 2 * largest(1024) < 2048 * 2048 / 8


def test_what_is_kept_for_the_way_back_is_little(monkeypatch):
    """Only inputs: chunks are computed again."""
    monkeypatch.setattr(lt2theory.ops.sparse.nsa_chunked, "_GATHERED_NUMBERS", 2**16)

    def kept(length):
        x = torch.ones(1, length, 1, 4, requires_grad=True)
        gates = torch.ones(1, length, 1, 3)
        found = {}

        def pack(t):
            found[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            native_sparse_attention(
                x, x, x, gates, block_size=16, num_blocks=4, window=32, backend="chunked"
            )
        return sum(found.values())

    gathered = 4 * 2048 * 64 * (4 + 4)
    assert kept(2048) < gathered / 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    """One narrow input, so that both compute the same scores and select the same blocks."""
    q, k, v, gates = (x.detach() for x in problem(70, 70, dtype=dtype))
    settings = {"block_size": 4, "num_blocks": 3, "window": 7}
    exact = native_sparse_attention(
        q.double(), k.double(), v.double(), gates.double(), backend="reference", **settings
    )
    for given in (gates, gates.float()):
        output = native_sparse_attention(q, k, v, given, backend="chunked", **settings)
        assert output.dtype == dtype
        # Three branches, rounded a few times to the narrow type.
        torch.testing.assert_close(output.double(), exact, atol=24 * torch.finfo(dtype).eps, rtol=0)


@pytest.mark.parametrize(("length", "num_keys"), [(1, 1), (9, 9), (5, 23)])
@pytest.mark.parametrize("kind", ["none", "documents"])
def test_blocks_beyond_the_text_cost_nothing(length, num_keys, kind):
    """Sizes that would fill any memory, were they gathered."""
    tensors = problem(length, num_keys)
    for block_size in (num_keys, num_keys + 1, 2**40):
        settings = {"block_size": block_size, "num_blocks": 2**40}
        compare(tensors, **settings, **segments(kind, length, num_keys))
