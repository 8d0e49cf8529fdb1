"""Floors by hand, a tiny setting measured in its process, and what is refused."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lt2theory.bench.train_step import (
    bench_train_step,
    in_fresh_process,
    settings_of,
    step_bytes,
)
from lt2theory.bench.train_step_process import WAYS, Setting, run_config
from lt2theory.models import LoopedConfig


def small(pattern: str, loop_state: str = "rescan") -> LoopedConfig:
    return LoopedConfig.model_validate(
        {
            "vocab_size": 10,
            "width": 8,
            "num_layers": 2,
            "num_loops": 3,
            "pattern": pattern,
            "loop_state": loop_state,
            "num_heads": 2,
            "ffn_width": 16,
        }
    )


@pytest.mark.parametrize(
    ("pattern", "loop_state", "a_layer"),
    [
        ("gdn", "rescan", 3 * (64 + 2 * 4 * 2 * 16)),
        # Loops 2 and 3 read one and two loops' keys and values again.
        ("gdn", "accumulate", 3 * (64 + 2 * 4 * 2 * 16) + 3 * 4 * 16),
        ("full", "rescan", 3 * (64 + 2 * 2 * 2 * 16)),
    ],
)
def test_bytes_by_hand(pattern: str, loop_state: str, a_layer: int) -> None:
    assert step_bytes(small(pattern, loop_state), 7, 5) == 3 * 7 * 5 * (4 * 10 + 2 * a_layer)


def test_attention_alone_only_rescans() -> None:
    settings = settings_of(("gdn", "full", "gdn"), ("rescan", "accumulate"), ("eager",), batch=3)
    named = [(each.pattern, each.loop_state) for each in settings]
    assert named == [("gdn", "rescan"), ("gdn", "accumulate"), ("full", "rescan")]
    assert {each.batch for each in settings} == {3}


def test_ways_are_the_options_of_a_run() -> None:
    for way, (compiled, graph) in WAYS.items():
        config = run_config(Setting(way=way))
        assert (config.compile, config.cuda_graph, config.dtype) == (compiled, graph, "bfloat16")
        assert (config.model.width, config.model.num_layers, config.model.num_loops) == (128, 2, 4)


def test_a_setting_is_measured_in_its_process(tmp_path: Path) -> None:
    setting = Setting(way="eager", device="cpu", batch=2, length=17, width=16)
    (row,) = in_fresh_process([setting], tmp_path, steps=2)
    assert row["ms"] > 0
    assert row["start_s"] > 0.1
    assert row["parameters"] > 1000
    assert {name: row[name] for name in vars(setting)} == vars(setting)


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    setting = Setting(way="eager", device="cpu", batch=2, length=17, width=15)
    with pytest.raises(RuntimeError, match="4 does not divide width 15"):
        in_fresh_process([setting], tmp_path, steps=1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a CUDA device"):
        bench_train_step([Setting()])


@pytest.mark.slow
def test_a_cpu_compares_eager_with_compiled() -> None:
    # In a process of its own: torch cannot compile through the hooks that check shapes in tests.
    code = (
        "from lt2theory.bench.train_step_cpu import bench_train_step_cpu as bench\n"
        "print(bench(repeats=2, names=('S3 rescan',)).to_json(orient='records'))"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    eager, compiled = json.loads(run.stdout.splitlines()[-1])
    assert [eager["way"], compiled["way"]] == ["eager", "compiled"]
    assert eager["gain"] == 1
    assert all(row["median_ms"] >= row["ms"] for row in (eager, compiled))
    assert "bmm" in eager["shares"]


@pytest.mark.gpu
def test_every_way_is_timed() -> None:
    settings = settings_of(("gdn",), ("accumulate",), WAYS, backend="chunked", batch=4, length=20)
    table = bench_train_step(settings, steps=2)
    assert list(table["way"]) == list(WAYS)
    assert (table[["ms", "start_s", "start_again_s", "flops_ms", "bytes_ms"]] > 0).all().all()
