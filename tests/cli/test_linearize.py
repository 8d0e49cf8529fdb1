"""`lt2 linearize run` from arguments to a student, and its refusals in one line."""

import json
from pathlib import Path

import pytest

from lt2theory.cli import main
from lt2theory.cli.errors import BAD_USAGE, DONE, INTERRUPTED
from lt2theory.linearize.results import load_student
from lt2theory.models import LoopedConfig
from lt2theory.training.lm import Execution, LmConfig, run_lm
from lt2theory.training.text import CorpusConfig, prepare
from tests.linearize.runs import TEACHER


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run of lt2 train, and the text that it was trained on."""
    folder = tmp_path_factory.mktemp("teacher")
    text = folder / "text"
    text.mkdir()
    for number in range(150):
        (text / f"{number}.txt").write_text(f"Chapter {number}. " + "In the beginning " * 9)
    prepare(CorpusConfig(sources=(str(text),)), folder / "tokens")
    config = LmConfig.model_validate(
        {
            "model": LoopedConfig.model_validate(TEACHER),
            "steps": 2,
            "batch_size": 2,
            "sequence_length": 32,
            "evaluate_every": 0,
        }
    )
    run_lm(config, Execution(), data=folder / "tokens", folder=folder / "run")
    return folder / "run", text


def test_from_a_run_and_its_text_to_a_student(
    teacher: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole path on two layers: text prepared with the teacher's tokens, three stages."""
    out, said = tmp_path / "out", tmp_path / "said.json"
    arguments = [
        "linearize",
        "run",
        "tiny",
        "--teacher",
        str(teacher[0]),
        "--text",
        str(teacher[1]),
    ]
    arguments += ["--out", str(out), "--json", str(said)]
    assert main([*arguments, "--minutes", "1e-9"]) == INTERRUPTED
    assert "the same command continues" in capsys.readouterr().err
    assert main([*arguments, "--no-resume"]) == BAD_USAGE
    assert "--no-resume:" in capsys.readouterr().err
    assert main(arguments) == DONE
    printed = capsys.readouterr().out
    assert printed.startswith(f"{out}: finished, run -> gdn, 5120 tokens")
    assert "after distillation:" in printed
    assert json.loads(said.read_text()) == json.loads((out / "summary.json").read_text())
    assert load_student(out).config.pattern == "gdn"
    assert main(arguments) == DONE
    assert "done before" in capsys.readouterr().out
    assert main([*arguments, "--seed", "1"]) == BAD_USAGE
    refused = capsys.readouterr().err
    assert "of another configuration" in refused
    assert refused.endswith("give --overwrite\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "RECIPE: none given"),
        (["--teacher", "x"], "RECIPE: none given"),
        (["tiny"], "--teacher: no value given"),
        (
            ["tinny", "--teacher", "x", "--text", "y"],
            "recipe: 'tinny' is not allowed, perhaps you meant tiny (choose from tiny, ",
        ),
        (["tiny", "--teacher", "x", "--text", "y"], "teacher: 'x' is not allowed"),
        (["tiny", "--teacher", "x", "--text", "y", "--minutes", "0"], "minutes: got 0.0"),
        (["tiny", "--teacher", "x", "--text", "y", "--seed", "-1"], "seed: got -1"),
        (["a.toml", "--teacher", "x", "--text", "y", "--tokens", "9"], "--tokens: is not allowed"),
        (["a.toml", "--teacher", "x", "--text", "y"], "recipe: 'a.toml' cannot be read"),
    ],
)
def test_refusals(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["linearize", "run", *arguments]) == BAD_USAGE
    said = capsys.readouterr().err.strip()
    assert message in said
    assert "\n" not in said


def test_another_text_is_refused(
    teacher: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "linearize",
        "run",
        "tiny",
        "--teacher",
        str(teacher[0]),
        "--out",
        str(tmp_path / "o"),
    ]
    assert main([*arguments, "--text", str(tmp_path / "nothing")]) == BAD_USAGE
    assert "text: " in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["linearize", "run", "--help"])
    assert "smollm2-gdn" in capsys.readouterr().out
