"""Every mixer with every backend: the same few properties, one test a cell of the table.

The model is small and looped, with short convolutions, rotary positions, grouped key heads, and
windows, blocks and selections shorter than the sequence. `reference` and `chunked` run in float64.
Triton kernels, FLA's and ours, run in float32 under Triton's interpreter.
"""

import itertools
from dataclasses import replace
from functools import cache
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.ops import Factors, run_factors, run_normalised
from tests.conformance.table import UNSERVED, backends, registry_of

LENGTH = 13
SIZES = {
    "num_layers": 1, "num_loops": 2, "width": 32, "num_heads": 2, "num_kv_heads": 1,
    "ffn_width": 8, "vocab_size": 7, "conv_width": 3, "window": 3, "block_size": 2,
    "num_blocks": 2, "top_k": 3, "index_heads": 2, "index_dim": 4, "positions": "rope",
}  # fmt: skip
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


@cache
def start(config: LoopedConfig) -> dict[str, Tensor]:
    """Weights away from their start, so that every part matters."""
    model, noise = LoopedModel(config).double(), torch.Generator().manual_seed(1)
    return {
        name: x + 0.1 * torch.randn(x.shape, generator=noise, dtype=torch.float64)
        for name, x in model.state_dict().items()
    }


def build(mixer: str, backend: str, **changes: object) -> LoopedModel:
    config = LoopedConfig.model_validate({**SIZES, "pattern": mixer, **changes})
    model = LoopedModel(config.model_copy(update={"backend": backend})).double()
    model.load_state_dict(start(config))
    return model.float() if backend in KERNELS else model


def draw(batch: int = 2, length: int = LENGTH) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randint(7, (batch, length), generator=generator)


def error(got: Tensor, want: Tensor) -> float:
    """Largest difference over the largest entry."""
    assert want.abs().max() > 0
    return float((got.double() - want.double()).abs().max() / want.abs().max())


def close(got: Tensor, want: Tensor, *, or_as_good_as: Tensor | None = None) -> None:
    bound = TOLERANCES[got.dtype]
    if or_as_good_as is not None:
        bound = max(bound, error(or_as_good_as, want))
    assert error(got, want) <= bound


def step(model: LoopedModel, tokens: Tensor) -> dict[str, Tensor]:
    """Logits and the gradient of every parameter that has one."""
    logits = model(tokens)
    F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"logits": logits.detach(), **gradients}


def same(got: dict[str, Tensor], want: dict[str, Tensor]) -> None:
    assert set(got) == set(want)
    for value, expected in ((got[name], want[name]) for name in want):
        close(value, expected)


@pytest.mark.conforms("values", "gradients")
@pytest.mark.parametrize(("mixer", "backend"), FAST)
def test_equals_the_reference(mixer: str, backend: str) -> None:
    """In float32, some gradients are small differences: no worse than `reference` in float32."""
    tokens = draw(1, 67)  # more than one chunk of every backend
    model = build(mixer, backend)
    got, want = step(model, tokens), step(build(mixer, "reference"), tokens)
    narrow = step(build(mixer, "reference").to(model.dtype), tokens)
    assert set(got) == set(want)
    for name, value in want.items():
        close(got[name], value, or_as_good_as=narrow[name])


@pytest.mark.conforms("gradients", backend="reference")
@pytest.mark.parametrize("mixer", MIXERS)
def test_gradients_are_differences_of_values(mixer: str) -> None:
    """Along a random uphill direction of all parameters, by differences of fourth order."""
    model, tokens, width = build(mixer, "reference"), draw(), 1e-5
    found = step(model, tokens)
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
@torch.no_grad()
def test_no_future_token_is_seen(mixer: str, backend: str) -> None:
    model, tokens = build(mixer, backend), draw()
    changed = torch.cat([tokens[:, :7], (tokens[:, 7:] + 1) % 7], 1)
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7], after[:, 7])


@pytest.mark.conforms("streaming")
@every_cell
@torch.no_grad()
def test_pieces_then_decode(mixer: str, backend: str) -> None:
    model, tokens = build(mixer, backend), draw()
    cache = model.new_cache(2)
    cuts = itertools.pairwise([0, 5, 6, 10, 11, 12, LENGTH])
    close(torch.cat([model(tokens[:, a:b], cache) for a, b in cuts], 1), model(tokens))


@pytest.mark.conforms("padding")
@every_cell
@torch.no_grad()
def test_left_padding_changes_nothing(mixer: str, backend: str) -> None:
    model, tokens = build(mixer, backend), draw()
    padded = model(tokens, lengths=torch.tensor([LENGTH, 4]))
    close(padded[:1], model(tokens[:1]))
    close(padded[1:, LENGTH - 4 :], model(tokens[1:, LENGTH - 4 :]))


@pytest.mark.conforms("packing")
@every_cell
@torch.no_grad()
def test_packed_documents_do_not_meet(mixer: str, backend: str) -> None:
    model, tokens = build(mixer, backend), draw(1)
    documents = torch.tensor([[4] * 6 + [1] * 1 + [2] * 6])
    packed = model(tokens, documents=documents)
    for first, last in itertools.pairwise([0, 6, 7, LENGTH]):
        close(packed[:, first:last], model(tokens[:, first:last]))


@pytest.mark.conforms("checkpointing")
@every_cell
def test_recomputing_changes_nothing(mixer: str, backend: str) -> None:
    want = step(build(mixer, backend), draw())
    for checkpointing in ("loop", "block"):
        got = step(build(mixer, backend, checkpointing=checkpointing), draw())
        assert torch.equal(got["logits"], want["logits"])
        same(got, want)


@pytest.mark.conforms("accumulate")
@pytest.mark.parametrize(("mixer", "backend"), LINEAR)
@torch.no_grad()
def test_loops_are_factors_on_one_state(mixer: str, backend: str) -> None:
    """The last loop against a plain recurrence over T times as many tokens, one a loop."""
    model, tokens = build(mixer, backend, loop_state="accumulate", ffn_width=0), draw()
    trace, block = model.trace(tokens), model.blocks[0]
    read = interleaved([trace.factors[0, loop] for loop in range(2)])
    x = block.mixer_norm(trace.states[1])
    close(trace.residuals[0, 1], trace.states[1] + block.mixer.output(read, x))


def interleaved(loops: list[Factors]) -> Tensor:
    """What a token's last micro-token reads, where every micro-token has one loop's factors."""

    def weave(name: str) -> Tensor | None:
        parts = [getattr(loop, name) for loop in loops]
        return None if parts[0] is None else torch.stack(parts, 2).flatten(1, 2).double()

    names = ("q", "k", "v", "log_decay", "beta", "write", "log_write")
    skip = loops[-1].skip
    woven = replace(
        loops[-1],
        **{name: weave(name) for name in names},
        skip=None if skip is None else skip.double(),
    )
    run = run_factors if woven.log_write is None else run_normalised
    read = run(woven, backend="reference")[0][:, len(loops) - 1 :: len(loops)]
    return read.to(loops[-1].q.dtype)
