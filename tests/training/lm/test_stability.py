"""Stability instruments during a run: their lines, resuming, and that they change nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode

from lt2theory.analysis import block_rms
from lt2theory.runs import RunFolder, run_table
from lt2theory.training import Interrupted
from lt2theory.training.lm import Execution, StabilityConfig, load_lm, run_lm
from lt2theory.training.lm.ranks import join_ranks
from lt2theory.training.lm.stability import stability_lines
from lt2theory.training.lm.step import LmStepper
from lt2theory.training.text import Corpus, TextBatches
from tests.training.lm.conftest import MakeLm
from tests.training.lm.test_processes import in_two, job
from tests.training.lm.test_run import signal_at

EVERY = StabilityConfig(measure_every=4)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    newest = RunFolder.open(folder).checkpoints()[0]
    return {k: x for path in newest.glob("*.safetensors") for k, x in load_file(path).items()}


def batches_of(corpus: Corpus, config: Any) -> TextBatches:
    return TextBatches(
        corpus.stream("train"),
        length=config.sequence_length,
        batch_size=config.batch_size,
        seed=config.seed,
    )


def test_a_run_keeps_readings_and_is_otherwise_the_same(
    corpus: Corpus,
    make_lm: MakeLm,
    tmp_path: Path,
    lines: Callable[[Path], list[dict[str, Any]]],
) -> None:
    for name, stability in (("with", EVERY), ("without", StabilityConfig(measure_every=0))):
        config = make_lm(stability=stability)
        run_lm(config, Execution(), data=corpus.folder, folder=tmp_path / name)
    found, plain = lines(tmp_path / "with"), lines(tmp_path / "without")
    assert [line for line in found if line["split"] != "stability"] == plain
    readings = [line for line in found if line["split"] == "stability"]
    assert sorted({line["step"] for line in readings}) == [4, 8]
    first, second = weights(tmp_path / "with"), weights(tmp_path / "without")
    assert all(torch.equal(x, second[name]) for name, x in first.items())

    table = run_table(RunFolder.open(tmp_path / "with"))
    last = table[(table["split"] == "stability") & (table["step"] == 8)]
    rms = last[last["metric"] == "rms"]
    assert rms["position"].tolist() == [0, 1, 2, 3]
    model, config = load_lm(tmp_path / "with")
    window = batches_of(corpus, config).rows(8, 0, 1)
    inputs, documents = torch.from_numpy(window.inputs), torch.from_numpy(window.documents)
    trace = model.trace(inputs, documents=documents)
    starts = np.flatnonzero(np.diff(window.documents[0], prepend=-1))
    sizes = block_rms(trace)
    own = sizes[~sizes["token"].isin(starts)].groupby(["loop", "layer"])["rms"]
    np.testing.assert_allclose(rms["value"].astype(float), own.median(), rtol=1e-5)
    size = (tmp_path / "with" / "metrics.jsonl").stat().st_size
    assert size - (tmp_path / "without" / "metrics.jsonl").stat().st_size < 2 * 4000


def test_readings_survive_an_interruption(
    corpus: Corpus, make_lm: MakeLm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_lm(stability=EVERY, dtype="float32")
    run_lm(config, Execution(), data=corpus.folder, folder=tmp_path / "whole")
    with monkeypatch.context() as patched:
        signal_at(5, patched)
        with pytest.raises(Interrupted):
            run_lm(config, Execution(), data=corpus.folder, folder=tmp_path / "parts")
    run_lm(config, Execution(), data=corpus.folder, folder=tmp_path / "parts")
    whole, parts = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_a_reading_costs_less_than_two_per_cent_of_the_steps_between(
    corpus: Corpus, make_lm: MakeLm
) -> None:
    """Counted in products, at the default interval, with as few windows a step as there can be."""
    config = make_lm(batch_size=1, dtype="float32", model={"width": 64, "ffn_width": 128})
    with join_ranks("cpu") as ranks:
        batches = batches_of(corpus, config)
        stepper = LmStepper(config, Execution(), ranks, batches)
        share = stepper.read(0)
        with FlopCounterMode(display=False) as step:
            stepper.gradients(share, float(share.labels))
        model = stepper.placement.whole_model()
        with FlopCounterMode(display=False) as reading:
            stability_lines(model, batches, stepper.runtime, config, step=0)
    work = reading.get_total_flops() / config.stability.measure_every
    assert work < 0.02 * step.get_total_flops()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fsdp", "replicate"])
def test_two_processes_read_what_one_reads(
    how: str,
    corpus: Corpus,
    make_lm: MakeLm,
    tmp_path: Path,
    lines: Callable[[Path], list[dict[str, Any]]],
) -> None:
    config = make_lm(stability=EVERY, steps=4)
    run_lm(config, Execution(), data=corpus.folder, folder=tmp_path / "one")
    jobs = [job(corpus, config, tmp_path / "two", how={"parallel": how})]
    assert [code for code, _ in in_two(jobs, tmp_path)] == [0, 0]
    one, two = (
        [line for line in lines(tmp_path / name) if line["split"] == "stability"]
        for name in ("one", "two")
    )
    assert len(one) == len(two) > 4
    for mine, theirs in zip(one, two, strict=True):
        assert theirs["metrics"] == pytest.approx(mine["metrics"], rel=1e-5)
        for name, values in mine.get("curves", {}).items():
            assert theirs["curves"][name] == pytest.approx(values, rel=1e-5)
