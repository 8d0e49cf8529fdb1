"""The kernels for long streams of wide heads, which prepare all chunks at once.

In Triton's interpreter on any machine, where the parts of numbers are float32 numbers of 8 bits,
and on a GPU where there is one.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from lt2theory.ops import Factors, explain_recurrence
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.selftest import TOLERANCES
from lt2theory.ops.triton_delta import ahead, op, route
from lt2theory.ops.triton_delta.recurrence import ahead_recurrence, triton_recurrence
from lt2theory.ops.triton_delta.tiles import AheadTiles, ahead_tiles, goes_ahead

Make = Callable[..., Factors]

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
EXACT = 2e-5  # relative Euclidean norm: read-outs of 16 bits, sums of float32

TENSORS = ("q", "k", "v", "log_decay", "beta", "write")


def mapped(factors: Factors, change: Callable[[Tensor], Tensor]) -> Factors:
    tensors = {name: getattr(factors, name) for name in TENSORS}
    return replace(factors, **{n: None if x is None else change(x) for n, x in tensors.items()})


def state_of(factors: Factors) -> Tensor:
    batch, _, heads, width = factors.q.shape
    shape = (batch, heads, width, factors.v.shape[-1])
    return torch.randn(shape, generator=torch.Generator().manual_seed(9))


def compare(factors: Factors, device: str, state: Tensor | None = None) -> None:
    """Values; the reference gets the same numbers in float64."""
    wanted = reference_recurrence(
        mapped(factors, Tensor.double), None if state is None else state.double()
    )
    here = mapped(factors, lambda x: x.to(device))
    found = ahead_recurrence(here, None if state is None else state.to(device))
    assert found[0].dtype == factors.v.dtype
    assert found[1].dtype == torch.float32
    bound = EXACT if device == "cpu" else TOLERANCES[factors.q.dtype]
    for name, x, want in zip(("output", "state"), found, wanted, strict=True):
        error = (x.cpu().double() - want).norm() / want.norm()
        assert error <= bound, f"{name}: {error:.1e}"


@pytest.fixture
def poisoned() -> Iterator[None]:
    """Buffers begin as NaN, so that what is read before it is written shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("length", "num_factors", "widths", "decay", "beta", "write"),
    [
        (1, 1, (16, 16), "scalar", "uniform", False),
        (67, 1, (96, 192), "scalar", "uniform", False),
        (65, 1, (64, 64), "none", 2.0, False),
        (23, 3, (40, 72), "scalar", "uniform", True),
        (9, 2, (5, 3), "none", "uniform", True),
        (33, 1, (128, 256), "scalar", "uniform", False),
        (70, 1, (80, 130), "scalar", None, True),
        (33, 1, (32, 16), "none", None, False),
    ],
)
def test_values(
    make_factors: Make,
    device: str,
    length: int,
    num_factors: int,
    widths: tuple[int, int],
    decay: str,
    beta: str | float | None,
    write: bool,
) -> None:
    factors = make_factors(
        length=length, num_factors=num_factors, key_width=widths[0], value_width=widths[1],
        batch=1, decay=decay, beta=beta, write=write, dtype=torch.float32,
    )  # fmt: skip
    compare(replace(factors, scale=0.7), device, state_of(factors))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("log_steps", [5, 6])
@pytest.mark.parametrize("more_keys", [0, 16])
def test_chunks_of_every_size(
    make_factors: Make,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    log_steps: int,
    more_keys: int,
) -> None:
    """And programs that share the values of a head."""
    tiles = AheadTiles(16, more_keys, 16, log_steps)
    monkeypatch.setattr(ahead, "ahead_tiles", lambda keys, values: tiles)
    factors = make_factors(
        length=131, key_width=16 + more_keys // 2, value_width=40, decay="scalar-mixed",
        beta="uniform", dtype=torch.float32,
    )  # fmt: skip
    compare(factors, device, state_of(factors))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("decay", ["scalar-reset", "scalar-strong", "scalar-one"])
def test_any_decay(make_factors: Make, device: str, decay: str) -> None:
    factors = make_factors(
        length=70, key_width=16, value_width=16, batch=1, decay=decay, beta="uniform",
        order="erase_first", dtype=torch.float32,
    )  # fmt: skip
    if decay == "scalar-strong":  # e^-20 a step: what is small comes from one step alone
        slower = torch.linspace(0.1, 1, 70)[:, None, None]
        factors = replace(factors, log_decay=factors.log_decay * slower)
    compare(factors, device)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_stretches_change_no_bit(
    make_factors: Make, monkeypatch: pytest.MonkeyPatch, device: str, dtype: torch.dtype
) -> None:
    """Nor does another run."""
    factors = make_factors(
        length=163, key_width=24, value_width=16, decay="scalar", beta="uniform", dtype=dtype
    )
    here, state = mapped(factors, lambda x: x.to(device)), state_of(factors).to(device)
    whole, again = ahead_recurrence(here, state), ahead_recurrence(here, state)
    each = 4 * ahead.chunk_bytes(dtype, ahead_tiles(24, 16))
    monkeypatch.setattr(ahead, "MOST_BYTES", 2 * each + 1)
    assert len(ahead.stretches(6, each)) == 3
    apart = ahead_recurrence(here, state)
    for x, y, z in zip(whole, again, apart, strict=True):
        assert x.isfinite().all()
        assert torch.equal(x, y)
        assert torch.equal(x, z)


def test_stretches() -> None:
    assert ahead.stretches(5, ahead.MOST_BYTES // 5) == [(0, 5)]
    assert ahead.stretches(6, ahead.MOST_BYTES // 5) == [(0, 3), (3, 3)]
    assert ahead.stretches(7, ahead.MOST_BYTES // 3) == [(0, 3), (3, 3), (6, 1)]
    assert ahead.stretches(2, 2 * ahead.MOST_BYTES) == [(0, 1), (1, 1)], "no less than a chunk"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_bytes_of_a_chunk(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "is_interpreting", lambda: False)
    k, tiles = torch.empty(2, 7, 1, 3, 96, dtype=dtype, device="meta"), ahead_tiles(96, 192)
    assert tiles.width == 96
    buffers = ahead._Prepared.unwritten(k, tiles, 5, True)
    total = sum(getattr(buffers, field.name).nbytes for field in fields(buffers))
    assert total == 2 * 3 * 5 * ahead.chunk_bytes(dtype, tiles)


@pytest.mark.parametrize("device", DEVICES)
def test_no_future_token_is_seen(make_factors: Make, device: str) -> None:
    factors = make_factors(
        length=37, num_factors=2, key_width=16, value_width=16, decay="scalar", beta="uniform",
        dtype=torch.float32,
    )  # fmt: skip
    here = mapped(factors, lambda x: x.to(device))

    def changed(x: Tensor) -> Tensor:
        return torch.cat([x[:, :21], 0.5 * x[:, 21:]], 1)

    before, after = ahead_recurrence(here)[0], ahead_recurrence(mapped(here, changed))[0]
    assert torch.equal(before[:, :21], after[:, :21])
    assert not torch.equal(before[:, 21], after[:, 21])


@pytest.mark.parametrize("device", DEVICES)
def test_taken_for_long_streams_without_gradients(
    make_factors: Make, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    calls = []

    def run(*args: object) -> None:
        calls.append(1)
        ahead.run_ahead(*args)

    monkeypatch.setattr(op, "run_ahead", run)
    factors = make_factors(
        length=257, key_width=34, value_width=16, batch=1, heads=1, decay="scalar", beta="uniform",
        dtype=torch.float32,
    )  # fmt: skip
    here = mapped(factors, lambda x: x.to(device))
    found = triton_recurrence(here)
    assert calls == [1]
    assert "prepared at once" in str(explain_recurrence(here, backend="triton"))
    learnt = replace(here, q=here.q.requires_grad_())
    for x, y in zip(triton_recurrence(learnt), found, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-2, atol=1e-3)
    assert "prepared" not in str(explain_recurrence(learnt, backend="triton"))
    triton_recurrence(mapped(here, lambda x: x.detach()[:, :200]))
    assert calls == [1]
    five = (here.q.detach(), here.k, here.v, here.log_decay, here.beta)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(op.delta_rule, (*five, None, None, 0.3, False), test_utils=tests)
    assert len(calls) > 1


def test_narrow_heads_and_short_streams_are_not() -> None:
    assert goes_ahead(96, 192, 8192)
    assert not goes_ahead(32, 32, 8192), "the curriculum's"
    assert not goes_ahead(96, 192, 200)


@pytest.mark.parametrize("device", DEVICES)
def test_the_self_test_sees_both(make_factors: Make, gradients: Callable, device: str) -> None:
    factors = make_factors(
        length=35, key_width=40, value_width=16, batch=1, decay="scalar", beta="uniform",
        dtype=torch.float32,
    )  # fmt: skip
    here = mapped(factors, lambda x: x.to(device))
    state = state_of(factors).to(device)
    found = gradients(route._both, here, state)
    slow = gradients(triton_recurrence, here, state)
    for name in slow:
        if name.startswith("gradient"):
            assert torch.equal(found[name], slow[name])
    output, final = ahead_recurrence(here, state)
    torch.testing.assert_close(found["output"], output)
    torch.testing.assert_close(found["state"], final)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "widths", [(16, 16), (64, 64), (40, 72), (96, 192), (128, 256), (128, 128), (100, 100)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_widths_and_dtypes(make_factors: Make, widths: tuple[int, int], dtype: torch.dtype) -> None:
    factors = make_factors(
        length=387, key_width=widths[0], value_width=widths[1], decay="scalar", beta="uniform",
        dtype=dtype,
    )  # fmt: skip
    compare(factors, "cuda", state_of(factors))
