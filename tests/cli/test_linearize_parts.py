"""`lt2 linearize select` and `evaluate`, from a trained looped teacher to a table."""

import json
from pathlib import Path

import pandas as pd
import pytest

from lt2theory.cli import main
from lt2theory.linearize.recipe_b import pre_alignment_stage
from lt2theory.report.dispatch import report_path
from lt2theory.report.provenance import provenance_of_evaluation

Output = pytest.CaptureFixture[str]

TEACHER = """
    --preset toy-full --model.vocab-size 258 --model.num-loops 2 --model.num-layers 2 --steps 3
    --model.width 32 --batch-size 2 --sequence-length 32 --evaluate-every 0 --threads 1
"""
SELECT = """
    --keep 1 --seeds 1 --steps 2 --last 1 --batch-size 2 --sequence-length 16 --top-k 8
    --probe-windows 1 --probe-length 24 --threads 1
"""
EVALUATE = """
    --parts recovery mqar speed --documents 2 --length 64 --pairs 2 --recalls 4
    --speed-lengths 8 --speed-steps 2
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A corpus, a looped teacher that has taken three steps, and its aligned student."""
    folder = tmp_path_factory.mktemp("made")
    text, teacher, student = (folder / name for name in ("text", "teacher", "student"))
    options = ["--sources", "excerpt", "--piece-bytes", "500", "--out", str(text)]
    assert main(["data", "prepare", *options]) == 0
    assert main(["train", "--data", str(text), *TEACHER.split(), "--out", str(teacher)]) == 0
    stage = pre_alignment_stage(128, batch_size=2, sequence_length=32)
    recipe = {
        "name": "aligned",
        "stages": [stage.model_dump(mode="json")],
        "calibration_windows": 1,
        "calibration_length": 48,
        "recovery_windows": 0,
    }
    (folder / "recipe.json").write_text(json.dumps(recipe))
    where = ["--teacher", str(teacher), "--text", str(text), "--out", str(student)]
    run = ["linearize", "run", str(folder / "recipe.json"), *where, "--threads", "1"]
    assert main(run) == 0
    return {"text": text, "teacher": teacher, "student": student}


def parts(made: dict[str, Path], verb: str, *argv: str) -> int:
    where = ["--teacher", str(made["teacher"]), "--text", str(made["text"])]
    return main(["linearize", verb, str(made["student"]), *where, *argv])


def test_a_selection_ends_in_a_recipe(
    made: dict[str, Path], tmp_path: Path, capsys: Output
) -> None:
    out, copy = tmp_path / "selection", tmp_path / "copy.json"
    argv = [*SELECT.split(), "--out", str(out), "--json", str(copy)]
    assert parts(made, "select", *argv) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == str(out / "recipe.json")
    summary = json.loads(copy.read_text())
    (layer,) = summary["chosen"]["trained"]
    assert f"  trained      {layer}; 1 of 1 seeds alone choose the same" in printed
    recipe = json.loads((out / "recipe.json").read_text())
    assert recipe["stages"][1]["restore"] == [layer]
    page = report_path(out).read_text()
    assert "not known" not in page
    assert "does not say what it ran on" not in page
    assert parts(made, "select", *argv) == 0
    assert capsys.readouterr().out.splitlines()[-1] == printed[-1]


def test_an_evaluation_ends_in_a_table(
    made: dict[str, Path], tmp_path: Path, capsys: Output
) -> None:
    out, copy = tmp_path / "evaluation", tmp_path / "copy.json"
    argv = [*EVALUATE.split(), "--out", str(out), "--json", str(copy)]
    assert parts(made, "evaluate", *argv) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == str(out / "evaluation.parquet")
    assert any("recovery 64 kl" in line and "[" in line for line in printed)
    assert any("mqar 2 recalled" in line and "(floor 0.5)" in line for line in printed)
    table = pd.read_parquet(out / "evaluation.parquet")
    assert len(json.loads(copy.read_text())["rows"]) == len(table)
    facts = provenance_of_evaluation(out).facts
    assert "not known" not in facts.values()
    assert ", lm run " in facts["teacher"]
    assert ", linearize run aligned, seed 0, configuration " in facts["student"]
    assert facts["student"].split(", on ")[1].startswith("cpu")
    assert parts(made, "evaluate", *argv, "--seed", "1") == 2
    assert "holds another evaluation (other config)" in capsys.readouterr().err


def test_what_is_refused_names_its_field(
    made: dict[str, Path], tmp_path: Path, capsys: Output
) -> None:
    out = ["--out", str(tmp_path / "x")]
    assert parts(made, "evaluate", *out, "--parts", "nothing") == 2
    assert "--parts" in capsys.readouterr().err
    assert parts(made, "select", *out, "--minutes", "0") == 2
    assert "minutes: got 0" in capsys.readouterr().err
    assert parts(made, "select", *out, "--steps", "5", "--last", "2") == 2
    assert "last: 2 must divide steps, 5" in capsys.readouterr().err
