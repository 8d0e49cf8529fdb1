"""`analyze_run` on small runs: tables, words, refusals."""

import json

import pandas as pd
import pytest
import torch

from lt2theory.cli import main
from lt2theory.experiments.analysis_outcome import outcome
from lt2theory.experiments.analyze import analyze_run
from lt2theory.runs import RunFolder
from lt2theory.training import CurriculumConfig, TaskConfig, run_curriculum
from tests.kernel_runs import name_kernels


@pytest.fixture
def trained(tmp_path):
    """Trains for two steps: `trained(pattern, task, **model fields)` gives the folder."""

    def train(pattern="deltanet", task="group_word", knobs=None, stage=8, **fields):
        run = {
            name: fields.pop(name)
            for name in ("stages", "pass_mark", "optimiser")
            if name in fields
        }
        knobs = {"group": "S3"} if knobs is None else knobs
        config = CurriculumConfig(
            task=TaskConfig(name=task, knobs=knobs),
            model={
                "width": 8,
                "num_heads": 2,
                "num_layers": 2,
                "num_loops": 2,
                "pattern": pattern,
                "window": 3,
                "conv_width": 0,
                **fields,
            },
            stages=run.pop("stages", (stage,)),
            test_stages=(),
            step_budget=2,
            batch_size=4,
            evaluate_every=2,
            evaluation_size=64,
            confirmation_size=64,
            test_size=64,
            checkpoint_every=2,
            threads=1,
            label="arm",
            **run,
        )
        run_curriculum(config, tmp_path / "run")
        return tmp_path / "run"

    return train


def text_of(analysis):
    return " ".join(" ".join(found) for found in analysis.facts["findings"].values())


def test_a_run_of_a_gpu_is_analysed_on_the_cpu(trained, capsys):
    folder = trained(loop_state="accumulate", num_loops=1)
    expected = analyze_run(folder, instances=3)
    name_kernels(folder)
    assert main(["analyze", str(folder), "--instances", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("report.html")
    found = analyze_run(folder, instances=3)
    assert found.facts["findings"] == expected.facts["findings"]


def test_a_word_problem_under_accumulate(trained, capsys, tmp_path):
    folder = trained(loop_state="accumulate")
    assert (
        main(["analyze", str(folder), "--instances", "3", "--json", str(tmp_path / "a.json")]) == 0
    )
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == str(folder / "analysis" / "report.html")
    facts = json.loads((tmp_path / "a.json").read_text())
    assert (facts["instances"], facts["length"], facts["stage"]) == (3, 8, 8)
    tables = {path.stem: pd.read_parquet(path) for path in (folder / "analysis").glob("*.parquet")}
    assert tables.keys() == {
        "residuals",
        "first_token",
        "transitions",
        "spectrum",
        "states",
        "elements",
        "representations",
        "group_readout",
        "group_heads",
        "group_silenced",
        "influence",
        "weight_gradients",
        "state_gradients",
    }
    elements = tables["elements"]
    assert set(elements["reference"]) <= {0, 1, 2}
    assert tables["transitions"]["acts_on_state"].all()
    page = (folder / "analysis" / "report.html").read_text()
    assert "product of the transitions really acts on that state (L2)" in page
    assert "No representation can be named: the product is not tracked" in page
    assert facts["findings"]["The representation that the model found"][0].startswith("No repr")
    assert "http" not in page.replace("http-equiv", "")


def test_a_run_that_failed_says_which_length_and_whose_the_ranks_are(trained, capsys):
    folder = trained(stages=(8, 16, 32))
    assert main(["analyze", str(folder), "--instances", "2", "--stage", "16"]) == 0
    said = capsys.readouterr().out
    failed = (
        "The run did not learn stage 8 (8 tokens) in 2 steps and was not trained on stages 16, 32. "
        "All numbers here, ranks among them, are of a model that failed."
    )
    assert said.startswith(f"What was not learnt:\n  {failed}\n")
    assert "  These are ranks of a model that did not learn stage 8.\n  T = 1: rank" in said
    assert (folder / "analysis" / "report.html").read_text().count(failed) == 2
    (folder / "summary.json").unlink()
    unfinished = analyze_run(folder, instances=2).facts
    assert unfinished["failed_stage"] is None
    assert unfinished["findings"]["What was not learnt"] == [
        "The run has not ended: stage 8 (8 tokens) is not learnt yet. All numbers here, ranks "
        "among them, are of a model in training."
    ]


def test_a_run_that_solved_its_stages_is_of_a_solution(trained):
    folder = trained(pass_mark=0.01)
    assert RunFolder.open(folder).summary()["status"] == "solved"
    analysis = analyze_run(folder, instances=2)
    assert (analysis.facts["failed_stage"], analysis.facts["failure"]) == (None, "")
    assert "What was not learnt" not in analysis.facts["findings"]
    assert "did not learn" not in text_of(analysis)


def test_a_run_that_diverged_says_when(trained):
    run = RunFolder.open(trained(optimiser={"learning_rate": 1e30, "warmup_steps": 0}))
    found = outcome(run, CurriculumConfig.model_validate(run.config))
    assert found["failed_stage"] == 8
    assert found["failure"] == "The run did not learn stage 8 (8 tokens): it diverged at step 2."


def test_rescan_says_that_the_product_acts_on_no_state(trained):
    analysis = analyze_run(trained("gdn,full", output_gate=True), instances=2)
    page = analysis.report.read_text()
    assert "acts on no single state (L1)" in page
    assert "(L6)" in page
    assert "carries the group" not in text_of(analysis)
    assert "the output gate lets" in text_of(analysis)
    gated = analysis.tables["first_token"].query("kind == 'attention'")
    assert (gated["passed"] < gated["mass"]).all()


def test_pure_attention_has_no_transitions(trained):
    analysis = analyze_run(trained("window", "parity", {}, stage=16), instances=2)
    assert "transitions" not in analysis.tables
    assert "The model has attention alone" in text_of(analysis)
    assert "The reach of W1 is 5, 9 tokens and is kept" in text_of(analysis)
    reached = analysis.tables["influence"].query("reached").groupby("loops_done")["distance"].max()
    assert reached.tolist() == [4, 8]
    assert analysis.tables["law"]["away_from_start"].all()


def test_a_mixer_that_erases_nothing_says_so(trained):
    analysis = analyze_run(trained("linear_attention"), instances=2)
    assert "No mixer here erases" in text_of(analysis)
    found = analysis.facts["findings"]["The group, element by element"]
    assert len(found) == 1
    assert found[0].startswith("This comparison does not apply: no mixer here erases")


def test_runs_of_other_kinds_are_refused(tmp_path):
    identity = {"label": "x", "seed": 0, "task": "none"}
    with RunFolder.writing(tmp_path / "run", kind="linearize", config={}, identity=identity):
        pass
    with pytest.raises(ValueError, match="holds a linearize run; expected a run of 'lt2 curr"):
        analyze_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("absent", "absent is not a folder; expected a run's folder"),
        (".", ". is not a run: it has no config.json"),
        ("absent --instances 0", "--instances: 0 is not allowed"),
        ("absent --json no/x.json", "--json: 'no/x.json' cannot be written (no folder no)"),
    ],
)
def test_refusals(argv, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", *argv.split()]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"lt2: error: {line}")
    assert captured.err.count("\n") == 1


def test_a_stage_that_the_task_lacks_is_refused(trained):
    folder = trained()
    with pytest.raises(ValueError, match="stage"):
        analyze_run(folder, stage=0)
    assert not (folder / "analysis").exists()
    assert torch.get_default_dtype() == torch.float32
