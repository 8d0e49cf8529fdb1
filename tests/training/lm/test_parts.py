"""Configuration, parameter groups, rates and sinks."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel, toys
from lt2theory.models.flops import step_flops
from lt2theory.training.lm import (
    Execution,
    LmConfig,
    LmOptimiserConfig,
    find_recipe,
    recipes,
    resolve,
)
from lt2theory.training.lm.optimisers import make_optimisers, parameter_groups
from lt2theory.training.lm.placement import choose_parallel
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.lm.sinks import check_sinks, open_sinks
from lt2theory.training.lm.step import LmStepper
from lt2theory.training.lm.throughput import Throughput, peak_tflops
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import Corpus, TextBatches
from tests.training.lm.conftest import MakeLm

ALONE = Ranks(0, 1, torch.device("cpu"))


def test_tokens_become_steps(corpus: Corpus, make_lm: MakeLm) -> None:
    by_tokens = resolve(make_lm(steps=None, tokens=8 * 6 * 33 - 5), corpus)
    assert by_tokens == resolve(make_lm(), corpus)
    assert resolve(by_tokens, corpus) == by_tokens
    assert LmConfig.model_validate(by_tokens.to_json()) == by_tokens


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": None}, "steps: got None with tokens None; give one of the two"),
        ({"tokens": 9}, "steps: got 8 with tokens 9"),
        ({"label": "a\nb"}, "label: got"),
        (
            {"model": {"positions": "learned", "max_length": 32}},
            r"sequence_length: 33 is beyond the learned positions \(model.max_length = 32\)",
        ),
        ({"optimiser": {"betas": (0.9, 1.0)}}, "betas: got"),
    ],
)
def test_configurations_that_are_refused(
    changes: dict[str, Any], message: str, make_lm: MakeLm
) -> None:
    with pytest.raises(ValueError, match=message):
        make_lm(**changes)


def test_what_does_not_fit_a_corpus_is_refused(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"model.vocab_size: 200 must be at least the 258 ids"):
        resolve(make_lm(model={"vocab_size": 200}), corpus)
    with pytest.raises(ValueError, match="corpus: 0123 is not that of"):
        resolve(make_lm(corpus="0123"), corpus)


def stepper(config: LmConfig, corpus: Corpus, ranks: Ranks, **how: Any) -> LmStepper:
    batches = TextBatches(
        corpus.stream("train"),
        length=config.sequence_length,
        batch_size=config.batch_size,
        seed=0,
    )
    return LmStepper(config, Execution(**how), ranks, batches)


def test_what_does_not_fit_the_machine_is_refused(
    corpus: Corpus, make_lm: MakeLm, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_lm()
    with pytest.raises(ValueError, match="batch_size: 6 must be a multiple of the 4 processes"):
        stepper(config, corpus, Ranks(0, 4, torch.device("cpu")))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ValueError, match=r"compile: got True, but torch\.compile needs a C"):
        stepper(config, corpus, ALONE, compile=True)
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    muon = make_lm(optimiser={"name": "muon"})
    with pytest.raises(ValueError, match=r"optimiser.name: 'muon' needs torch >= 2.9"):
        stepper(muon, corpus, ALONE)


def test_how_processes_share_the_work() -> None:
    adamw, muon = LmOptimiserConfig(), LmOptimiserConfig(name="muon")
    assert choose_parallel(Execution(), adamw) == "fsdp"
    assert choose_parallel(Execution(), muon) == "replicate"
    assert choose_parallel(Execution(compile=True), adamw) == "replicate"
    assert choose_parallel(Execution(parallel="replicate"), adamw) == "replicate"
    with pytest.raises(ValueError, match=r"parallel: got 'fsdp', but .*'muon' needs whole weights"):
        choose_parallel(Execution(parallel="fsdp"), muon)


@pytest.mark.parametrize("name", sorted(toys()))
def test_every_parameter_is_in_one_group_and_one_optimiser(name: str) -> None:
    model = LoopedModel(toys()[name])
    groups = parameter_groups(model)
    found = sorted(id(p) for group in groups.values() for p in group)
    assert found == sorted(id(p) for p in model.parameters())
    assert all(p.dim() == 2 for p in groups["matrix"])
    names = {id(p): key for key, p in model.named_parameters()}
    assert {names[id(p)] for p in groups["embedding"]} <= {"embedding.weight", "head.weight"}
    adamw = make_optimisers(model, LmOptimiserConfig(weight_decay=0.3, decay_embeddings=False))
    decays = {
        id(p): group["weight_decay"]
        for optimiser in adamw
        for group in optimiser.param_groups
        for p in group["params"]
    }
    for kind, decay in (("matrix", 0.3), ("embedding", 0.0), ("other", 0.0)):
        assert {decays[id(p)] for p in groups[kind]} <= {decay}


def test_rates(make_lm: MakeLm) -> None:
    config = make_lm()
    rates = Throughput(config, Ranks(0, 2, torch.device("cpu")), 1e-6).rates(3, 2.0)
    flops = step_flops(config.model, 6, 33)
    assert rates["tokens_per_second"] == 3 * 6 * 33 / 2
    assert rates["tflops"] == pytest.approx(1.5 * flops / 1e12)
    assert rates["mfu"] == pytest.approx(1.5 * flops / 2e6)
    assert "mfu" not in Throughput(config, ALONE, None).rates(1, 1.0)
    assert peak_tflops(Runtime.of("cpu", "bfloat16"), None) is None
    assert peak_tflops(Runtime.of("cpu", "bfloat16"), 3.0) == 3.0


class Tracker:
    """What is used of wandb and trackio."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def init(self, **options: Any) -> None:
        self.calls.append(options)

    def log(self, numbers: dict[str, float], step: int) -> None:
        self.calls.append((step, numbers))

    def finish(self) -> None:
        self.calls.append("finished")


def test_sinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb, trackio = Tracker(), Tracker()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setitem(sys.modules, "trackio", trackio)
    for sink in open_sinks(("wandb", "trackio"), tmp_path / "run", {"a": 1}, "hash"):
        sink.log(3, {"train/loss": 2.0})
        sink.close()
    for tracker in (wandb, trackio):
        assert tracker.calls[0]["config"] == {"a": 1}
        assert tracker.calls[0]["name"] == "run"
        assert tracker.calls[1:] == [(3, {"train/loss": 2.0}), "finished"]
    assert (wandb.calls[0]["id"], wandb.calls[0]["resume"]) == ("run-hash", "allow")


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (sink,) = open_sinks(("tensorboard",), tmp_path, {}, "hash")
    sink.log(1, {"train/loss": 2.0})
    sink.close()
    assert list((tmp_path / "tensorboard").iterdir())


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio"])
def test_a_missing_sink_is_named(name: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=rf"sinks: '{name}' needs the package {name} \(pip inst"):
        check_sinks((name,))


def test_the_model_may_have_more_ids_than_the_corpus(corpus: Corpus, make_lm: MakeLm) -> None:
    assert isinstance(resolve(make_lm(), corpus).model, LoopedConfig)
    assert corpus.vocab_size == 258


def test_another_recipe_is_answered_with_the_nearest() -> None:
    with pytest.raises(KeyError, match="perhaps you meant byte-10m-8min"):
        recipes()["byte-10m"]


@pytest.mark.parametrize("name", [name for name in recipes() if name.startswith("teacher")])
def test_teachers_are_small_and_loop(name: str) -> None:
    config = find_recipe(name).config
    with torch.device("meta"):
        parameters = sum(p.numel() for p in LoopedModel(config.model).parameters())
    wanted = {"1m": 1.0e6, "3m": 3.2e6, "7m": 6.4e6}[name.split("-")[1]]
    assert parameters == pytest.approx(wanted, rel=0.03)
    assert 2 * parameters < 15 * 2**20, "in bfloat16 it travels in one piece"
    assert (config.model.num_loops, config.model.sandwich_norm) == (4, True)
    assert config.label == name


@pytest.mark.parametrize("name", ["byte-10m-8min"])
def test_recipes_fit_their_words(name: str) -> None:
    recipe = find_recipe(name)
    assert LmConfig.model_validate(recipe.config.model_dump()) == recipe.config
    with torch.device("meta"):
        parameters = sum(p.numel() for p in LoopedModel(recipe.config.model).parameters())
    assert 10e6 <= parameters < 12.5e6
    size = step_flops(recipe.config.model, recipe.config.batch_size, recipe.config.sequence_length)
    assert size / 1e12 == pytest.approx(20, rel=0.05)
    assert size / recipe.config.tokens_per_step / 1e6 == pytest.approx(301, rel=0.01)
    assert recipe.config.tokens_per_step * recipe.config.total_steps == pytest.approx(
        197e6, rel=0.01
    )
