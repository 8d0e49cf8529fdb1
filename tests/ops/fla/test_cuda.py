"""Every route of the `fla` backend on a CUDA device, against the float64 reference there.

The errors of all cases are printed as one table at the end.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.bench.doctor.worker import pin_autotuning
from lt2theory.ops import Factors, explain_recurrence, run_factors
from lt2theory.ops.agreement import Agreement, measure_agreement
from lt2theory.ops.fla.kernels import DELTA_RULE, KERNELS, Kernel
from lt2theory.ops.fla.recurrence import fla_recurrence
from lt2theory.ops.fla.steps import run_kernel
from lt2theory.ops.known_faults import find_faults
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.selftest import TOLERANCES
from lt2theory.ops.workload import RecurrenceWorkload

pytestmark = pytest.mark.gpu

ROUTES = [(decay, erases) for erases in (False, True) for decay in ("none", "scalar", "vector")]
TYPES = [torch.float32, torch.bfloat16]

Run = Callable[[Factors, Tensor | None], tuple[Tensor, Tensor]]

ROWS: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def first_configurations() -> None:
    """The autotuner takes what runs: to time dozens of candidates a case would take an hour."""
    pin_autotuning()


@pytest.fixture(scope="module", autouse=True)
def table(pytestconfig: pytest.Config) -> Iterator[None]:
    """Print what was measured after the last test of this file, captured or not."""
    yield
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print("\n" + "\n".join([f"{'case':58} {'values':>9} {'gradients':>9}  worst", *ROWS]))


def inputs_of(
    length: int, width: int, *, decay: str, erases: bool, num_factors: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(length + width)
    steps = (2, length, num_factors, 3)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    named = {
        "q": normal(2, length, 3, width),
        "k": torch.nn.functional.normalize(normal(*steps, width), dim=-1),
        "v": normal(*steps, width),
        "state": normal(2, 3, width, width),
    }
    if decay != "none":
        named["log_decay"] = -uniform(*steps, *([width] if decay == "vector" else []))
    if erases:
        named["beta"] = 2 * uniform(*steps)
    moved = {name: x.cuda().to(dtype) for name, x in named.items()}
    return {**moved, "state": moved["state"].float()}


def measure(case: str, run: Run, inputs: dict[str, Tensor]) -> Agreement:
    def computation(runner: Run) -> Callable[..., dict[str, Tensor]]:
        def compute(named: dict[str, Tensor]) -> dict[str, Tensor]:
            factors = Factors(**{n: x for n, x in named.items() if n != "state"})
            output, state = runner(factors, named["state"])
            return {"output": output, "final state": state}

        return compute

    agreement = measure_agreement(
        computation(run),
        computation(reference_recurrence),
        inputs,
        generator=torch.Generator().manual_seed(1),
    )
    (_, value), (name, gradient) = agreement.worst_value(), agreement.worst_gradient()
    ROWS.append(f"{case:58} {value:9.1e} {gradient:9.1e}  {name}")
    return agreement


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize(("decay", "erases"), ROUTES)
@pytest.mark.parametrize(("length", "num_factors"), [(131, 1), (67, 2), (32, 1), (9, 3)])
def test_route(
    decay: str, erases: bool, width: int, dtype: torch.dtype, length: int, num_factors: int
) -> None:
    inputs = inputs_of(
        length, width, decay=decay, erases=erases, num_factors=num_factors, dtype=dtype
    )
    factors = Factors(**{name: x for name, x in inputs.items() if name != "state"})
    chosen = str(explain_recurrence(factors, backend="fla")).partition(": ")[2].partition(";")[0]
    kernel = chosen.rpartition(" ")[2]
    case = f"{kernel} {decay} f={num_factors} t={length} k={width} {str(dtype)[6:]}"
    agreement = measure(case, fla_recurrence, inputs)
    assert agreement.within(TOLERANCES[dtype]), f"{case}: {agreement}"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernel(kernel: Kernel, width: int, dtype: torch.dtype) -> None:
    """Every kernel itself, whatever its route; a faulty one is measured and need not be right."""
    if kernel is DELTA_RULE and dtype == torch.float32:
        pytest.skip("refuses float32, which is never rounded for it")
    inputs = inputs_of(
        131, width, decay=kernel.decay, erases=kernel.erases, num_factors=1, dtype=dtype
    )
    factors = Factors(**{name: x for name, x in inputs.items() if name != "state"})
    architecture = RecurrenceWorkload.of(factors).architecture
    faults = find_faults(kernel.name, architecture)
    if any(not fault.self_test for fault in faults):
        pytest.skip(f"{kernel.name}: {faults[0].what}")

    def run(factors: Factors, state: Tensor | None) -> tuple[Tensor, Tensor]:
        return run_kernel(kernel, factors, state, lift_guard=bool(faults))

    label = "guard lifted" if faults else "alone"
    case = f"{kernel.name} {label} k={width} {str(dtype)[6:]}"
    agreement = measure(case, run, inputs)
    assert faults or agreement.within(TOLERANCES[dtype]), f"{case}: {agreement}"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("decay", "erases"), ROUTES)
def test_single_tokens(decay: str, erases: bool, dtype: torch.dtype) -> None:
    inputs = inputs_of(9, 64, decay=decay, erases=erases, num_factors=2, dtype=dtype)
    state = inputs.pop("state")
    outputs, final = [], state
    with torch.no_grad():
        for t in range(9):
            token = Factors(**{name: x[:, t : t + 1] for name, x in inputs.items()})
            assert "fused_recurrent" in str(explain_recurrence(token, backend="fla"))
            output, final = run_factors(token, initial_state=final, backend="fla")
            outputs.append(output)
    exact = Factors(**{name: x.double() for name, x in inputs.items()})
    want, end = reference_recurrence(exact, state.double())
    found = torch.cat(outputs, 1).double()
    errors = [float((found - want).norm() / want.norm()), float((final - end).norm() / end.norm())]
    case = f"fused_recurrent {decay} {'erasing' if erases else 'adding'} {str(dtype)[6:]}"
    ROWS.append(f"{case:58} {errors[0]:9.1e} {'':9}  state {errors[1]:.1e}")
    assert max(errors) <= TOLERANCES[dtype]


@pytest.mark.parametrize("erases", [False, True])
@pytest.mark.parametrize("decay", ["scalar", "vector"])
def test_resets_and_odd_widths(decay: str, erases: bool) -> None:
    inputs = inputs_of(131, 33, decay=decay, erases=erases, num_factors=1, dtype=torch.bfloat16)
    inputs["log_decay"][:, ::29] = -1000.0
    case = f"resets {decay} {'erasing' if erases else 'adding'} k=33 bfloat16"
    agreement = measure(case, fla_recurrence, inputs)
    assert agreement.within(TOLERANCES[torch.bfloat16]), f"{case}: {agreement}"
    factors = Factors(**{name: x for name, x in inputs.items() if name != "state"})
    other = replace(factors, v=torch.cat([factors.v[:, :58] + 1, factors.v[:, 58:]], 1))
    first, second = fla_recurrence(factors)[0], fla_recurrence(other)[0]
    assert torch.equal(first[:, 58:], second[:, 58:])
    assert not torch.equal(first[:, :58], second[:, :58])


def test_auto_takes_it_where_tf32_is_allowed() -> None:
    inputs = inputs_of(131, 64, decay="vector", erases=False, num_factors=1, dtype=torch.float32)
    factors = Factors(**{name: x for name, x in inputs.items() if name != "state"})
    assert "not fla: float32 products would be rounded" in str(explain_recurrence(factors))
    with torch.autocast("cuda", torch.bfloat16):
        assert explain_recurrence(factors).backend.name == "fla"
