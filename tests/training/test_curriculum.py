import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.ops import KERNELS
from lt2theory.runs import DiskFullError, RunFolder, config_hash, run_table
from lt2theory.runs import store as run_store
from lt2theory.training import (
    Interrupted,
    OptimiserConfig,
    Runtime,
    evaluate,
    load_model,
    load_summary,
    resolve,
    run_curriculum,
)
from lt2theory.training.draws import held_out_batch
from tasks import Task
from tests.kernel_runs import name_kernels

CHILD = """
import sys
from pathlib import Path
from lt2theory.training import CurriculumConfig, run_curriculum
config = CurriculumConfig.model_validate_json(Path(sys.argv[1]).read_text())
run_curriculum(config, Path(sys.argv[2]))
"""


def metrics_lines(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_a_run_leaves_a_complete_folder(tmp_path: Path, make_config: Any) -> None:
    config = make_config()
    summary = run_curriculum(config, tmp_path / "run")
    run = RunFolder.open(tmp_path / "run")
    assert summary == load_summary(tmp_path / "run")
    assert run.status == "done"
    assert summary.config_hash == run.config_hash == config_hash(resolve(config).to_json())
    assert summary.task["task"] == "parity"
    assert summary.status == "solved"
    assert [stage.stage for stage in summary.stages] == [12, 16]
    assert sum(stage.steps for stage in summary.stages) == summary.steps
    assert [(test.stage, test.trained) for test in summary.test] == [
        (12, True), (16, True), (20, False)
    ]  # fmt: skip
    task = config.task.create()
    assert [test.floors for test in summary.test] == [task.floors(s) for s in (12, 16, 20)]
    assert not (tmp_path / "run" / "lock").exists()
    timing = summary.timing
    assert timing.samples_per_second * timing.training_seconds == pytest.approx(
        summary.steps * config.batch_size
    )
    assert timing.seconds > timing.training_seconds


def test_the_table_holds_what_the_summary_says(tmp_path: Path, make_config: Any) -> None:
    summary = run_curriculum(make_config(), tmp_path / "run")
    table = run_table(RunFolder.open(tmp_path / "run"))
    assert set(table["label"]) == {"small"}
    scores = table[(table["split"] == "test") & (table["metric"] == "scored_accuracy")]
    assert dict(zip(scores["stage"], scores["value"], strict=True)) == {
        test.stage: test.evaluation.scored_accuracy for test in summary.test
    }
    assert list(scores["low"]) == [t.evaluation.scored_interval.low for t in summary.test]
    floors = table[(table["split"] == "floor") & (table["metric"] == "majority")]
    assert list(floors["value"]) == [test.floors["majority"] for test in summary.test]
    curve = table[(table["metric"] == "exact_prefix_accuracy") & (table["stage"] == 20)]
    assert tuple(curve["value"]) == summary.test[2].curves.exact_prefix_accuracy
    solved = table[(table["split"] == "stage") & (table["metric"] == "steps_to_solve")]
    assert list(solved["value"]) == [stage.steps for stage in summary.stages]
    facts = table[table["split"] == "run"].set_index("metric")["value"]
    assert facts["parameters"] == summary.parameters
    assert (facts["solved"], facts["diverged"], facts["budget_exhausted"]) == (1, 0, 0)


def test_a_done_run_is_returned_and_not_computed_again(
    tmp_path: Path, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = run_curriculum(make_config(), tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}

    def never(*_: Any, **__: Any) -> None:
        pytest.fail("computed again")

    monkeypatch.setattr("lt2theory.training.stepper.train_step", never)
    assert run_curriculum(make_config(), tmp_path / "run") == summary
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    assert after == before


def test_another_configuration_needs_overwrite(
    tmp_path: Path, make_config: Any, results: Any
) -> None:
    first = run_curriculum(make_config(), tmp_path / "run")
    with pytest.raises(ValueError, match=r"another configuration .* or give overwrite=True$"):
        run_curriculum(make_config(seed=1), tmp_path / "run")
    assert load_summary(tmp_path / "run") == first
    run_curriculum(make_config(seed=1), tmp_path / "run", overwrite=True)
    run_curriculum(make_config(seed=1), tmp_path / "fresh")
    assert results(tmp_path / "run") == results(tmp_path / "fresh")
    assert results(tmp_path / "run")[1]["seed"] == 1


def test_bad_arguments_leave_nothing_behind(tmp_path: Path, make_config: Any) -> None:
    with pytest.raises(ValueError, match="stage: 0 is not allowed"):
        run_curriculum(make_config(stages=(0,)), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_the_test_split_is_read_once_and_last(
    tmp_path: Path, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[tuple[str, int]] = []
    draw = Task.instances

    def spy(self: Task, **arguments: Any) -> Any:
        reads.append((arguments["split"], arguments["stage"]))
        return draw(self, **arguments)

    monkeypatch.setattr(Task, "instances", spy)
    config = make_config(learning_rates=(1e-2, 3e-3), selection_steps=4)
    run_curriculum(config, tmp_path / "run")
    tests = [read for read in reads if read[0] == "test"]
    assert tests == [("test", 12), ("test", 16), ("test", 20)]
    assert reads[-3:] == tests
    assert {split for split, _ in reads[:-3]} == {"train", "eval"}


def test_a_real_divergence_is_recorded(tmp_path: Path, make_config: Any) -> None:
    optimiser = OptimiserConfig(learning_rate=1e30, warmup_steps=0, clip=None)
    summary = run_curriculum(make_config(optimiser=optimiser), tmp_path / "run")
    assert summary.status == "diverged"
    assert summary.diverged_at is not None
    assert summary.diverged_at <= 20
    assert summary.test == ()
    facts = run_table(RunFolder.open(tmp_path / "run")).set_index("metric")["value"]
    assert facts["diverged"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_continues_to_the_same_bytes(
    tmp_path: Path, make_config: Any, results: Any, number: signal.Signals
) -> None:
    config = make_config(learning_rates=(1e-2, 3e-3), selection_steps=5)
    run_curriculum(config, tmp_path / "whole")

    def stop_at(step: int) -> Any:
        def progress(event: Any) -> None:
            if event.done == step:
                os.kill(os.getpid(), number)

        return progress

    for step in (6, 20, 34):
        with pytest.raises(Interrupted, match="the same command continues"):
            run_curriculum(config, tmp_path / "parts", progress=stop_at(step))
        assert RunFolder.open(tmp_path / "parts").status == "unfinished"
    run_curriculum(config, tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


@pytest.mark.slow
def test_a_killed_run_continues_to_the_same_bytes(
    tmp_path: Path, make_config: Any, results: Any
) -> None:
    config = make_config(
        learning_rates=(1e-2, 3e-3), selection_steps=5, threads=1, checkpoint_every=7,
        step_budget=60, min_steps=60,
    )  # fmt: skip
    (tmp_path / "config.json").write_text(config.model_dump_json())
    command = [sys.executable, "-c", CHILD, str(tmp_path / "config.json")]
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    parts = tmp_path / "parts"
    total = metrics_lines(tmp_path / "whole")
    kills = 0
    for lines in (1, 4, total // 2, total - 4):
        process = subprocess.Popen([*command, str(parts)])
        while process.poll() is None and metrics_lines(parts) < lines:
            time.sleep(0.002)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
    assert kills >= 3
    subprocess.run([*command, str(parts)], check=True)
    assert results(parts) == results(tmp_path / "whole")


def test_a_kill_between_any_two_writes_changes_nothing(
    tmp_path: Path, make_config: Any, results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every append to metrics.jsonl is torn in the middle once, as a kill there would do."""
    config = make_config(stages=(12, 14), test_stages=(), checkpoint_every=1000)
    run_curriculum(config, tmp_path / "whole")

    class Killed(BaseException):
        pass

    append = RunFolder.append_metrics
    for survivors in range(0, metrics_lines(tmp_path / "whole"), 2):
        left = [survivors]

        def torn(self: RunFolder, line: Any, left: list[int] = left) -> None:
            if left[0] == 0:
                with (self.path / "metrics.jsonl").open("a") as stream:
                    stream.write('{"half')
                raise Killed
            left[0] -= 1
            append(self, line)

        monkeypatch.setattr(RunFolder, "append_metrics", torn)
        with pytest.raises(Killed):
            run_curriculum(config, tmp_path / "parts", overwrite=True)
        monkeypatch.setattr(RunFolder, "append_metrics", append)
        run_curriculum(config, tmp_path / "parts")
        assert results(tmp_path / "parts") == results(tmp_path / "whole")


def test_a_full_disk_stops_the_run_and_the_next_call_continues_it(
    tmp_path: Path, make_config: Any, results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_curriculum(make_config(), tmp_path / "whole")
    write, calls = run_store.write_synced, []

    def full_at_fifth(path: Path, data: bytes, **options: Any) -> None:
        calls.append(path)
        if len(calls) == 5:
            raise DiskFullError(errno.ENOSPC, "disk full: the last complete checkpoint is intact")
        write(path, data, **options)

    monkeypatch.setattr(run_store, "write_synced", full_at_fifth)
    with pytest.raises(DiskFullError, match="the last complete checkpoint is intact"):
        run_curriculum(make_config(), tmp_path / "run")
    assert len(RunFolder.open(tmp_path / "run").checkpoints()) == 1
    run_curriculum(make_config(), tmp_path / "run")
    assert results(tmp_path / "run") == results(tmp_path / "whole")


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "state.json"])
def test_one_wrong_bit_costs_one_checkpoint(
    name: str, tmp_path: Path, make_config: Any, results: Any
) -> None:
    run_curriculum(make_config(), tmp_path / "run")
    whole = results(tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    file = RunFolder.open(tmp_path / "run").checkpoints()[0] / name
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    file.write_bytes(data)
    with pytest.warns(UserWarning, match=rf"going back one checkpoint: .*{name} is "):
        run_curriculum(make_config(), tmp_path / "run")
    assert results(tmp_path / "run") == whole


def test_a_damaged_checkpoint_costs_one_checkpoint(
    tmp_path: Path, make_config: Any, results: Any
) -> None:
    run_curriculum(make_config(), tmp_path / "run")
    whole = results(tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    newest, older = RunFolder.open(tmp_path / "run").checkpoints()
    (newest / "model.safetensors").write_bytes(b"rot")
    with pytest.warns(UserWarning, match="going back one checkpoint"):
        run_curriculum(make_config(), tmp_path / "run")
    assert results(tmp_path / "run") == whole

    (tmp_path / "run" / "summary.json").unlink()
    for folder in RunFolder.open(tmp_path / "run").checkpoints():
        (folder / "state.json").write_bytes(b"rot")
    with (
        pytest.warns(UserWarning, match="going back one checkpoint"),
        pytest.raises(ValueError, match=r"state\.json is not valid JSON"),
    ):
        run_curriculum(make_config(), tmp_path / "run")
    assert older.name < newest.name


def test_a_resume_under_another_thread_count_is_noted(tmp_path: Path, make_config: Any) -> None:
    run_curriculum(make_config(), tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    torch.set_num_threads(2)
    with pytest.warns(UserWarning, match="threads: 1 -> 2"):
        run_curriculum(make_config(), tmp_path / "run")
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["resumed"][0]["changes"] == ["threads: 1 -> 2"]


def test_threads_of_the_configuration_are_used_and_put_back(
    tmp_path: Path, make_config: Any
) -> None:
    config = make_config(threads=2, stages=(12,), test_stages=(), step_budget=1)
    run_curriculum(config, tmp_path / "run")
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["created"]["threads"] == 2
    assert torch.get_num_threads() == 1


def test_the_loaded_model_is_the_tested_one(tmp_path: Path, make_config: Any) -> None:
    summary = run_curriculum(make_config(), tmp_path / "run")
    model, config = load_model(tmp_path / "run")
    assert config == resolve(make_config())
    task = config.task.create()
    for test in summary.test:
        batch = held_out_batch(task, config, test.stage)
        again, curves = evaluate(model, task, batch, Runtime.of("cpu", "float32"))
        assert (again, curves) == (test.evaluation, test.curves)


@pytest.mark.parametrize("backend", KERNELS)
def test_kernels_of_a_gpu_are_left_out_on_a_cpu(
    tmp_path: Path, make_config: Any, backend: str
) -> None:
    config = make_config(stages=(12,), test_stages=(), step_budget=1)
    run_curriculum(config, tmp_path / "run")
    expected, _ = load_model(tmp_path / "run")
    name_kernels(tmp_path / "run", backend)
    model, own = load_model(tmp_path / "run")
    assert (model.config.backend, own.model.backend) == ("auto", backend)
    tokens = torch.arange(14).reshape(2, 7) % own.model.vocab_size
    torch.testing.assert_close(model.trace(tokens).logits, expected.trace(tokens).logits)


def test_what_cannot_be_loaded_is_named(tmp_path: Path, make_config: Any) -> None:
    with pytest.raises(ValueError, match="is not a folder"):
        load_model(tmp_path / "run")
    config = resolve(make_config()).to_json()
    arguments = {"config": config, "identity": resolve(make_config()).identity()}
    with RunFolder.writing(tmp_path / "run", kind="curriculum", **arguments):
        pass
    with pytest.raises(ValueError, match="has no checkpoint yet"):
        load_model(tmp_path / "run")
    with pytest.raises(ValueError, match="is not finished"):
        load_summary(tmp_path / "run")
    with RunFolder.writing(tmp_path / "text", kind="text", **arguments):
        pass
    with pytest.raises(ValueError, match="holds a text run; expected a curriculum run"):
        load_model(tmp_path / "text")


def test_candidates_are_kept_and_tried_once(tmp_path: Path, make_config: Any) -> None:
    config = make_config(learning_rates=(1e-2, 1e-9), selection_steps=30)
    summary = run_curriculum(config, tmp_path / "run")
    assert summary.learning_rate == 1e-2
    assert [trial.learning_rate for trial in summary.candidates] == [1e-2, 1e-9]
    kept = json.loads((tmp_path / "run" / "selection.json").read_text())["candidates"]
    assert kept == [trial.model_dump(mode="json") for trial in summary.candidates]
    table = run_table(RunFolder.open(tmp_path / "run"))
    rates = table[(table["split"] == "selection") & (table["metric"] == "learning_rate")]
    assert list(rates["value"]) == [1e-2, 1e-9]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("summary.json", "{}", "summary.json is damaged: status: Field required"),
        ("summary.json", "[]", "summary.json holds a list"),
        ("selection.json", '{"candidates": [3]}', r"selection.json is damaged: candidates\.0: "),
        ("selection.json", "{}", "selection.json is damaged: candidates: Field required"),
    ],
)
def test_a_damaged_file_is_named(
    tmp_path: Path, make_config: Any, name: str, text: str, message: str
) -> None:
    config = make_config(learning_rates=(1e-2, 3e-3), selection_steps=4)
    run_curriculum(config, tmp_path / "run")
    if name == "selection.json":
        (tmp_path / "run" / "summary.json").unlink()
    (tmp_path / "run" / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        run_curriculum(config, tmp_path / "run")
    assert (tmp_path / "run" / name).read_text() == text
