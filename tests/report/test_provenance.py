"""Footers of reports."""

import warnings

from lt2theory.report.provenance import provenance_of, provenance_of_evaluation
from lt2theory.runs import RunFolder, write_json
from lt2theory.runs.environment import ENVIRONMENT, record


def test_versions_seeds_hashes_and_command(write_run):
    runs = [RunFolder.open(write_run(seed=seed)) for seed in (3, 1)]
    footer = provenance_of(runs, command="lt2 demo")
    assert footer.facts["command"] == "lt2 demo"
    assert footer.facts["seeds"] == "3, 1"
    assert footer.facts["device"] == "cpu"
    assert footer.facts["packages"] == "torch 2.13.0"
    assert footer.facts["Python"] == "not known"
    assert footer.runs["configuration"].tolist() == [run.config_hash for run in runs]
    assert footer.runs["status"].tolist() == ["done", "done"]
    assert footer.runs["learning rate"].tolist() == ["0.01", "0.01"]
    assert footer.warnings == []


def test_unfinished_resumed_and_silent_runs_are_announced(write_run):
    unfinished, silent = write_run("unfinished", seed=0), write_run(seed=1)
    with warnings.catch_warnings(action="ignore"):
        other = {"device": "cpu", "threads": 1, "packages": {"torch": "2.14.0"}}
        record(unfinished, other, step=200)
    (silent / ENVIRONMENT).unlink()
    footer = provenance_of([RunFolder.open(path) for path in (unfinished, silent)])
    assert footer.warnings == [
        "arm-0 was resumed at step 200 in another environment: torch: 2.13.0 -> 2.14.0.",
        "arm-1 does not say what it ran on.",
        "Not finished, so only partly shown: arm-0.",
    ]
    assert "command" not in footer.facts


def test_no_runs_at_all():
    footer = provenance_of([])
    assert footer.runs.empty
    assert footer.facts["packages"] == "not known"


def test_an_evaluation_says_what_it_compared_and_ran_on(tmp_path):
    model = {"name": "small", "weights": "0123456789abcdef"}
    about = {"student": model, "corpus": "f" * 64, "dtype": "bfloat16", "device": "GPU"}
    write_json(tmp_path / "config.json", {"about": about, "config": {"seed": 3, "split": "test"}})
    here = {"device": "GPU", "threads": 2, "packages": {"torch": "2.13.0"}}
    record(tmp_path, here | {"student": "lm run x, seed 0"}, step=0)
    with warnings.catch_warnings(action="ignore"):
        record(tmp_path, here | {"threads": 1, "student": "lm run x, seed 0"}, step=2)
    footer = provenance_of_evaluation(tmp_path, command="lt2 x")
    facts = footer.facts
    assert facts["command"] == "lt2 x"
    assert facts["student"] == "small, weights 0123456789ab, lm run x, seed 0"
    assert facts["teacher"] == "not known"
    assert facts["text"] == "corpus ffffffffffff, test"
    assert (facts["device"], facts["threads a run"], facts["precision"]) == ("GPU", "2", "bfloat16")
    assert (facts["packages"], facts["seeds"]) == ("torch 2.13.0", "3")
    (warning,) = footer.warnings
    assert warning.endswith("was resumed at step 2 in another environment: threads: 2 -> 1.")


def test_an_old_evaluation_still_knows_its_device(tmp_path):
    about = {"dtype": "float32", "device": "GPU"}
    write_json(tmp_path / "config.json", {"about": about, "config": {}})
    footer = provenance_of_evaluation(tmp_path)
    assert (footer.facts["device"], footer.facts["precision"]) == ("GPU", "float32")
    assert footer.facts["packages"] == "not known"
    assert footer.warnings == [f"{tmp_path.name} does not say what it ran on."]
