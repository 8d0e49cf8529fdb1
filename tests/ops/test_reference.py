import numpy as np
import pytest
import torch

from lt2theory.ops import linear_recurrence, state_dtype
from lt2theory.ops.reference import apply_factor, reference_recurrence


def dense_products(factors, initial):
    """`S_t = A_t S_{t-1} + w k v^T` with A_t written out as a matrix, in numpy, head by head."""
    arrays = {
        name: None if x is None else x.numpy()
        for name, x in vars(factors).items()
        if x is None or isinstance(x, torch.Tensor)
    }
    batch, length, num_factors, heads, width = arrays["k"].shape
    outputs = np.zeros((batch, length, heads, arrays["v"].shape[-1]))
    states = initial.numpy().copy()
    for b in range(batch):
        for h in range(heads):
            state = states[b, h]
            for t in range(length):
                for f in range(num_factors):
                    at = (b, t, f, h)
                    k, v = arrays["k"][at], arrays["v"][at]
                    beta = 0.0 if arrays["beta"] is None else arrays["beta"][at]
                    write = 1.0 if arrays["beta"] is None else beta
                    if arrays["write"] is not None:
                        write = arrays["write"][at]
                    erase = np.eye(width) - beta * np.outer(k, k)
                    decay = np.eye(width)
                    if arrays["log_decay"] is not None:
                        decay = np.diag(np.broadcast_to(np.exp(arrays["log_decay"][at]), width))
                    matrix = erase @ decay if factors.order == "decay_first" else decay @ erase
                    state = matrix @ state + write * np.outer(k, v)
                outputs[b, t, h] = width**-0.5 * state.T @ arrays["q"][b, t, h]
            states[b, h] = state
    return outputs, states


@pytest.mark.parametrize("order", ["decay_first", "erase_first"])
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
@pytest.mark.parametrize("beta", [None, "uniform"])
@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("num_factors", [1, 3])
def test_equals_dense_matrix_products(make_factors, order, decay, beta, write, num_factors):
    factors = make_factors(
        length=7, num_factors=num_factors, decay=decay, beta=beta, write=write, order=order
    )
    initial = torch.randn(
        2, 2, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5)
    )
    output, state = reference_recurrence(factors, initial)
    expected_output, expected_state = dense_products(factors, initial)
    np.testing.assert_allclose(output.numpy(), expected_output, atol=1e-12)
    np.testing.assert_allclose(state.numpy(), expected_state, atol=1e-12)


def test_orders_differ_on_the_smallest_witness():
    """k = (1, 1) / sqrt 2, beta = 1, D = diag(1/2, 1): the two factors do not commute."""
    k = torch.full((2,), 0.5, dtype=torch.float64).sqrt()
    state = torch.eye(2, dtype=torch.float64)
    settings = {
        "log_decay": torch.tensor([0.5, 1.0], dtype=torch.float64).log(),
        "beta": torch.tensor(1.0, dtype=torch.float64),
        "write": torch.tensor(0.0, dtype=torch.float64),
    }
    value = torch.zeros(2, dtype=torch.float64)
    decay_first = apply_factor(state, k, value, order="decay_first", **settings)
    erase_first = apply_factor(state, k, value, order="erase_first", **settings)
    torch.testing.assert_close(decay_first, torch.tensor([[0.25, -0.5], [-0.25, 0.5]]).double())
    torch.testing.assert_close(erase_first, decay_first.mT)


def test_half_precision_is_computed_in_float32():
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 40, 1, 8, generator=generator).bfloat16() for _ in range(3))
    output, state = linear_recurrence(q, k, v, backend="reference", return_state=True)
    exact, exact_state = linear_recurrence(
        q.float(), k.float(), v.float(), backend="reference", return_state=True
    )
    assert output.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    assert torch.equal(state, exact_state)
    assert torch.equal(output, exact.bfloat16())


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_state_dtype(dtype, expected):
    assert state_dtype(dtype) == expected
