"""Every mixer with every backend: the same few properties, one test a cell of the table.

What is measured, and on which model: `lt2theory.analysis.conformance_measures`. `reference` and
`chunked` run in float64. Triton kernels, FLA's and ours, run in float32 under Triton's interpreter.
"""

from collections.abc import Callable
from functools import partial
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lt2theory.analysis.conformance_measures import (
    Build,
    accumulate_error,
    causality_error,
    checkpointing_error,
    draw_tokens,
    packing_error,
    padding_error,
    small_model,
    step_errors,
    streaming_error,
    training_step,
)
from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedModel
from tests.conformance.table import UNSERVED, backends, registry_of

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4}  # relative to the largest entry

KERNELS = ("fla", "triton")
INTERPRETED = [pytest.mark.interpreter, pytest.mark.filterwarnings("ignore")]  # FLA misses a GPU
CELLS = [
    pytest.param(mixer, backend, marks=INTERPRETED if backend in KERNELS else [])
    for backend in backends()
    for mixer in MIXERS
    if backend in registry_of(mixer).names and (mixer, backend) not in UNSERVED
]
LINEAR = [c for c in CELLS if issubclass(MIXERS[c.values[0]], LinearMixer)]
FAST = [cell for cell in CELLS if cell.values[1] != "reference"]

every_cell = pytest.mark.parametrize(("mixer", "backend"), CELLS)


@pytest.fixture(autouse=True)
def kernels(request: pytest.FixtureRequest) -> ModuleType | None:
    """Kernels on CPU tensors, where the cell is theirs."""
    needed = request.node.callspec.params.get("backend") in KERNELS
    return request.getfixturevalue("fla") if needed else None


def build(mixer: str, backend: str, **changes: object) -> LoopedModel:
    model = small_model(mixer, backend, **changes)
    return model.float() if backend in KERNELS else model


def holds(measure: Callable[[Build], float], mixer: str, backend: str) -> None:
    """A property's error is within rounding of the backend's dtype."""
    bound = TOLERANCES[torch.float32 if backend in KERNELS else torch.float64]
    assert measure(partial(build, mixer, backend)) <= bound


def rounded_terms(model: LoopedModel, tokens: Tensor, dtype: torch.dtype) -> dict[str, float]:
    """One rounding of every term of a bias's gradient, a sum over tokens, relative to the sum.

    mLSTM's normaliser takes out what all its input gates share, so that their bias's gradient is a
    thousandth of its terms: no order of summation gives its fourth digit in float32.
    """
    sizes: dict[str, Tensor] = {}

    def add(name: str, _: nn.Module, __: object, gradient: tuple[Tensor]) -> None:
        sizes[name] = sizes.get(name, 0) + gradient[0].abs().flatten(0, -2).sum(0)

    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.register_full_backward_hook(partial(add, f"{name}.bias"))
    sums = training_step(model, tokens)
    rounding = torch.finfo(dtype).eps
    return {name: rounding * float(x.max() / sums[name].abs().max()) for name, x in sizes.items()}


@pytest.mark.conforms("values", "gradients")
@pytest.mark.parametrize(("mixer", "backend"), FAST)
def test_equals_the_reference(mixer: str, backend: str) -> None:
    """In float32, some gradients are small differences: no worse than `reference` in float32."""
    tokens = draw_tokens(1, 67)  # more than one chunk of every backend
    model, exact = build(mixer, backend), partial(build, mixer, "reference")
    found = step_errors(model, exact(), tokens)
    narrow = step_errors(exact().to(model.dtype), exact(), tokens)
    terms, bound = rounded_terms(exact(), tokens, model.dtype), TOLERANCES[model.dtype]
    allowed = {name: max(bound, narrow[name], terms.get(name, 0)) for name in found}
    assert {n: e for n, e in found.items() if e > allowed[n]} == {}


@pytest.mark.conforms("gradients", backend="reference")
@pytest.mark.parametrize("mixer", MIXERS)
def test_gradients_are_differences_of_values(mixer: str) -> None:
    """Along a random uphill direction of all parameters, by differences of fourth order."""
    model, tokens, width = build(mixer, "reference"), draw_tokens(), 1e-5
    found = training_step(model, tokens)
    generator = torch.Generator().manual_seed(2)
    along = {
        name: found[name].sign() * torch.rand(x.shape, generator=generator, dtype=torch.float64)
        for name, x in model.named_parameters()
        if name in found  # an indexer's parameters have a loss of their own
    }
    slope = sum(float((along[name] * found[name]).sum()) for name in along)

    def difference(width: float) -> float:
        losses = []
        for sign in (1, -1):
            moved = {
                name: x.detach() + (sign * width * along[name] if name in along else 0)
                for name, x in model.named_parameters()
            }
            logits = torch.func.functional_call(model, moved, (tokens,))
            losses.append(F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).item())
        return (losses[0] - losses[1]) / (2 * width)

    assert slope > 1
    assert (4 * difference(width / 2) - difference(width)) / 3 == pytest.approx(slope, rel=1e-7)


@pytest.mark.conforms("causality")
@every_cell
def test_no_future_token_is_seen(mixer: str, backend: str) -> None:
    assert causality_error(partial(build, mixer, backend)) == 0


@pytest.mark.conforms("streaming")
@every_cell
def test_pieces_then_decode(mixer: str, backend: str) -> None:
    holds(streaming_error, mixer, backend)


@pytest.mark.conforms("padding")
@every_cell
def test_left_padding_changes_nothing(mixer: str, backend: str) -> None:
    holds(padding_error, mixer, backend)


@pytest.mark.conforms("packing")
@every_cell
def test_packed_documents_do_not_meet(mixer: str, backend: str) -> None:
    holds(packing_error, mixer, backend)


@pytest.mark.conforms("checkpointing")
@every_cell
def test_recomputing_changes_nothing(mixer: str, backend: str) -> None:
    holds(checkpointing_error, mixer, backend)


@pytest.mark.conforms("accumulate")
@pytest.mark.parametrize(("mixer", "backend"), LINEAR)
def test_loops_are_factors_on_one_state(mixer: str, backend: str) -> None:
    holds(accumulate_error, mixer, backend)
