"""Two processes over gloo: the losses of one, resuming, and the death of one of them."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from lt2theory.runs import RunFolder
from lt2theory.training.lm import Execution, LmConfig, load_lm, run_lm
from lt2theory.training.text import Corpus
from tests.training.lm.conftest import MakeLm

pytestmark = pytest.mark.slow  # processes of their own, each with torch to import

Lines = Callable[[Path], list[dict[str, Any]]]
WORKER = Path(__file__).with_name("worker.py")
CLOSE = {"rel": 1e-11, "abs": 1e-12}
"""float64 sums in another order, over a few steps of training."""


WAYS: dict[str, dict[str, Any]] = {
    "sharded": {"parallel": "fsdp"},
    "resharded": {"parallel": "fsdp", "reshard": True, "micro_batch_size": 2},
    "recomputed": {"parallel": "fsdp", "reshard": True, "micro_batch_size": 2},
    "background": {
        "parallel": "fsdp", "micro_batch_size": 1, "async_checkpoints": True, "checkpoint_every": 1,
    },
    "replicated": {"parallel": "replicate", "micro_batch_size": 2},
}  # fmt: skip
OFTEN = {"checkpoint_every": 2}


def job(corpus: Corpus, config: LmConfig, folder: Path, **more: Any) -> dict[str, Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = {"config": config.to_json(), "data": str(corpus.folder), "folder": str(folder)}
    return {"how": {}, "port": port} | run | more


def in_two(jobs: list[dict[str, Any]], folder: Path) -> list[tuple[int, list[str]]]:
    """Run the jobs in two processes; the exit code of each, and how the jobs ended in it."""
    listed = folder / "jobs.json"
    listed.write_text(json.dumps(jobs))
    workers = []
    for rank in range(2):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        environment = os.environ | own | {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", str(WORKER), str(listed)]
        pipe = subprocess.PIPE
        workers.append(subprocess.Popen(command, env=environment, stdout=pipe, text=True))
    said = [worker.communicate(timeout=200)[0].splitlines() for worker in workers]
    return [(worker.returncode, lines) for worker, lines in zip(workers, said, strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs lie."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def ended(corpus: Corpus, make_lm: MakeLm, folder: Path) -> list[tuple[int, list[str]]]:
    """How the jobs of two processes ended; in the last one of them is killed."""
    (folder / "refused").mkdir()
    (folder / "refused" / "stranger").touch()
    config, rounded = make_lm(), make_lm(dtype="float32")
    recomputed = make_lm(model={"checkpointing": "loop"})
    stop = {"rank": 1, "step": 3, "signal": "SIGTERM"}
    kill = {"rank": 1, "step": 5, "signal": "SIGKILL"}
    jobs = [job(corpus, config, folder / "refused")]
    for name, how in WAYS.items():
        own = recomputed if name == "recomputed" else config
        jobs.append(job(corpus, own, folder / name, how=how))
    jobs += [
        job(corpus, config, folder / "stopped", fault=stop),
        job(corpus, rounded, folder / "undisturbed", how=OFTEN),
        job(corpus, rounded, folder / "killed", how=OFTEN, fault=kill),
    ]
    return in_two(jobs, folder)


def tensors(folder: Path) -> dict[str, bytes]:
    """All slices of the newest checkpoint."""
    return {
        f"{path.name} {name}": tensor.numpy().tobytes()
        for path in RunFolder.open(folder).checkpoints()[0].glob("*.safetensors")
        for name, tensor in load_file(path).items()
    }


def numbers(folder: Path, lines: Lines) -> list[float]:
    return [value for line in lines(folder) for value in line["metrics"].values()]


@pytest.fixture(scope="module")
def alone(corpus: Corpus, make_lm: MakeLm, folder: Path) -> Path:
    """The same run in this process alone."""
    run_lm(make_lm(), Execution(), data=corpus.folder, folder=folder / "alone")
    return folder / "alone"


def check_weights(found: Path, expected: Path) -> None:
    weights = load_lm(expected)[0].state_dict()
    for name, value in load_lm(found)[0].state_dict().items():
        # AdamW divides by moments that are small at the start.
        torch.testing.assert_close(value, weights[name], rtol=1e-8, atol=1e-9)


def test_how_the_jobs_ended(ended: list[tuple[int, list[str]]]) -> None:
    (first, said), (second, others) = ended
    assert (first, second) == (0, -9)
    assert said[0].startswith("refused: ValueError")
    assert said[0].endswith("(it holds stranger)")
    assert others[0].startswith("refused: FirstRefusedError")
    assert others[0].endswith("(it holds stranger)")
    for lines in (said, others):
        assert lines[1:6] == [f"{name}: done" for name in WAYS]
        assert lines[6].startswith("stopped: Interrupted: interrupted; the same command continues")
    assert said[8].startswith("killed: LostProcessError: another process of the run is gone")


@pytest.mark.parametrize("way", WAYS)
def test_two_processes_do_what_one_does(
    way: str, ended: Any, folder: Path, alone: Path, lines: Lines
) -> None:
    """Sharded in every way, replicated; with documents, accumulation, recomputation, exact sums."""
    assert sum(line["split"] == "eval" for line in lines(alone)) == 2
    assert numbers(folder / way, lines) == pytest.approx(numbers(alone, lines), **CLOSE)
    check_weights(folder / way, alone)
    assert len(RunFolder.open(folder / way).checkpoints()) == (2 if way == "background" else 1)


def test_one_process_goes_on_with_what_two_began(
    ended: Any, corpus: Corpus, make_lm: MakeLm, folder: Path, alone: Path, lines: Lines
) -> None:
    assert RunFolder.open(folder / "stopped").checkpoints()[0].name.endswith("-step-3")
    with pytest.warns(UserWarning, match="processes: 2 -> 1"):
        run_lm(make_lm(), Execution(), data=corpus.folder, folder=folder / "stopped")
    assert numbers(folder / "stopped", lines) == pytest.approx(numbers(alone, lines), **CLOSE)
    check_weights(folder / "stopped", alone)


def test_one_of_two_is_killed_and_they_go_on_to_the_same_bits(
    ended: Any, corpus: Corpus, make_lm: MakeLm, folder: Path
) -> None:
    assert RunFolder.open(folder / "killed").checkpoints()[0].name.endswith("-step-4")
    again = job(corpus, make_lm(dtype="float32"), folder / "killed", how=OFTEN)
    assert in_two([again], folder) == [(0, ["killed: done"])] * 2
    metrics = [(folder / name / "metrics.jsonl").read_bytes() for name in ("killed", "undisturbed")]
    assert metrics[0] == metrics[1]
    assert tensors(folder / "killed") == tensors(folder / "undisturbed")
