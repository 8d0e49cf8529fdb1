"""Compiled blocks against plain ones: values, gradients, and one compilation a kind of layer."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel, compiled_block, toys


def measured(backend: str, names: list[str], caches: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.compiled_steps", backend, *names],
        env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(caches), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [row["name"] for row in rows] == names
    return rows


def test_every_preset_is_two_graphs_a_kind_of_layer(tmp_path: Path) -> None:
    """Traced whole, and once for all layers and loops of a kind; the code is torch's own."""
    for row in measured("eager", list(toys()), tmp_path):
        config = toys()[row["name"]]
        kinds = len({spec for layer in range(2) for spec in config.mixers_at(layer)})
        assert row["graphs"] == 2 * kinds, row
        assert max(row["differences"]) < 1e-12, row


def test_joint_graphs_of_forward_and_backward_are_the_same(tmp_path: Path) -> None:
    for row in measured("aot_eager", ["toy-gdn-accumulate", "toy-full-window"], tmp_path):
        assert max(row["differences"]) < 1e-12, row


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_generated_code_is_the_same(tmp_path: Path) -> None:
    names = ["toy-gdn-accumulate", "toy-full"]
    for row in measured("inductor", names, tmp_path):
        assert max(row["differences"]) < 1e-5, row


def test_only_training_calls_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = LoopedModel(LoopedConfig(width=8, num_layers=1, num_heads=2, num_loops=2))
    calls = []

    def parts() -> tuple[Any, Any]:
        calls.append(1)
        return compiled_block._before, compiled_block._after

    monkeypatch.setattr(compiled_block, "_parts", parts)
    tokens = torch.arange(6).view(2, 3)
    expected = model(tokens)
    model.compiled = True
    with torch.no_grad():
        model(tokens)
        model(tokens, model.new_cache(2))
    model.trace(tokens)
    assert calls == []
    torch.testing.assert_close(model(tokens), expected, rtol=0, atol=0)
    assert calls == [1, 1]
