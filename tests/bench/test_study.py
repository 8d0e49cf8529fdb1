"""Steps of cells side by side are counted on a CPU too; the rest needs a GPU."""

import re
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from lt2theory.bench import study
from lt2theory.bench.study import WORKLOADS, Workload, bench_study, plain_rate
from lt2theory.models import LoopedModel
from lt2theory.training import TaskConfig

TINY = Workload(TaskConfig(name="parity"), 16, 8, {"width": 16, "num_heads": 2, "num_layers": 1})


def test_steps_of_all_cells_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(study.WORKLOADS, "tiny", TINY)
    table = bench_study(("tiny",), at_once=(1, 2), seconds=0.5, device="cpu")
    assert list(table["at_once"]) == [1, 2]
    assert (table["steps_per_minute"] > 0).all()
    assert list(table["ms"] * table["steps_per_minute"]) == pytest.approx([6e4, 6e4])
    assert (table["ready_s"] > 0).all()


class PlainLayer(nn.Module):
    """Takes the arguments of FLA's layer and gives what it gives: a tuple."""

    def __init__(self, hidden_size: int, **sizes: object) -> None:
        super().__init__()
        self.mix = nn.Linear(hidden_size, hidden_size)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        return self.mix(x), None


def test_steps_of_plain_layers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of FLA's layers, with others in their place: there is no GPU."""
    monkeypatch.setitem(sys.modules, "fla.layers", SimpleNamespace(GatedDeltaNet=PlainLayer))
    monkeypatch.setitem(sys.modules, "fla.ops.common.chunk_o", SimpleNamespace())
    rate = plain_rate(TINY.config(device="cpu"), 0.2)
    assert (rate.way, rate.at_once, rate.peak_gib) == ("FLA GatedDeltaNet, eager", 1, 0)
    assert rate.steps_per_minute > 0
    assert rate.ready_s > 0


def test_workloads_are_runs_that_do_not_end() -> None:
    for name, workload in WORKLOADS.items():
        config = workload.config(3)
        swaps = re.search(r"\d+", name)
        assert config.stages == (int(swaps[0]) if swaps else 32,)
        assert config.cuda_graph
        assert config.seed == 3
        with torch.device("meta"):
            LoopedModel(config.model)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match="lt2 bench study needs a CUDA device"):
        bench_study()


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'word' is not allowed, perhaps you meant words .choose"):
        bench_study(("word",))


@pytest.mark.gpu
def test_cells_are_faster_than_fla_layers() -> None:
    table = bench_study(("words",), at_once=(2,), seconds=1.0)
    assert list(table["way"]) == ["FLA GatedDeltaNet, eager", "engine"]
    assert (table["peak_gib"] > 0).all()
