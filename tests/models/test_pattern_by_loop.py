"""Patterns that change from loop to loop: what is shared, what is refused, and the values."""

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from lt2theory.mixers import Stream
from lt2theory.models import Decoder, LayerSpec, LoopedConfig, LoopedModel, presets
from lt2theory.models.loop_state import LoopState
from lt2theory.ops.factors import AttentionInputs

TOKENS = torch.randint(0, 11, (2, 19), generator=torch.Generator().manual_seed(3))
SIZES = {"width": 16, "num_heads": 2, "vocab_size": 11}


def model_of(pattern: str, **changes: object) -> LoopedModel:
    fields = SIZES | {"pattern": pattern, "num_layers": 2, "num_loops": 3} | changes
    model = LoopedModel(LoopedConfig.model_validate(fields)).double()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=noise, dtype=torch.float64)
    return model


def test_loops_are_cycled_and_mixers_shared() -> None:
    config = LoopedConfig(pattern="gdn,full->window(4)", num_layers=3, num_loops=3)
    first = (LayerSpec("gdn"), LayerSpec("full"), LayerSpec("gdn"))
    assert config.loops == (first, (LayerSpec("window", 4),) * 3, first)
    assert config.layers == first
    assert config.mixers_at(0) == (LayerSpec("gdn"), LayerSpec("window", 4))
    assert config.mixers_at(1) == (LayerSpec("full"),)
    assert [config.mixer_number(0, loop) for loop in range(3)] == [0, 1, 0]
    names = LoopedModel(config).state_dict()
    assert "blocks.0.other_mixers.0.q_proj.weight" in names
    assert not any(name.startswith("blocks.1.other_mixers") for name in names)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pattern": "full->gdn->gdn"}, "names 3 loops, more than there are"),
        ({"pattern": "full->"}, "'' is not allowed .choose from full"),
        ({"pattern": "gdn->kda", "loop_state": "accumulate"}, "layer 0 of pattern .* gdn and kda"),
    ],
)
def test_refusals(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LoopedConfig.model_validate({"num_loops": 2} | fields)


def test_a_window_of_a_loop_is_that_of_a_window_layer() -> None:
    """With equal weights each loop gives what a model of its own window gives from there."""
    varied = model_of("full->window(4)->window(2)", positions="rope")
    h = varied.embed(TOKENS)
    states = varied.loop_states(h)
    for loop, pattern in enumerate(("full", "window(4)", "window(2)")):
        alone = model_of(pattern, num_loops=1, positions="rope")
        weights = varied.state_dict()
        weights["loop_gate"] = weights["loop_gate"][loop : loop + 1]
        alone.load_state_dict(weights)
        expected = alone.run_embedded(states[loop])
        torch.testing.assert_close(states[loop + 1], expected, atol=1e-12, rtol=1e-12)


def test_another_mixer_of_a_loop_is_that_of_its_layer() -> None:
    varied = model_of("gdn->full->gdn")
    states = varied.loop_states(varied.embed(TOKENS))
    for loop, (pattern, number) in enumerate((("gdn", 0), ("full", 1), ("gdn", 0))):
        alone = model_of(pattern, num_loops=1)
        alone.load_state_dict(_of_loop(varied.state_dict(), loop, number))
        expected = alone.run_embedded(states[loop])
        torch.testing.assert_close(states[loop + 1], expected, atol=1e-12, rtol=1e-12)


def _of_loop(weights: dict[str, Tensor], loop: int, number: int) -> dict[str, Tensor]:
    """The weights that one loop uses, named as in a model of that mixer alone."""
    other = {n: x for n, x in weights.items() if "other_mixers" in n}
    kept = {n: x for n, x in weights.items() if n not in other and not (number and ".mixer." in n)}
    moved = {n.replace("other_mixers.0.", "mixer."): x for n, x in other.items() if number}
    return kept | moved | {"loop_gate": weights["loop_gate"][loop : loop + 1]}


@pytest.mark.parametrize(
    "pattern", ["full->window(3)", "window(3)->full", "gdn->window(4)->full", "gdn,full->full,kda"]
)
@pytest.mark.parametrize("checkpointing", ["none", "loop", "block"])
def test_streaming_decoding_and_gradients(pattern: str, checkpointing: str) -> None:
    model = model_of(pattern, checkpointing=checkpointing)
    whole = model(TOKENS)
    cache = model.new_cache(2, snapshot_every=4)
    with torch.no_grad():
        pieces = [model(TOKENS[:, a:b], cache) for a, b in ((0, 7), (7, 8), (8, 17))]
        decoder = Decoder(model, cache, capacity=19)
        pieces += [decoder.step(TOKENS[:, t])[:, None].clone() for t in (17, 18)]
        cache.crop(10, model=model)
        again = model(TOKENS[:, 10:], cache)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(again, whole[:, 10:], atol=1e-10, rtol=1e-10)
    whole.square().mean().backward()
    plain = model_of(pattern)
    _by_hand(plain).square().mean().backward()
    for (name, got), want in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(got.grad, want.grad, atol=1e-12, rtol=1e-9, msg=name)


def _by_hand(model: LoopedModel) -> Tensor:
    """The loop written out, every mixer picked by its name."""
    config = model.config
    state = LoopState(config, Stream(torch.arange(19).expand(2, -1)))
    h = model.embed(TOKENS)
    for loop in range(config.num_loops):
        start = h
        for layer in range(config.num_layers):
            block, spec = model.blocks[layer], config.loops[loop][layer]
            kind = "full" if spec.mixer == "window" else spec.mixer
            specs = [each.weights for each in config.mixers_at(layer)]
            h = block(h, state.mix_at(layer, loop), mixer=specs.index(kind))
        h = h + model.loop_gate[loop] * start
    return model.read_out(h)


def test_a_trace_shows_the_window_that_ran() -> None:
    trace = model_of("full->window(4)").trace(TOKENS)
    windows = {place: each.window for place, each in trace.factors.items()}
    assert all(isinstance(each, AttentionInputs) for each in trace.factors.values())
    assert windows == {(n, loop): 4 if loop == 1 else None for n in range(2) for loop in range(3)}


def test_linear_heads_have_widths_of_their_own() -> None:
    config = LoopedConfig(pattern="gdn,full", width=16, num_heads=2, linear_head_dim=6)
    assert [config.head_dims(layer) for layer in config.layers] == [(6, 6), (8, 8)]
    config = LoopedConfig(
        pattern="gdn,full", num_heads=2, head_dim=8, value_dim=4, linear_value_dim=10
    )
    assert [config.head_dims(layer) for layer in config.layers] == [(8, 10), (8, 4)]
    with pytest.raises(ValidationError, match="linear_head_dim: 6 does nothing in pattern 'full'"):
        LoopedConfig(pattern="full", linear_head_dim=6)


def test_younger_fields_leave_older_hashes_alone() -> None:
    assert not {"exit_gate", "loop_loss", "linear_head_dim"} & LoopedConfig().model_dump().keys()
    for config in presets().values():
        assert LoopedConfig.model_validate_json(config.model_dump_json()) == config
