"""Shared by the report's tests: no figure and no setting may outlive a test; reading artists."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from lt2theory.runs import RunFolder, Study, study_run
from lt2theory.runs.environment import record


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Figures are unknown to pyplot, and matplotlib's settings stay as they were."""
    before = dict(mpl.rcParams)
    yield
    left = plt.get_fignums()
    plt.close("all")
    assert not left
    assert dict(mpl.rcParams) == before


@pytest.fixture
def line():
    """Finds the one line of a panel that carries a label, and gives its points."""

    def find(axes, label):
        found = [one for one in axes.get_lines() if one.get_label() == label]
        assert len(found) == 1, f"{len(found)} lines are labelled {label!r}"
        return found[0].get_xydata()

    return find


@pytest.fixture
def legend_texts():
    """The texts of a figure's legends."""

    def read(figure):
        return [text.get_text() for one in figure.legends for text in one.get_texts()]

    return read


@pytest.fixture
def texts():
    """The texts written into a panel."""

    def read(axes):
        return [text.get_text() for text in axes.texts]

    return read


def _evaluation(split, stage, step, accuracy, n=1024):
    interval = [max(0.0, accuracy - 0.02), min(1.0, accuracy + 0.02)]
    return {
        "split": split,
        "stage": stage,
        "step": step,
        "n": n,
        "metrics": {"scored_accuracy": accuracy, "loss": 1 - accuracy / 2},
        "intervals": {"scored_accuracy": interval},
    }


def _test_lines(stage, step, accuracy):
    prefix = [accuracy ** (place + 1) for place in range(3)]
    curves = {"exact_prefix_accuracy": prefix, "position_accuracy": prefix}
    return [
        {"split": "floor", "stage": stage, "metrics": {"uniform": 0.5, "no_tracking": 1 / stage}},
        _evaluation("test", stage, step, accuracy, n=4096),
        {"split": "test", "stage": stage, "step": step, "n": 4096, "positions": [0, 1, 2],
         "curves": curves},
    ]  # fmt: skip


def run_lines(status):
    """Records of a two-stage run: stage 8 solved at step 100, stage 16 at step 300 or never."""
    lines = [
        {"split": "selection", "stage": 8, "step": 0, "n": 256,
         "metrics": {"learning_rate": rate, "candidate_seed": 7, "diverged": 0,
                     "scored_accuracy": 0.6}}
        for rate in (0.001, 0.01)
    ]  # fmt: skip
    for step, stage, accuracy in ((50, 8, 0.6), (100, 8, 0.95), (200, 16, 0.7)):
        loss = {"loss": 1.2 - accuracy, "learning_rate": 1e-3}
        lines.append({"split": "train", "stage": stage, "step": step, "metrics": loss})
        lines.append(_evaluation("eval", stage, step, accuracy))
    lines.append(_evaluation("confirmation", 8, 100, 0.94, n=4096))
    ended = {"split": "stage", "stage": 8, "step": 100}
    lines.append(ended | {"metrics": {"solved": 1, "steps": 100, "steps_to_solve": 100}})
    if status == "unfinished":
        return lines
    solved = status == "solved"
    if status != "diverged":
        lines.append(_evaluation("eval", 16, 300, 0.93 if solved else 0.72))
        spent = {"solved": int(solved), "steps": 200} | ({"steps_to_solve": 200} if solved else {})
        lines.append({"split": "stage", "stage": 16, "step": 300, "metrics": spent})
        for stage, accuracy in ((8, 0.96), (16, 0.92 if solved else 0.71), (32, 0.8)):
            lines += _test_lines(stage, 300, accuracy)
    facts = {name: int(name == status) for name in ("solved", "budget_exhausted", "diverged")}
    facts |= {"steps": 300, "solved_stages": 1 + solved, "parameters": 1234}
    return [*lines, {"split": "run", "step": 300, "metrics": facts}]


def _summary(status):
    stages = [{"stage": 8, "solved": True}]
    if status != "diverged":
        stages.append({"stage": 16, "solved": status == "solved"})
    card = {
        "definition": "what <it> is",
        "supervision": "final",
        "layout": "plain",
        "labelled": "the last token",
        "allowed_stages": "a number of swaps in 1 .. 256",
    }
    return {
        "status": status,
        "steps": 300,
        "stages": stages,
        "task": card,
        "parameters": 1234,
        "learning_rate": 0.01,
        "diverged_at": 301 if status == "diverged" else None,
        "divergence": "the loss is not finite" if status == "diverged" else None,
    }


def run_config(label, seed, knobs=None):
    """Configuration of the two-stage run, as far as reports read it."""
    return {
        "task": {"name": "pointer_game", "knobs": knobs or {}},
        "model": {"num_loops": 2},
        "stages": [8, 16],
        "test_stages": [32],
        "step_budget": 200,
        "pass_mark": 0.9,
        "label": label,
        "seed": seed,
    }


@pytest.fixture
def write_run(tmp_path):
    """Writes a run's folder: `write_run(status, label=, seed=)` gives the path."""

    def write(status="solved", *, label="arm", seed=0, folder=None, config=None):
        path = folder or tmp_path / f"{label}-{seed}"
        config = config or run_config(label, seed)
        identity = {"label": label, "seed": seed, "task": config["task"]["name"]}
        with RunFolder.writing(path, kind="curriculum", config=config, identity=identity) as run:
            environment = {"device": "cpu", "threads": 1, "packages": {"torch": "2.13.0"}}
            record(path, environment, step=0)
            for line in run_lines(status):
                run.append_metrics(line)
            if status != "unfinished":
                run.write_summary(_summary(status))
        return path

    return write


@pytest.fixture
def write_study(tmp_path, write_run):
    """Writes a study: `write_study([(status, label, seed, knobs), ...])` gives the path."""

    def write(outcomes):
        root = tmp_path / "study"
        runs = []
        for _, label, seed, knobs in outcomes:
            config = run_config(label, seed, knobs)
            identity = {"label": label, "seed": seed, "task": "pointer_game"}
            runs.append(study_run(config, identity))
        study = Study.create(root, runs, kind="curriculum")
        for run, (status, label, seed, _) in zip(runs, outcomes, strict=True):
            if status != "absent":
                folder = root / run.folder
                write_run(status, label=label, seed=seed, folder=folder, config=run.config)
        study.collect()
        return root

    return write
