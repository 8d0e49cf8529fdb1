"""Runs in one process: accumulation, resuming, interruptions, damage, divergence, learning."""

import json
import math
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from lt2theory.models import LoopedModel
from lt2theory.runs import RunFolder
from lt2theory.training import Interrupted
from lt2theory.training.lm import Execution, LmConfig, LmOptimiserConfig, load_lm, restoring, run_lm
from lt2theory.training.lm import checkpoint as checkpoint_module
from lt2theory.training.lm.step import LmStepper
from lt2theory.training.text import Corpus, CorpusConfig, prepare
from tests.kernel_runs import name_kernels
from tests.training.lm.conftest import MakeLm

Lines = Callable[[Path], list[dict[str, Any]]]
Kept = dict[str, bytes]

MUON = hasattr(torch.optim, "Muon")


def train(corpus: Corpus, config: LmConfig, folder: Path, **how: Any) -> Kept:
    """Carry a run out; its metrics and all tensors as bytes."""
    run_lm(config, Execution(**how), data=corpus.folder, folder=folder)
    return kept(folder)


def kept(folder: Path) -> Kept:
    found = {"metrics": (folder / "metrics.jsonl").read_bytes()}
    for path in RunFolder.open(folder).checkpoints()[0].glob("*.safetensors"):
        for name, tensor in load_file(path).items():
            found[f"{path.name} {name}"] = tensor.numpy().tobytes()
    return found


def numbers(folder: Path, lines: Lines) -> list[float]:
    return [value for line in lines(folder) for value in line["metrics"].values()]


def signal_at(step: int, monkeypatch: pytest.MonkeyPatch, number: int = signal.SIGTERM) -> None:
    """Let a signal come during a step."""
    apply = LmStepper.apply
    calls = iter(range(1, 1000))

    def apply_and_signal(self: LmStepper, rate: float) -> None:
        apply(self, rate)
        if next(calls) == step:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(LmStepper, "apply", apply_and_signal)


@pytest.mark.parametrize("at_once", [1, 4])
def test_accumulated_gradients_are_those_of_the_whole_batch(
    at_once: int, corpus: Corpus, make_lm: MakeLm, tmp_path: Path, lines: Lines
) -> None:
    config = make_lm(steps=4)
    train(corpus, config, tmp_path / "whole")
    train(corpus, config, tmp_path / "parts", micro_batch_size=at_once)
    whole, parts = numbers(tmp_path / "whole", lines), numbers(tmp_path / "parts", lines)
    assert parts == pytest.approx(whole, rel=1e-12)
    weights = [load_lm(tmp_path / name)[0].state_dict() for name in ("whole", "parts")]
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-10, atol=1e-12)


def test_a_step_is_that_of_plain_torch(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path, lines: Lines
) -> None:
    """Loss, gradient norm, clipping and AdamW against a few lines that know nothing of parts."""
    config = make_lm(
        steps=2, model={"loop_loss": "last"}, evaluate_every=0,
        optimiser=LmOptimiserConfig(
            learning_rate=0.1, warmup_steps=0, schedule="constant", weight_decay=0, clip=0.5
        ),
    )  # fmt: skip
    train(corpus, config, tmp_path / "run", micro_batch_size=4)
    generator = torch.Generator().manual_seed(0)
    model = LoopedModel(config.model, generator=generator).double()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1, betas=(0.9, 0.95), weight_decay=0)
    from lt2theory.training.text import TextBatches

    batches = TextBatches(corpus.stream("train"), length=33, batch_size=6, seed=0)
    for line, step in zip(lines(tmp_path / "run"), range(2), strict=True):
        inputs, targets, documents = (torch.from_numpy(each) for each in batches.batch(step))
        loss = torch.nn.functional.cross_entropy(
            model(inputs, documents=documents).flatten(0, 1), targets.flatten()
        )
        optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        assert line["metrics"]["loss"] == pytest.approx(loss.item(), rel=1e-12)
        assert line["metrics"]["gradient_norm"] == pytest.approx(norm.item(), rel=1e-10)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_the_run_goes_on_to_the_same_bytes(
    number: int, corpus: Corpus, make_lm: MakeLm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_lm(log_every=3, dtype="float32")
    undisturbed = train(corpus, config, tmp_path / "one")
    with monkeypatch.context() as patch:
        signal_at(4, patch, number)
        with pytest.raises(Interrupted, match="the same command continues"):
            train(corpus, config, tmp_path / "two")
    assert RunFolder.open(tmp_path / "two").checkpoints()[0].name.endswith("step-4")
    assert RunFolder.open(tmp_path / "two").status == "unfinished"
    assert train(corpus, config, tmp_path / "two") == undisturbed


def test_a_kill_while_a_checkpoint_is_written_leaves_the_one_before(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_lm()
    undisturbed = train(corpus, config, tmp_path / "one", checkpoint_every=3)
    keep, saved = checkpoint_module.keep_checkpoint, []

    class Killed(BaseException):
        pass

    def killed(folder: Path) -> Path:
        saved.append(folder)
        if len(saved) == 2:
            raise Killed
        return keep(folder)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "keep_checkpoint", killed)
        with pytest.raises(Killed):
            train(corpus, config, tmp_path / "two", checkpoint_every=3)
    names = [path.name for path in (tmp_path / "two" / "checkpoints").iterdir()]
    assert sorted(names) == ["000001-step-3", "000002-step-6.tmp"]
    assert train(corpus, config, tmp_path / "two", checkpoint_every=3) == undisturbed
    assert len(list((tmp_path / "two" / "checkpoints").iterdir())) == 2


@pytest.mark.parametrize("damage", ["cut", "one bit", "gone", "state"])
def test_a_damaged_checkpoint_costs_one_generation(
    damage: str, corpus: Corpus, make_lm: MakeLm, tmp_path: Path
) -> None:
    config = make_lm()
    undisturbed = train(corpus, config, tmp_path / "run", checkpoint_every=3)
    newest = RunFolder.open(tmp_path / "run").checkpoints()
    (tmp_path / "run" / "summary.json").unlink()
    file = newest[0] / "state.json" if damage == "state" else next(newest[0].glob("*.safetensors"))
    data = bytearray(file.read_bytes())
    if damage == "gone":
        file.unlink()
    elif damage == "state":
        file.write_text(data.decode().replace('"spikes": 0', '"spikes": 1'))
    else:
        data[-100] ^= 1
        file.write_bytes(data[:-1] if damage == "cut" else data)
    with pytest.warns(UserWarning, match="going back one checkpoint: .* is damaged"):
        assert train(corpus, config, tmp_path / "run", checkpoint_every=3) == undisturbed
    (tmp_path / "run" / "summary.json").unlink()
    for folder in RunFolder.open(tmp_path / "run").checkpoints():
        (folder / "state.json").unlink()
    with (
        pytest.warns(UserWarning, match="going back"),
        pytest.raises(ValueError, match=r"state\.json cannot be read"),
    ):
        train(corpus, config, tmp_path / "run")


@pytest.mark.parametrize("moment", ["the first step", "a save", "before any step"])
def test_a_signal_at_a_bad_moment(
    moment: str, corpus: Corpus, make_lm: MakeLm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes in the middle of something lets it end; the run goes on to the same bytes."""
    config, folder = make_lm(dtype="float32"), tmp_path / "two"
    undisturbed = train(corpus, config, tmp_path / "one", checkpoint_every=3)
    owner, name = {
        "the first step": (LmStepper, "gradients"),
        "a save": (checkpoint_module, "keep_checkpoint"),
        "before any step": (LmStepper, "read"),
    }[moment]
    during, sent = getattr(owner, name), []

    def signalled(*given: Any) -> Any:
        if not sent:
            sent.append(os.kill(os.getpid(), signal.SIGTERM))
        return during(*given)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, signalled)
        with pytest.raises(Interrupted, match="the same command continues"):
            train(corpus, config, folder, checkpoint_every=3)
    steps = {"the first step": ["1"], "a save": ["3"], "before any step": []}[moment]
    names = [path.name for path in RunFolder.open(folder).checkpoints()]
    assert [name.rpartition("-")[2] for name in names] == steps
    assert train(corpus, config, folder, checkpoint_every=3) == undisturbed


def test_what_is_no_checkpoint_is_passed_over(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_lm()
    undisturbed = train(corpus, config, tmp_path / "one")
    with monkeypatch.context() as patch:
        signal_at(3, patch)
        with pytest.raises(Interrupted):
            train(corpus, config, tmp_path / "two")
    (tmp_path / "two" / "checkpoints" / ".listing").touch()
    (tmp_path / "two" / "checkpoints" / "notes").mkdir()
    assert train(corpus, config, tmp_path / "two") == undisturbed


@pytest.mark.parametrize("damage", ["one bit", "cut", "gone"])
def test_text_that_has_changed_is_named_and_the_run_left_alone(
    damage: str, corpus: Corpus, make_lm: MakeLm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, folder, data = make_lm(), tmp_path / "two", tmp_path / "data"
    undisturbed = train(corpus, config, tmp_path / "one")
    shutil.copytree(corpus.folder, data)
    with monkeypatch.context() as patch:
        signal_at(3, patch)
        with pytest.raises(Interrupted):
            train(Corpus(data), config, folder)
    shard = data / "train-00000.tokens"
    changed = bytearray(shard.read_bytes())
    changed[-700] ^= 1
    shard.write_bytes(changed[:-64] if damage == "cut" else changed)
    if damage == "gone":
        shard.unlink()
    before = (folder / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"train-00000\.tokens is not what the manifest says"):
        train(Corpus(data), config, folder)
    assert (folder / "metrics.jsonl").read_bytes() == before
    assert train(corpus, config, folder) == undisturbed


def test_other_weights_are_refused(corpus: Corpus, make_lm: MakeLm, tmp_path: Path) -> None:
    train(corpus, make_lm(steps=1, evaluate_every=0), tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run").checkpoints()[0]
    wider = LoopedModel(make_lm(model={"width": 20}).model).double()
    with pytest.raises(ValueError, match=r"cannot be read: .*[Ss]ize"):
        restoring.load_weights(folder, wider)


def test_steps_that_are_not_finite_change_nothing_and_end_the_run(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradients = LmStepper.gradients
    bad = {2, 5, 6, 7}

    def poisoned(self: LmStepper, share: Any, labels: float) -> dict[str, float]:
        seen = gradients(self, share, labels)
        return seen | ({"loss": math.nan} if share.step in bad else {})

    monkeypatch.setattr(LmStepper, "gradients", poisoned)
    config = make_lm(stability={"max_bad_steps": 2}, evaluate_every=0, steps=20)
    summary = run_lm(config, Execution(), data=corpus.folder, folder=tmp_path / "run")
    assert (summary.status, summary.steps, summary.not_finite) == ("diverged", 8, 4)
    events = [line["step"] for line in lines(tmp_path / "run") if line["split"] == "event"]
    assert events == [3, 6, 7, 8]
    weights = load_lm(tmp_path / "run")[0].parameters()
    assert all(bool(parameter.isfinite().all()) for parameter in weights)


def test_kernels_of_a_gpu_are_left_out_on_a_cpu(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path
) -> None:
    run_lm(make_lm(steps=1), Execution(), data=corpus.folder, folder=tmp_path / "run")
    expected, _ = load_lm(tmp_path / "run")
    name_kernels(tmp_path / "run")
    model, own = load_lm(tmp_path / "run")
    assert (model.config.backend, own.model.backend) == ("auto", "triton")
    tokens = torch.arange(14).reshape(2, 7)
    torch.testing.assert_close(model(tokens), expected(tokens))


def test_an_evaluation_that_is_no_number_ends_the_run(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path, lines: Lines
) -> None:
    rate = LmOptimiserConfig(learning_rate=1e30, warmup_steps=0)
    config = make_lm(optimiser=rate, evaluate_every=1, steps=20)
    summary = run_lm(config, Execution(), data=corpus.folder, folder=tmp_path / "run")
    assert (summary.status, summary.held_out) == ("diverged", None)
    found = lines(tmp_path / "run")
    events = [line["metrics"] for line in found if line["split"] == "event"]
    assert events == [{"evaluation_not_finite": 1}]


@pytest.mark.parametrize("graph", [False, True])
def test_a_way_that_is_refused_touches_no_run(
    graph: bool, corpus: Corpus, make_lm: MakeLm, tmp_path: Path
) -> None:
    learned = make_lm(steps=2, model={"positions": "learned", "max_length": 64})
    folder, way = tmp_path / "run", Execution(cuda_graph=graph)
    if not graph:
        way = Execution(parallel="fsdp")
        muon = LmOptimiserConfig(name="muon", warmup_steps=0)
        learned = learned.model_copy(update={"optimiser": muon})
    with pytest.raises(ValueError, match=r"cuda_graph: True|parallel: got 'fsdp'"):
        run_lm(learned, way, data=corpus.folder, folder=folder)
    assert not folder.exists()
    run_lm(make_lm(steps=2), Execution(), data=corpus.folder, folder=folder)
    with pytest.raises(ValueError, match=r"cuda_graph: True|parallel: got 'fsdp'"):
        run_lm(learned, way, data=corpus.folder, folder=folder, overwrite=True)
    assert RunFolder.open(folder).summary()["steps"] == 2


def test_a_state_that_lost_its_fields_is_no_state(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path
) -> None:
    folder, config = tmp_path / "run", make_lm(steps=4)
    way = Execution(checkpoint_every=2)
    run_lm(config, way, data=corpus.folder, folder=folder)
    summary = (folder / "summary.json").read_text()
    (folder / "summary.json").unlink()
    (RunFolder.open(folder).checkpoints()[0] / "state.json").write_text("{}")
    with pytest.warns(UserWarning, match="files: it names none"):
        again = run_lm(config, way, data=corpus.folder, folder=folder)
    assert again.loss == json.loads(summary)["loss"]


@pytest.mark.skipif(not MUON, reason="this torch has no Muon")
def test_muon_learns_and_goes_on_to_the_same_bytes(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_lm(optimiser=LmOptimiserConfig(name="muon", learning_rate=0.02, warmup_steps=0))
    undisturbed = train(corpus, config, tmp_path / "one")
    with monkeypatch.context() as patch:
        signal_at(3, patch)
        with pytest.raises(Interrupted):
            train(corpus, config, tmp_path / "two")
    assert train(corpus, config, tmp_path / "two") == undisturbed
    losses = [
        json.loads(line)["metrics"].get("loss", 9) for line in undisturbed["metrics"].splitlines()
    ]
    assert min(losses) < losses[0] - 0.5


def test_done_before_and_another_configuration(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path
) -> None:
    first = run_lm(make_lm(steps=2), Execution(), data=corpus.folder, folder=tmp_path / "run")
    # How it is carried out is no part of the configuration.
    how = Execution(micro_batch_size=1, checkpoint_every=1)
    again = run_lm(make_lm(steps=2), how, data=corpus.folder, folder=tmp_path / "run")
    assert again == first
    assert first.tokens == 2 * 6 * 33
    with pytest.raises(ValueError, match="run of another configuration"):
        run_lm(make_lm(steps=3), Execution(), data=corpus.folder, folder=tmp_path / "run")


def test_it_learns_more_than_how_often_bytes_come(tmp_path: Path) -> None:
    """Below the entropy of single bytes, on documents that it has not seen."""
    prepare(
        CorpusConfig(sources=("excerpt",), piece_bytes=1000, eval_share=0.1), tmp_path / "corpus"
    )
    corpus = Corpus(tmp_path / "corpus")
    held_out = corpus.stream("eval")
    documents = [held_out.document(i)[0][1:-1] for i in range(held_out.num_documents)]
    counts = np.bincount(np.concatenate(documents))
    shares = counts[counts > 0] / counts.sum()
    entropy = float(-(shares * np.log2(shares)).sum())
    config = LmConfig.model_validate(
        {
            "model": {
                "vocab_size": 258, "width": 64, "num_layers": 1, "num_loops": 2, "num_heads": 2,
                "pattern": "gdn", "embedding_std": 0.1, "backend": "chunked",
            },
            "optimiser": {"learning_rate": 1e-2, "warmup_steps": 10, "schedule": "wsd"},
            "steps": 60, "batch_size": 8, "sequence_length": 96, "evaluate_every": 60,
        }
    )  # fmt: skip
    summary = run_lm(config, Execution(), data=corpus.folder, folder=tmp_path / "run")
    assert summary.held_out is not None
    assert summary.held_out.bits_per_byte < entropy - 0.5
