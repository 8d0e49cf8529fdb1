"""Steps from fixed buffers against steps one operation after the other."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.runs import RunFolder
from lt2theory.training.lm import Execution, LmConfig, LmOptimiserConfig, load_lm, run_lm
from lt2theory.training.lm.graph_step import GraphLmStepper, make_lm_stepper
from lt2theory.training.lm.objective import LmObjective
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.lm.step import LmStepper
from lt2theory.training.text import Corpus, TextBatches
from tests.training.lm.conftest import MakeLm

Lines = Callable[[Path], list[dict[str, Any]]]
EXACT = LmOptimiserConfig(learning_rate=2**-7, warmup_steps=4, schedule="constant")
"""Rates that are the same numbers in float32, as a graph reads them, and in float64."""
WAYS: list[dict[str, Any]] = [
    {},
    {"model": {"loop_loss": "expected", "exit_gate": True}},
    {"model": {"pattern": "gdn,dsa", "top_k": 5}},
    {"model": {"loop_loss": "last", "checkpointing": "loop"}},
]


def numbers(folder: Path, lines: Lines) -> list[float]:
    return [value for line in lines(folder) for value in line["metrics"].values()]


@pytest.mark.parametrize("changes", WAYS)
@pytest.mark.parametrize("at_once", [None, 4])
def test_buffers_give_the_same_run(
    changes: dict[str, Any],
    at_once: int | None,
    corpus: Corpus,
    make_lm: MakeLm,
    tmp_path: Path,
    lines: Lines,
) -> None:
    config = make_lm(optimiser=EXACT, **changes)
    weights = []
    for graph in (False, True):
        how = Execution(cuda_graph=graph, micro_batch_size=at_once)
        run_lm(config, how, data=corpus.folder, folder=tmp_path / str(graph))
        weights.append(load_lm(tmp_path / str(graph))[0].state_dict())
    plain, buffered = (numbers(tmp_path / name, lines) for name in ("False", "True"))
    assert buffered == pytest.approx(plain, rel=1e-11)
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-9, atol=1e-12)


def test_a_run_changes_its_way(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, then from buffers, then one by one again: one run."""
    config = make_lm(optimiser=EXACT)
    run_lm(config, Execution(), data=corpus.folder, folder=tmp_path / "whole")
    apply, calls = LmStepper.apply, []

    def stop_after_three(self: LmStepper, rate: float) -> None:
        apply(self, rate)
        calls.append(type(self))
        if len(calls) in (3, 6):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LmStepper, "apply", stop_after_three)
        for graph in (False, True, False):
            how = Execution(cuda_graph=graph, checkpoint_every=1)
            try:
                run_lm(config, how, data=corpus.folder, folder=tmp_path / "parts")
            except KeyboardInterrupt:
                assert RunFolder.open(tmp_path / "parts").checkpoints()
    assert set(calls) == {LmStepper, GraphLmStepper}
    whole, parts = (numbers(tmp_path / name, lines) for name in ("whole", "parts"))
    assert parts == pytest.approx(whole, rel=1e-11)


def steppers(config: LmConfig, corpus: Corpus, device: str) -> list[LmStepper]:
    ranks = Ranks(0, 1, torch.device(device))
    batches = TextBatches(
        corpus.stream("train"), length=config.sequence_length, batch_size=config.batch_size, seed=0
    )
    ways = (Execution(cuda_graph=graph) for graph in (False, True))
    return [make_lm_stepper(config, how, ranks, batches) for how in ways]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_graphs_on_a_gpu(name: str, dtype: str, corpus: Corpus, make_lm: MakeLm) -> None:
    """Six steps, of which one is not taken, as rules for spikes may say."""
    optimiser = EXACT.model_copy(update={"name": name})
    changes = {"backend": "auto", "width": 32, "head_dim": 16}
    config = make_lm(optimiser=optimiser, dtype=dtype, model=changes)
    plain, graph = steppers(config, corpus, "cuda")
    for step in range(6):
        seen = []
        for stepper in (plain, graph):
            share = stepper.read(step)
            seen.append(stepper.gradients(share, float(share.labels)))
            if step != 3:
                stepper.apply(2**-7)
        rough = 1e-3 if dtype == "bfloat16" else 1e-5
        assert seen[1] == pytest.approx(seen[0], rel=rough * (step + 1))


def test_refusals(corpus: Corpus, make_lm: MakeLm, monkeypatch: pytest.MonkeyPatch) -> None:
    learned = make_lm(model={"positions": "learned", "max_length": 64})
    with pytest.raises(ValueError, match="cuda_graph: True is not allowed with positions"):
        steppers(learned, corpus, "cpu")
    monkeypatch.setattr(LmObjective, "repeats", False)
    with pytest.raises(ValueError, match="cuda_graph: True is not possible with LmObjective"):
        steppers(make_lm(), corpus, "cpu")
    config, batches = (
        make_lm(),
        TextBatches(corpus.stream("train"), length=33, batch_size=6, seed=0),
    )
    with pytest.raises(ValueError, match="cuda_graph: True needs one process, there are 2"):
        GraphLmStepper(
            config, Execution(cuda_graph=True), Ranks(0, 2, torch.device("cpu")), batches
        )
