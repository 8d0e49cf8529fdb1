"""Gradient checkpointing: the same values and gradients, from fewer kept activations."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedConfig, LoopedModel, presets, toys
from lt2theory.models.loop_state import LoopState

Build = Callable[..., LoopedModel]
EVERY = sorted(toys())
LINEAR = sorted(name for name, kind in MIXERS.items() if issubclass(kind, LinearMixer))


def run(model: LoopedModel, tokens: Tensor, **how: Any) -> dict[str, Tensor]:
    """Logits, every loss and every gradient of one training step."""
    losses: dict[str, Tensor] = {}
    logits = model(tokens, losses=losses, **how)
    total = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    sum(losses.values(), total).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"logits": logits, **losses, **gradients}


@pytest.mark.parametrize("preset", EVERY)
@pytest.mark.parametrize(("checkpointing", "packed"), [("loop", True), ("block", False)])
def test_values_and_gradients_are_those_without(
    build: Build, tokens: Tensor, preset: str, checkpointing: str, packed: bool
) -> None:
    changes: dict[str, object] = {"num_loops": 3, "sandwich_norm": True, "output_gate": True}
    documents = torch.tensor([[-1] * 4 + [0] * 8 + [1] * 11]).expand(3, 23)
    how = {"documents": documents} if packed else {}
    expected = run(build(preset, **changes), tokens, **how)
    model = build(preset, checkpointing=checkpointing, **changes)
    got = run(model, tokens, **how)
    assert set(got) == set(expected) > {"logits", "loop_gate"}
    assert torch.equal(got["logits"], expected["logits"])
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, atol=1e-12, rtol=1e-12, msg=name)


@pytest.mark.parametrize("preset", ["toy-gdn", "toy-gdn-accumulate", "toy-full-gdn"])
def test_every_part_really_runs_twice(
    build: Build, tokens: Tensor, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(preset, checkpointing="block", num_loops=3)
    calls = []
    mixer = model.blocks[1].mixer
    prepare = mixer.prepare

    def counted(*args: Any) -> Any:
        calls.append(args)
        return prepare(*args)

    monkeypatch.setattr(mixer, "prepare", counted)
    logits = model(tokens)
    assert len(calls) == 3
    logits.sum().backward()
    assert len(calls) == 6


@pytest.mark.parametrize("checkpointing", ["loop", "block"])
def test_second_derivatives(build: Build, tokens: Tensor, checkpointing: str) -> None:
    def curvature(model: LoopedModel) -> Tensor:
        weight = model.blocks[0].mixer.v_proj.weight
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        (slope,) = torch.autograd.grad(loss, weight, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), weight)[0]

    expected = curvature(build("toy-gdn-accumulate"))
    assert expected.abs().max() > 0
    got = curvature(build("toy-gdn-accumulate", checkpointing=checkpointing))
    torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("preset", ["toy-gdn-accumulate", "toy-dsa"])
@pytest.mark.parametrize("checkpointing", ["loop", "block"])
def test_a_graph_that_nobody_goes_back_through_is_freed(
    build: Build, tokens: Tensor, preset: str, checkpointing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = []
    begin = LoopState.__init__

    def watched(self: LoopState, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        states.append(weakref.ref(self))

    monkeypatch.setattr(LoopState, "__init__", watched)
    losses: dict[str, Tensor] = {}
    logits = build(preset, checkpointing=checkpointing)(tokens, losses=losses)
    assert logits.requires_grad
    del logits
    losses.clear()
    gc.collect()
    assert len(states) > 2
    assert [state() for state in states if state() is not None] == []


@pytest.mark.parametrize("preset", EVERY)
def test_caches_and_traces_do_not_care(build: Build, tokens: Tensor, preset: str) -> None:
    plain, model = build(preset), build(preset, checkpointing="loop")
    cache = model.new_cache(3)
    pieces = [model(tokens[:, :9], cache), model(tokens[:, 9:10], cache)]
    torch.testing.assert_close(torch.cat(pieces, 1), plain(tokens[:, :10]), atol=1e-10, rtol=1e-10)
    torch.cat(pieces, 1).sum().backward()  # the cache was written once, so this reaches its start
    assert model.embedding.weight.grad is not None
    trace, expected = model.trace(tokens), plain.trace(tokens)
    assert torch.equal(trace.logits, expected.logits)
    assert set(trace.factors) == set(expected.factors)


def saved_bytes(model: LoopedModel, tokens: Tensor) -> int:
    """Bytes that autograd keeps for backward, each storage once, the weights aside."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return x

    with saved_tensors_hooks(pack, lambda x: x):
        logits = model(tokens)
    assert logits.requires_grad
    return sum(kept.values())


def sizes(build: Build, tokens: Tensor, preset: str, checkpointing: str) -> list[int]:
    models = [build(preset, checkpointing=checkpointing, num_loops=t) for t in (1, 2, 4, 8)]
    return [saved_bytes(model, tokens) for model in models]


@pytest.mark.parametrize("mixer", sorted(MIXERS))
def test_a_loop_costs_one_residual_stream(build: Build, tokens: Tensor, mixer: str) -> None:
    residual = tokens.numel() * 16 * 8
    one, *more = sizes(build, tokens, f"toy-{mixer}", "loop")
    assert [size - one for size in more] == [residual, 3 * residual, 7 * residual]
    one, *more = sizes(build, tokens, f"toy-{mixer}", "none")
    assert more[2] - one > 7 * 20 * residual  # what it saves: tens of residual streams a loop


@pytest.mark.parametrize("mixer", sorted(MIXERS))
def test_a_block_costs_one_residual_stream(build: Build, tokens: Tensor, mixer: str) -> None:
    """And one a loop for the loop's gate, whose operands stay."""
    residual = tokens.numel() * 16 * 8
    one, *more = sizes(build, tokens, f"toy-{mixer}", "block")
    growth = [size - one for size in more]
    assert growth == [growth[0], 3 * growth[0], 7 * growth[0]]
    assert 2 * residual <= growth[0] <= 3 * residual


@pytest.mark.parametrize("mixer", LINEAR)
def test_accumulate_keeps_the_factors_once(build: Build, tokens: Tensor, mixer: str) -> None:
    """The growth is linear in T, though the joined factors of all loops are quadratic."""
    one, *more = sizes(build, tokens, f"toy-{mixer}-accumulate", "loop")
    trace = build(f"toy-{mixer}-accumulate").trace(tokens)
    factors = [trace.factors[layer, 0] for layer in (0, 1)]
    named = ("k", "v", "log_decay", "beta", "write", "log_write")
    held = [getattr(f, name) for f in factors for name in named]
    storages = [x.untyped_storage() for x in held if x is not None]
    factor_bytes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    bound = tokens.numel() * 16 * 8 + sum(factor_bytes.values())
    steps = [more[0] - one, (more[1] - more[0]) / 2, (more[2] - more[1]) / 4]
    assert max(steps) <= bound
    assert steps[1] == steps[2]


@pytest.mark.gpu
@pytest.mark.parametrize("preset", ["toy-gdn", "toy-kda", "toy-full", "toy-window"])
def test_peak_memory_on_a_gpu(preset: str) -> None:
    """The whole step, backward included: beyond T = 1 only the residual streams are added."""
    tokens = torch.arange(4 * 1024, device="cuda").view(4, 1024) % 256

    def peak(num_loops: int, checkpointing: str) -> int:
        changes = {"num_loops": num_loops, "checkpointing": checkpointing, "width": 256}
        config = LoopedConfig.model_validate({**presets()[preset].model_dump(), **changes})
        model = LoopedModel(config).cuda()
        for _ in range(2):  # the first step also allocates the gradients and the workspaces
            torch.cuda.reset_peak_memory_stats()
            model(tokens).logsumexp(-1).mean().backward()
        return torch.cuda.max_memory_allocated()

    residual = tokens.numel() * 256 * 4
    assert peak(8, "loop") - peak(1, "loop") < 12 * residual
    assert peak(8, "none") - peak(1, "none") > 7 * 10 * residual


def test_the_option_is_checked() -> None:
    with pytest.raises(ValueError, match="checkpointing"):
        LoopedConfig.model_validate({"checkpointing": "layer"})
