"""The looped model: initialisation, gates, trace, dtypes, odd input."""

import copy
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import MIXERS, AttentionMixer, LinearMixer
from lt2theory.models import LoopedConfig, LoopedModel, presets, toys
from lt2theory.ops.factors import Factors

Build = Callable[..., LoopedModel]
EVERY = sorted(toys())


def test_every_mixer_has_its_presets() -> None:
    for name, mixer in MIXERS.items():
        assert f"toy-{name}" in presets()
        assert (f"toy-{name}-accumulate" in presets()) == issubclass(mixer, LinearMixer)


def test_weights_are_a_function_of_config_and_generator() -> None:
    config = presets()["toy-gdn"]
    before = torch.random.get_rng_state()
    one, two = LoopedModel(config), LoopedModel(config)
    other = LoopedModel(config, generator=torch.Generator().manual_seed(1))
    assert torch.equal(before, torch.random.get_rng_state())
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name
    assert not torch.equal(one.head.weight, other.head.weight)


@pytest.mark.parametrize("preset", EVERY)
def test_every_parameter_is_drawn_and_trained(build: Build, tokens: Tensor, preset: str) -> None:
    model = build(preset, sandwich_norm=True, norm_between_loops=True, output_gate=True)
    own: dict[str, Tensor] = {}
    loss = F.cross_entropy(model(tokens, losses=own).flatten(0, 1), tokens.flatten())
    torch.stack([loss, *own.values()]).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter).all(), name
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_closed_output_gate_is_one_half(build: Build, tokens: Tensor) -> None:
    gated = LoopedModel(LoopedConfig(pattern="full", num_layers=1, vocab_size=11, output_gate=True))
    plain = LoopedModel(LoopedConfig(pattern="full", num_layers=1, vocab_size=11))
    plain.load_state_dict(gated.state_dict(), strict=False)
    with torch.no_grad():
        plain.blocks[0].mixer.o_proj.weight.mul_(0.5)
    torch.testing.assert_close(gated(tokens), plain(tokens), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("preset", EVERY)
def test_trace_is_forward(build: Build, tokens: Tensor, preset: str) -> None:
    model = build(preset)
    trace = model.trace(tokens)
    assert torch.equal(trace.logits, model(tokens))
    assert len(trace.states) == model.config.num_loops + 1
    assert torch.equal(trace.states[0], model.embed(tokens))
    assert torch.equal(trace.states[-1], model.run_embedded(model.embed(tokens)))
    places = {(layer, loop) for layer in range(2) for loop in range(2)}
    assert set(trace.factors) == set(trace.residuals) == places
    gate = torch.zeros(model.config.width) if not model.config.loop_gate else model.loop_gate[0]
    after = trace.residuals[1, 0] + gate * trace.states[0]
    torch.testing.assert_close(after, trace.states[1])


@pytest.mark.conforms("values", "accumulate")
@pytest.mark.parametrize(
    "mixer",
    ["deltanet", "gdn", "kda", "linear_attention", "retnet", "mamba2", "gla", "hgrn2"],
)
@pytest.mark.parametrize("backend", ["chunked", "reference"])
def test_accumulate_is_one_product_on_one_state(
    build: Build, tokens: Tensor, mixer: str, backend: str
) -> None:
    """The last loop's read-out, recomputed by hand from what every loop prepared (claim L2)."""
    changes = {"num_layers": 1, "num_loops": 3, "ffn_width": 0, "backend": backend}
    model = build(f"toy-{mixer}-accumulate", **changes)
    trace = model.trace(tokens)
    block = model.blocks[0]
    loops = [trace.factors[0, loop] for loop in range(3)]
    assert all(isinstance(f, Factors) for f in loops)
    state = torch.zeros(3, 2, 8, 8, dtype=torch.float64)
    read = []
    for t in range(tokens.shape[1]):
        for f in loops:
            k, v = f.k[:, t, 0], f.v[:, t, 0]
            if f.log_decay is not None:
                decay = f.log_decay[:, t, 0].exp()
                state = state * decay.reshape(3, 2, -1, 1)
            write = torch.ones(3, 2, dtype=torch.float64) if f.write is None else f.write[:, t, 0]
            if f.beta is not None:
                write = f.beta[:, t, 0]
                v = v - torch.einsum("bhk,bhkv->bhv", k, state)
            state = state + torch.einsum("bh,bhk,bhv->bhkv", write, k, v)
        o = torch.einsum("bhk,bhkv->bhv", loops[-1].q[:, t], state)
        if mixer == "mamba2":  # not scaled, and with the last loop's own value beside it
            o = o + block.mixer.D[:, None] * loops[-1].v[:, t, 0]
        else:
            o = o * 8**-0.5
        read.append(o)
    x = block.mixer_norm(trace.states[2])
    expected = trace.states[2] * (1 + model.loop_gate[2]) + block.mixer.output(
        torch.stack(read, 1), x
    )
    torch.testing.assert_close(trace.states[3], expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("preset", EVERY)
def test_backends_agree(build: Build, tokens: Tensor, preset: str) -> None:
    chunked, reference = build(preset, backend="chunked"), build(preset, backend="reference")
    torch.testing.assert_close(chunked(tokens), reference(tokens), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("preset", EVERY)
def test_half_precision_runs_and_stays_close(build: Build, tokens: Tensor, preset: str) -> None:
    model = build(preset)
    exact = model(tokens)
    half = model.bfloat16()(tokens)
    assert half.dtype == torch.bfloat16
    assert (half.double() - exact).norm() < 0.1 * exact.norm()  # bf16 keeps 8 bits, two layers


def test_last_logits(build: Build, tokens: Tensor) -> None:
    model = build("toy-gdn")
    torch.testing.assert_close(
        model(tokens, last_logits=1), model(tokens)[:, -1:], atol=1e-12, rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"last_logits: 24 must lie in 0..23"):
        model(tokens, last_logits=24)


def test_empty_input(build: Build, tokens: Tensor) -> None:
    for preset in EVERY:
        model = build(preset)
        cache = model.new_cache(3)
        assert model(tokens[:, :0], cache).shape == (3, 0, 11)
        torch.testing.assert_close(model(tokens, cache), model(tokens), atol=1e-10, rtol=1e-10)


def test_tied_embeddings_share_one_parameter() -> None:
    model = LoopedModel(LoopedConfig(tie_embeddings=True))
    assert "head.weight" not in model.state_dict()
    assert model(torch.zeros(1, 3, dtype=torch.int64)).shape == (1, 3, 256)


@pytest.mark.parametrize("preset", EVERY)
def test_half_precision_under_autocast(build: Build, tokens: Tensor, preset: str) -> None:
    """Streaming and parallel form agree as far as bfloat16 projections let them."""
    model = build(preset).float()
    exact = model(tokens)
    cache = model.new_cache(3)
    with torch.autocast("cpu", torch.bfloat16):
        half = model(tokens)
        pieces = [model(tokens[:, :7], cache), model(tokens[:, 7:8], cache)]
    pieces.append(model(tokens[:, 8:], cache))  # a cache serves both precisions
    with torch.autocast("cpu", torch.bfloat16):
        model(tokens[:, :1], cache)
    assert all(s.state is None or s.state.dtype == torch.float32 for s in cache.slots.values())
    # bfloat16 keeps 8 bits; with the recurrence itself rounded this was several times as much
    for other in (half, torch.cat(pieces, 1)):
        assert (other.float() - exact).norm() < 0.03 * exact.norm()


@pytest.mark.parametrize("preset", EVERY)
def test_functional_transforms(build: Build, tokens: Tensor, preset: str) -> None:
    """Gradients a row by `vmap(grad)`, and forward mode against reverse mode."""
    kinds = [MIXERS[spec.mixer] for loop in toys()[preset].loops for spec in loop]
    fused = any(issubclass(kind, AttentionMixer) for kind in kinds)  # first derivatives only
    model = build(preset, backend="reference" if fused else "auto")
    point = {name: value.detach() for name, value in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], rows: Tensor) -> Tensor:
        return torch.func.functional_call(model, parameters, (rows,)).square().mean()

    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(point, tokens[:, None])
    whole = torch.func.grad(loss)(point, tokens)
    for name, value in whole.items():
        torch.testing.assert_close(each[name].mean(0), value, atol=1e-10, rtol=1e-8)
    generator = torch.Generator().manual_seed(9)
    along = {
        name: torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in point.items()
    }
    with warnings.catch_warnings():
        # torch compiles its own decompositions by a function that it deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        _, slope = torch.func.jvp(lambda p: loss(p, tokens), (point,), (along,))
    expected = sum((whole[name] * along[name]).sum() for name in point)
    torch.testing.assert_close(slope, expected, atol=1e-10, rtol=1e-8)


@pytest.mark.parametrize("preset", EVERY)
def test_empty_batch(build: Build, preset: str) -> None:
    assert build(preset)(torch.zeros(0, 5, dtype=torch.int64)).shape == (0, 5, 11)


def test_parameters_can_be_counted_on_the_meta_device() -> None:
    config = presets()["toy-kda"]
    with torch.device("meta"):
        model = LoopedModel(config)
    expected = sum(p.numel() for p in LoopedModel(config).parameters())
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.gpu
def test_weights_do_not_depend_on_the_device() -> None:
    before = torch.cuda.get_rng_state()
    with torch.device("cuda"):
        model = LoopedModel(presets()["toy-kda"])
    assert torch.equal(before, torch.cuda.get_rng_state())
    for name, value in LoopedModel(presets()["toy-kda"]).state_dict().items():
        torch.testing.assert_close(model.state_dict()[name].cpu(), value)


def test_a_copy_is_a_model_of_its_own() -> None:
    """What one has read is worth nothing to a copy whose weights may have changed since."""
    model = LoopedModel(LoopedConfig(pattern="gdn", width=16, num_heads=2))
    tokens = torch.zeros(1, 3, dtype=torch.int64)
    cache = model.new_cache(1)
    model(tokens, cache)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(copied(tokens), model(tokens))
        with pytest.raises(ValueError, match="it was made by another model"):
            copied(tokens, cache)
    model(tokens, cache)
