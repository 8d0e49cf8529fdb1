"""A mixer of one's own: registered, built, refused."""

from dataclasses import replace

import pytest
import torch

from lt2theory.analysis import check_mixer, loop_transitions
from lt2theory.mixers import (
    MIXERS,
    OWN_MIXERS,
    DeltaNet,
    LinearMixer,
    SoftmaxAttention,
    register_mixer,
)
from lt2theory.models import LoopedConfig, LoopedModel, find_preset, presets
from lt2theory.models.flops import step_flops
from lt2theory.models.fused_layers import why_not_fused
from proofs_checks.runner import run_on_mixer


class Leaky(DeltaNet):
    """DeltaNet that forgets at a constant rate."""

    def prepare(self, x, stream, slot=None):
        factors = super().prepare(x, stream, slot)
        return replace(factors, log_decay=torch.full_like(factors.beta, -0.05))


class Leaking(DeltaNet):
    """Sees the next token's key, and so is not causal."""

    def prepare(self, x, stream, slot=None):
        factors = super().prepare(x, stream, slot)
        return replace(factors, k=factors.k.roll(-1, 1))


@pytest.fixture(autouse=True)
def only_here(monkeypatch):
    """What a test registers is gone afterwards."""
    before = dict(MIXERS)
    yield
    MIXERS.clear()
    MIXERS.update(before)


def test_a_registered_mixer_is_one_like_any_other() -> None:
    register_mixer("leaky", Leaky)
    config = LoopedConfig(pattern="leaky,full", num_loops=2, loop_state="accumulate")
    model = LoopedModel(config)
    assert isinstance(model.blocks[0].mixer, Leaky)
    tokens = torch.arange(12)[None]
    table = loop_transitions(model.trace(tokens))
    assert set(table.loc[table["num_loops"] == 2, "rank"]) == {2}
    assert step_flops(config, 1, 8) == step_flops(
        LoopedConfig.model_validate({**config.model_dump(), "pattern": "deltanet,full"}), 1, 8
    )
    assert {"toy-leaky", "toy-leaky-accumulate"} <= set(presets())
    assert find_preset("toy-leaky").config.pattern == "leaky"


def test_fused_decoding_leaves_it_out() -> None:
    """A subclass of softmax attention may prepare something else than the kernels do."""

    class Mine(SoftmaxAttention):
        pass

    register_mixer("mine", Mine)
    said = why_not_fused(LoopedConfig(pattern="mine"), "mine", 16)
    assert said == "no fused step for mine, which is not the package's"


def test_it_passes_the_checks_of_every_mixer() -> None:
    register_mixer("leaky", Leaky)
    table = check_mixer("leaky")
    assert table["holds"].all(), table
    assert len(table) == 8


def test_a_faulty_mixer_is_found_out() -> None:
    register_mixer("leaking", Leaking)
    table = check_mixer("leaking").set_index("property")
    assert not table.loc["causality", "holds"]
    assert not table.loc["streaming", "holds"]
    assert table.loc["values", "holds"]


def test_attention_has_no_state_to_accumulate() -> None:
    assert "accumulate" not in set(check_mixer("window", backend="reference")["property"])


def test_claims_are_asked_about_it() -> None:
    register_mixer("leaky", Leaky)
    found = {one.record.id: one for one in run_on_mixer("leaky", fast=True)}
    assert {id for id, one in found.items() if one.as_expected} == {"C3"}
    assert found["R8"].record.verdict == "refuted_as_stated", "it erases, and so gains rank"
    assert "leaky" in found["C3"].record.scope
    silent = {one.record.id: one for one in run_on_mixer("retnet", fast=True)}
    assert all(one.as_expected for one in silent.values())
    with pytest.raises(ValueError, match="mixer: 'full' is not allowed"):
        run_on_mixer("full")


def test_a_cell_can_be_run_again() -> None:
    register_mixer("leaky", DeltaNet)
    before = LoopedModel(LoopedConfig(pattern="leaky"))
    register_mixer("leaky", Leaky)
    assert type(before.blocks[0].mixer) is DeltaNet
    assert type(LoopedModel(LoopedConfig(pattern="leaky")).blocks[0].mixer) is Leaky


@pytest.mark.parametrize("name", ["Leaky", "", "a-b", "9a", "a\n"])
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"name: .* \(must be lower-case letters"):
        register_mixer(name, Leaky)


def test_the_packages_own_are_not_replaced() -> None:
    assert "gdn" in OWN_MIXERS
    with pytest.raises(ValueError, match="name: 'gdn' is not allowed"):
        register_mixer("gdn", Leaky)


def test_another_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(KeyError, match=r"mixer: 'gnd' is not allowed, perhaps you meant gdn"):
        MIXERS["gnd"]


def test_half_a_mixer_is_refused() -> None:
    class Half(LinearMixer):
        def output(self, o, x):
            return x

    with pytest.raises(ValueError, match=r"kind: Half is not allowed \(must define prepare\)"):
        register_mixer("half", Half)
    with pytest.raises(ValueError, match="must be a class derived from"):
        register_mixer("half", torch.nn.Linear)


def test_an_unknown_mixer_is_not_checked() -> None:
    with pytest.raises(ValueError, match="mixer: 'nothing' is not allowed"):
        check_mixer("nothing")
