"""A study gives one table wherever it is carried out, and whatever dies in the middle of it."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lt2theory.experiments.cells import Cell, Cells
from lt2theory.experiments.studies import smoke
from lt2theory.experiments.study import Session, carry_out
from lt2theory.experiments.study_spread import carry_out_by
from lt2theory.experiments.study_table import read_study_table
from lt2theory.runs import (
    Assignment,
    Ending,
    Executor,
    LocalExecutor,
    RayExecutor,
    RunOne,
    SlurmExecutor,
)
from lt2theory.runs.lock import LOCK_NAME
from lt2theory.training import CurriculumConfig
from tests.listening import addresses, parent_of
from tests.ray_here import ray_here

EVERY = 10
"""Steps between two checkpoints."""
EVALUATED = 20
"""The first step that timing.jsonl tells of."""


@pytest.fixture(autouse=True)
def fixed_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find out for themselves which commit this is; that is not what is compared."""
    monkeypatch.setattr("lt2theory.runs.environment.source_revision", lambda: "revision")


def cells_of(steps: int) -> Cells:
    """The smoke study with so many steps on each of two stages."""
    changes = {"step_budget": steps, "min_steps": steps, "checkpoint_every": EVERY, "threads": 1}
    return tuple(
        Cell(
            name=cell.name,
            block=cell.block,
            config=CurriculumConfig.model_validate(cell.config.model_dump() | changes),
        )
        for cell in smoke()
    )


def table_by(executor: Executor, cells: Cells, root: Path) -> pd.DataFrame:
    """What a study's table says, but for times and commits."""
    accounts = carry_out_by(executor, cells, cells, root)
    assert {account.message for account in accounts.values()} == {""}
    assert {account.state for account in accounts.values()} == {"done"}
    return timeless(root)


def timeless(root: Path) -> pd.DataFrame:
    table = read_study_table(root)
    kept = table[~table["split"].isin(["timing", "cost"])]
    return kept.drop(columns=["sessions", "source"]).reset_index(drop=True)


class Watched(Executor):
    """An executor that keeps how often each run was given to a worker."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.attempts: dict[str, int] = {}

    @property
    def share(self) -> float:
        return self._executor.share

    def carry_out(
        self, run_one: RunOne, assignments: Sequence[Assignment]
    ) -> Generator[Ending, None, None]:
        for ending in self._executor.carry_out(run_one, assignments):
            self.attempts[ending.folder.name] = ending.attempts
            yield ending


def went_on(folder: Path) -> bool:
    """Whether no step up to the checkpoint in `begun` was done twice."""
    steps = [json.loads(line)["step"] for line in (folder / "timing.jsonl").open()]
    return steps.count(EVALUATED) == 1


def begun(root: Path, chosen: Callable[[Path, int], bool]) -> tuple[Path, int]:
    """Wait for a run past `EVALUATED` that is chosen: its folder and process."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for checkpoint in root.glob("*/checkpoints/*-step-*[0-9]"):
            if int(checkpoint.name.rpartition("-")[2]) <= EVALUATED:
                continue
            folder = checkpoint.parent.parent
            try:
                process = json.loads((folder / LOCK_NAME).read_text())["pid"]
            except (OSError, ValueError):
                continue
            if chosen(folder, process) and not (folder / "summary.json").exists():
                return folder, process
        time.sleep(0.02)
    raise TimeoutError(f"no such run in {root}")


class Meanwhile(threading.Thread):
    """Something that happens while a study goes on; what it raises, `join` raises."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by `finish`
            self._error = error

    def finish(self) -> None:
        self.join()
        if self._error is not None:
            raise self._error


def test_an_executor_gives_the_table_of_a_session(tmp_path: Path) -> None:
    cells = cells_of(20)[:1]
    table = table_by(LocalExecutor(), cells, tmp_path / "local")
    carry_out(cells, cells, tmp_path / "session", Session("cpu"))
    assert table.equals(timeless(tmp_path / "session"))
    costs = read_study_table(tmp_path / "local").query("split == 'cost'")
    assert (costs["value"] > 0).all()
    assert carry_out_by(LocalExecutor(), cells, cells, tmp_path / "local") == {}


def test_a_cell_that_fails_is_told_and_spares_the_others(tmp_path: Path) -> None:
    cells = cells_of(20)[:2]
    broken = tmp_path / cells[0].run().folder
    broken.mkdir()
    (broken / "notes.txt").write_text("not a run")
    accounts = carry_out_by(LocalExecutor(), cells, cells, tmp_path)
    assert [accounts[cell.name].state for cell in cells] == ["failed", "done"]
    assert "is not empty and not a run" in accounts[cells[0].name].message


@pytest.fixture
def two_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Ray cluster of two nodes of one core each on this machine."""
    node = {"num_cpus": 1, "node_ip_address": "127.0.0.1"}
    cluster = ray_here(monkeypatch).Cluster(
        initialize_head=True, head_node_args=node | {"include_dashboard": False}
    )
    try:
        cluster.add_node(**node)
        yield cluster
    finally:
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_ray_cluster_that_loses_a_node_gives_the_local_table(
    tmp_path: Path, two_nodes: Any
) -> None:
    cells = cells_of(150)
    root, heard, lost = tmp_path / "ray", set(), []
    (worker,) = two_nodes.worker_nodes
    raylet = worker.all_processes["raylet"][0].process.pid

    def kill() -> None:
        folder, _ = begun(root, lambda _, process: parent_of(process) == raylet)
        heard.update(addresses())
        two_nodes.remove_node(worker, allow_graceful=False)
        lost.append(folder)

    killer = Meanwhile(kill)
    executor = Watched(RayExecutor(two_nodes.address))
    table = table_by(executor, cells, root)
    killer.finish()
    assert heard == {"127.0.0.1"}
    assert table.equals(table_by(LocalExecutor(), cells, tmp_path / "local"))
    assert {name for name, tries in executor.attempts.items() if tries > 1} == {lost[0].name}
    assert went_on(lost[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_jobs_that_are_killed_or_run_out_of_time_give_the_local_table(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    cells = cells_of(150)[:2]
    root, ended = tmp_path / "slurm", []

    def end() -> None:
        for number in (signal.SIGKILL, signal.SIGUSR2):
            folder, process = begun(root, lambda folder, _: folder not in ended)
            os.kill(process, number)
            ended.append(folder)

    killer = Meanwhile(end)
    executor = Watched(SlurmExecutor(cluster="local", minutes=5, poll=0.2))
    table = table_by(executor, cells, root)
    killer.finish()
    assert table.equals(table_by(LocalExecutor(), cells, tmp_path / "local"))
    killed, timed_out = ended
    assert executor.attempts == {killed.name: 2, timed_out.name: 1}
    assert went_on(killed)
    assert went_on(timed_out)
