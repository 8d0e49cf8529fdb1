"""The shim itself; the ops are compared in tests/ops/fla/test_interpreter.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fla_interpreter

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(fla_interpreter.is_on(), reason="about a session without the interpreter")
def test_without_the_interpreter_it_says_what_to_set():
    with pytest.raises(RuntimeError, match="only with TRITON_INTERPRET=1"):
        fla_interpreter.install()


@pytest.mark.interpreter
def test_late_switch_is_noticed():
    script = (
        "import os, triton; os.environ['TRITON_INTERPRET'] = '1'\n"
        "from tests import fla_interpreter\n"
        "fla_interpreter.install()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("TRITON_INTERPRET")
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert "TRITON_INTERPRET was set after Triton had been imported" in done.stderr


@pytest.mark.interpreter
def test_installing_twice_changes_nothing(fla):
    assert fla_interpreter.install() is fla
    from fla.ops.common import chunk_h

    assert list(chunk_h.range(2, 8, 3)) == [2, 5]


@pytest.mark.interpreter
def test_an_autotuned_kernel_runs(fla):
    import torch
    from fla.ops.linear_attn import chunk_linear_attn

    x = torch.randn(1, 70, 1, 16, generator=torch.Generator().manual_seed(0))
    output, _ = chunk_linear_attn(x, x, x, normalize=False)
    scores = (x[0, :, 0] @ x[0, :, 0].T).tril() / 4
    torch.testing.assert_close(output[0, :, 0], scores @ x[0, :, 0], rtol=1e-5, atol=1e-4)
