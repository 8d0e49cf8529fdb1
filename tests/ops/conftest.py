from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from lt2theory.ops import Factors
from lt2theory.ops.factors import FactorOrder


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors: threads only cost time here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_factors(
    *,
    length: int,
    num_factors: int = 1,
    key_width: int = 4,
    value_width: int = 3,
    batch: int = 2,
    heads: int = 2,
    decay: str = "none",
    beta: str | float | None = None,
    write: bool = False,
    order: FactorOrder = "decay_first",
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Factors:
    """Random factors with unit keys.

    `decay`: none | scalar | vector, with a suffix -strong (e^-20 a step), -reset (resets of -1000
    among small decays), -one (alpha exactly 1) or -mixed (all of them). `beta`: uniform | a number.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    steps = (batch, length, num_factors, heads)
    k = torch.nn.functional.normalize(normal(*steps, key_width), dim=-1)
    kind, _, strength = decay.partition("-")
    log_decay = None
    if kind != "none":
        shape = (*steps, key_width) if kind == "vector" else steps
        log_decay = -uniform(*shape)
        if strength == "strong":
            log_decay = torch.full(shape, -20.0, dtype=torch.float64)
        elif strength == "one":
            log_decay = torch.zeros(shape, dtype=torch.float64)
        elif strength:
            picks = torch.rand(shape, generator=generator)
            log_decay = log_decay.masked_fill(picks < 0.2, -1000.0)
            if strength == "mixed":
                log_decay = log_decay.masked_fill(picks > 0.5, 0.0).masked_fill(picks > 0.8, -20.0)
    strengths = None
    if beta is not None:
        strengths = 2 * uniform(*steps)
        if not isinstance(beta, str):
            strengths = torch.full(steps, float(beta), dtype=torch.float64)
    factors = {
        "q": normal(batch, length, heads, key_width),
        "k": k,
        "v": normal(*steps, value_width),
        "log_decay": log_decay,
        "beta": strengths,
        "write": normal(*steps) if write else None,
    }
    cast = {name: None if x is None else x.to(dtype) for name, x in factors.items()}
    return Factors(**cast, order=order)


@pytest.fixture(name="make_factors")
def make_factors_fixture() -> Callable[..., Factors]:
    return make_factors


def gradients(
    runner: Callable[..., tuple[Tensor, Tensor]],
    factors: Factors,
    state: Tensor | None,
    seed: int = 1,
) -> dict[str, Tensor]:
    """Output, final state, and the gradient of a random projection of both to every input."""
    names = ("q", "k", "v", "log_decay", "beta", "write")
    tensors = {name: getattr(factors, name) for name in names}
    tensors["state"] = state
    leaves = {
        name: x.detach().clone().requires_grad_() for name, x in tensors.items() if x is not None
    }
    run = Factors(
        **{name: leaves.get(name) for name in names}, scale=factors.scale, order=factors.order
    )
    output, final = runner(run, leaves.get("state"))
    generator = torch.Generator().manual_seed(seed)
    loss = output.new_zeros(())
    for x in (output, final):
        weights = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        loss = loss + (x * weights.to(x)).sum()
    found = torch.autograd.grad(loss, list(leaves.values()))
    named = {f"gradient of {name}": g for name, g in zip(leaves, found, strict=True)}
    return {"output": output.detach(), "state": final.detach(), **named}


@pytest.fixture(name="gradients")
def gradients_fixture() -> Callable[..., dict[str, Tensor]]:
    return gradients
